"""The state compiler: from text to an ordered list of checked calls."""

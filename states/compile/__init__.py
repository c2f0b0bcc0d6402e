"""From high data to checked calls in order."""

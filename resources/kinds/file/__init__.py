"""Files, directories and links: what is there, with which content, owner and mode."""

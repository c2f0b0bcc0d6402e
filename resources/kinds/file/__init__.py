"""Files, directories and links: their existence, content, owner and mode."""

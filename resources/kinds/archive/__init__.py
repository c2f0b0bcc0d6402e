"""The kinds of archives, and what they use to read hostile ones."""

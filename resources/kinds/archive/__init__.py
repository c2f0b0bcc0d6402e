"""The kinds of archives, and the code that safely reads hostile archives."""

"""The kinds of shell commands."""

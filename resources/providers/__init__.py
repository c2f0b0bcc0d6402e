"""Providers: each serves an interface with one tool."""

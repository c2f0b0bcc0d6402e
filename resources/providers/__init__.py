"""Providers: one tool each."""

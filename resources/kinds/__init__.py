"""Kinds: one family of states each."""

"""Runs of vertices, reversals, and the search for resources that undo each other."""

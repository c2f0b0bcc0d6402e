"""Runs of vertices: attempts, guards, reversals, and the search for resources that undo each other."""

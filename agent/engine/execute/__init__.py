"""Runs of vertices: attempts, guards, reversals, and who undoes what they did."""

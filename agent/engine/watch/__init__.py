"""Watches of vertices, the background tasks that they share, and vertices that leave the graph."""

"""Watches of vertices, the background tasks that watches share, and vertices that leave the graph."""

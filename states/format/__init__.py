"""The canonical form of state files."""

"""The engine: keeps a graph of resources right, in requisite order."""

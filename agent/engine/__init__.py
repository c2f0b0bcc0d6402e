"""The engine: keeps the resources of a graph as declared, in requisite order."""

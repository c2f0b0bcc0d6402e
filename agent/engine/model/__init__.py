"""Data of the engine: vertices and their graph, options, outcomes and events."""

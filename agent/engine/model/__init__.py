"""What the engine works on: vertices and their graph, options, outcomes and events."""

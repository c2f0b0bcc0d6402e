"""Pictures of a graph: an SVG drawn here, and texts that other programs draw."""

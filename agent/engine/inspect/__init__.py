"""What the engine tells about itself: status, counts, explanations."""

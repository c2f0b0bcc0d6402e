"""Read access to the engine: status, counts, explanations."""

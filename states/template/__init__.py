"""Templates: rendering, its limits, and what templates see of the host."""

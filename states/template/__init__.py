"""Templates: the environment, rendering, and analysis without rendering."""

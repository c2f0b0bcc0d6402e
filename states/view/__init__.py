"""The host as templates see it: its data, matching and lookup in them, and what a template may use."""

"""The host as templates see it: its data, functions that search these data, and limits of templates."""

"""Live messages beside the database: hints and events for those who listen, never the truth."""

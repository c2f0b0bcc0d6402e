"""Live messages in addition to the database: hints and events for listeners, never the only copy of data."""

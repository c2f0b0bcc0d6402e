"""From text to data that knows its lines."""

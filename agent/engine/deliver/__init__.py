"""Deliveries: the journal, and the changes and values that edges carry, at least once."""

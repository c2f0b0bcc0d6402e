"""Who is told of a change, at least once: the journal and what travels along edges."""

"""What the agent writes down: passes, changes, conditions and notes, in the northbound store of this host."""

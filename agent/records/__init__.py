"""The agent's records: passes, changes, conditions and notes, in the northbound store of this host."""

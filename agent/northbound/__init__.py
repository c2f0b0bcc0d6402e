"""The northbound store: everything that the agent knows and is asked for, as typed records that can be watched."""

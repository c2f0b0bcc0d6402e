"""The northbound store: all knowledge of the agent, and all requests to it, as typed records that can be watched."""

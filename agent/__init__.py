"""The agent: time, the machine, the command line."""

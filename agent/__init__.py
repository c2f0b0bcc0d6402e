"""The agent: runs resources over time, with access to the machine, and has the command line."""

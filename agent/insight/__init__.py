"""To see into the running agent: what came of each resource, where a pass spent its time, figures for monitoring, a live view."""

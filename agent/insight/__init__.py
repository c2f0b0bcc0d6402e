"""Insight into the running agent, for operators: history of resources, traces of passes, metrics, a live view."""

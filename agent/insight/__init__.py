"""What operators see of the running agent: history of resources, traces of passes, metrics, a live view."""

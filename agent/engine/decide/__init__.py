"""Decides whether a vertex runs: requisites, probes for prereqs, finished actions."""

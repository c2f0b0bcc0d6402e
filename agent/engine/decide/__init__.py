"""Whether a vertex that may run has to: requisites, probes for prereq, actions that are done."""

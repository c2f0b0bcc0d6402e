# The directory that the states manage: it is beside the agent's own, so that nothing outside of .private is changed.
root: {{ opts.state_dir.rpartition('/')[0] }}/host

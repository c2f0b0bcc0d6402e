# The directory that the states manage. It is next to the agent's own, so that nothing outside of .private is changed.
root: {{ opts.state_dir.rpartition('/')[0] }}/host

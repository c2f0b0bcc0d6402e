# What the states manage: a directory beside the agent's own, so that nothing outside of .private is touched.
root: {{ opts.state_dir.rpartition('/')[0] }}/host

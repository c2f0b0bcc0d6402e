"""Services for resources: commands, files, paths, D-Bus, sources."""

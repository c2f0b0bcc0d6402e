"""What a resource is handed: commands, files, paths, D-Bus, sources."""

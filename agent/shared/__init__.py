"""Data that hosts share by etcd: the strings and host maps of `Context.world`, and which agents run."""

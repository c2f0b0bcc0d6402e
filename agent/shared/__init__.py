"""What hosts share by way of etcd: the strings and host maps of `Context.world`, and which agents run."""

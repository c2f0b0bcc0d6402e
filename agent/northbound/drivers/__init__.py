"""Databases of the northbound store: one process (memory), one machine (sqlite), many machines (etcd)."""

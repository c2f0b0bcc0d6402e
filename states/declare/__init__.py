"""Declarations: from the data of state files to high data, for the state files that apply to a host."""

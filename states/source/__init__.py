"""The files of a states or pillar directory, and how templates see files of this host."""

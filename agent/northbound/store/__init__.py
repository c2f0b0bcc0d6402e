"""The cache of all records, with their indexes."""

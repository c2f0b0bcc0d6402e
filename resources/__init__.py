"""Kinds of resources: how to probe each of them, repair it and watch it."""

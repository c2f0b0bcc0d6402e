"""The model of all kinds and interfaces: a neutral description, built from their classes, for documents and schemas.

Nothing that a run of the agent needs imports this package.
"""

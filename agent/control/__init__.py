"""The running agent's socket: server, client, schema."""

"""What the agent publishes: its presence, conditions, passes and changes, to a broker of MQTT."""

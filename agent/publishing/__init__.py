"""Publishes the agent's presence, conditions, passes and changes to a broker of MQTT."""

"""Remote kinds: the resources that packages declare, as kinds for state files and for the engine."""

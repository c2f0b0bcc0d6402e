"""What a virtual module promises on every platform, and how a provider is chosen."""

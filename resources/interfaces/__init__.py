"""Virtual modules: the interface that each promises on every platform, and the choice of a provider."""

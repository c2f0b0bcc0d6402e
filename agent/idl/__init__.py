"""The compiler of resource packages: checks `idl/`, makes the model, and calls targets that generate files."""

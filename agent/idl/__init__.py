"""The compiler of resource packages: reads `idl/`, checks it, makes the model, and lets each target generate files."""

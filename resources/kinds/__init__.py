"""The built-in kinds: one module or package for each family. `resources/builtin` has their names."""

"""The built-in kinds: one module or package for each family. `resources/builtin` lists their names."""

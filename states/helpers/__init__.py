"""The calls that templates may make: `salt['module.function'](...)`. `table` has all of them; none changes anything."""

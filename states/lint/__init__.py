"""Lint: what compiles, and is still not what its author meant.

`inspect` looks at a tree and tells everything; `rule` is what all rules share, and the other modules are the rules, one idea each. A rule
that cannot be sure is silent: a lint that cries wolf is turned off.
"""

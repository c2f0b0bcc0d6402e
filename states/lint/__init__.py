"""Lint rules: find states that compile, but are probably not what their author meant.

`inspect` runs all rules and reports everything; `rule` has what the rules share; each other module has rules on one
subject. A rule that is not certain reports nothing, because a lint with false alarms is turned off.
"""

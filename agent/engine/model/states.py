"""The state of one resource as one word, and the groups in which the census counts resources."""

from __future__ import annotations

from typing import Literal, NamedTuple

State = Literal[
    "running",
    "blocked",
    "failed",
    "flapping",
    "unwatched",
    "waiting",
    "drifted",
    "would",
    "superseded",
    "skipped",
    "ok",
]
"""The state of one resource as one word: the first of these that holds.

- `blocked`: not run, because a resource that it requires failed
- `unwatched`: its watch has failed and is not armed again yet
- `waiting`: to be checked, now or at a known time
- `drifted`: needs a repair, or may need one, but is paused
- `would`: would be changed, but for noop
- `superseded`: has run once; a later state of the same thing is maintained
"""
QUIET: frozenset[State] = frozenset({"ok", "skipped", "superseded"})
"""States that need no attention."""

URGENT: tuple[State, ...] = ("running", "failed", "flapping", "blocked", "unwatched", "waiting", "drifted", "would")
"""All other states, the most urgent first."""


def urgency(state: str) -> int:
    """Return the sort key of a state: 0 is the most urgent."""
    return URGENT.index(state) if state in URGENT else len(URGENT)


class CensusGroup(NamedTuple):
    """Properties by which the census groups resources."""

    kind: str
    state: State
    dirty: bool
    """The resources are to be checked."""
    watched: bool
    """Their watches are armed."""
    unwatched: bool
    """Their watches have failed."""
    flapping: bool

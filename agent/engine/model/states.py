"""The state of one resource in a word, and what resources have in common that are counted together."""

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
"""The state of one resource in a word: the first of these that holds.

`blocked`: not run, for something that it requires failed; `unwatched`: its watch has failed and is not armed again yet;
`waiting`: it is to be looked at, now or at a known time; `drifted`: it would be repaired but for a pause, or may have to be; `would`: it
would be changed (noop); `superseded`: it has acted once, and a later state of the same thing is kept."""
QUIET: frozenset[State] = frozenset({"ok", "skipped", "superseded"})
"""States of which there is nothing to say."""

URGENT: tuple[State, ...] = ("running", "failed", "flapping", "blocked", "unwatched", "waiting", "drifted", "would")
"""The others, the most urgent first: what is wrong is shown before what is right."""


def urgency(state: str) -> int:
    """The place among all states at which resources in this one are shown."""
    return URGENT.index(state) if state in URGENT else len(URGENT)


class Group(NamedTuple):
    """What resources have in common that are counted together."""

    kind: str
    state: State
    dirty: bool
    """They are to be looked at."""
    watched: bool
    """Their watches are armed."""
    unwatched: bool
    """Their watches have failed."""
    flapping: bool

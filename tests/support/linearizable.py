"""Whether a history of one register is linearizable: the search of Wing and Gong, with the cache of states by Lowe.

Each operation reads the register and writes it, or only reads it, at one moment between its call and its return. If its
outcome is unknown, this moment is at any time after its call, or never.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import NamedTuple


class Operation(NamedTuple):
    """One call of a client."""

    began: float
    ended: float
    """`inf`: the outcome is unknown."""
    read: str
    """The value that it found."""
    wrote: str | None = None
    """The value that it wrote; None: it only read."""


def linearizable(history: Sequence[Operation], first: str) -> bool:
    """Return whether the operations of a register, whose first value is given, can have happened one after the other.

    From each state, the search tries every operation that no other one must precede. It visits no state twice.
    """
    operations = sorted(history, key=lambda each: each.began)
    sure = sum(1 << number for number, each in enumerate(operations) if each.ended < inf)
    states = [(0, first)]
    known = set(states)
    while states:
        done, value = states.pop()
        if done & sure == sure:
            return True
        end = min(each.ended for number, each in enumerate(operations) if not done >> number & 1)
        for number, each in enumerate(operations):
            if each.began > end:
                break
            if not done >> number & 1 and each.read == value:
                state = (done | 1 << number, value if each.wrote is None else each.wrote)
                if state not in known:
                    known.add(state)
                    states.append(state)
    return False

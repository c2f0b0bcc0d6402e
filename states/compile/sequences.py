"""Sequences of superseded calls, and their versions.

A lenient state file may declare one thing several times, one after the other (a file is managed, packages are
installed, the file is removed). An earlier declaration acts once for each version of its sequence. The sequence
consists of all declarations from the earlier one to the last one, because those in between are the reason for the
earlier one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

from holdfast.states.data import Call, Superseded

PLACES = frozenset({"order", "name_order"})
"""Keys of low data that give the position of a call, and do not affect its effect."""
ROOM = 1 << 128
"""Upper bound of the numbers that are versions."""


def superseded(calls: tuple[Call, ...], later: Mapping[str, Sequence[str]]) -> tuple[Call, ...]:
    """Return the calls; those in `later` (identity -> identities of later calls) are marked as superseded by these."""
    if not later:
        return calls
    positions = {call.identity: call.position for call in calls}
    # sums over all calls, so that many overlapping sequences cost no more than one
    totals = [
        0,
        *accumulate(_number(call) for call in calls),
    ]
    changed = [*calls]
    for identity, others in later.items():
        here, by = positions[identity], tuple(sorted(positions[other] for other in others))
        version = (totals[by[-1] + 1] - totals[here]) % ROOM
        changed[here] = replace(calls[here], superseded=Superseded(by, f"{version:032x}"))
    return tuple(changed)


def _number(call: Call) -> int:
    """Return a number for a declaration, which may contain secrets: the number is used only for a digest."""
    said = {key: value for key, value in call.low.items() if key not in PLACES}
    return int.from_bytes(hashlib.blake2b(repr(said).encode("utf-8", "surrogatepass"), digest_size=16).digest())

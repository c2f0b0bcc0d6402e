"""Sequences: calls that later ones supersede, and what one version of such a sequence is.

A lenient state file may declare one thing several times, one after the other (a file is managed, packages are installed, the file is removed).
The earlier declarations act once for each version of the sequence: the declarations from the earlier one to the last, with all between,
for what stands between is what the earlier one is there for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

from holdfast.states.data import Call, Superseded

PLACES = frozenset({"order", "name_order"})
"""Keys of low data that say where a call stands, and nothing of what it does."""
ROOM = 1 << 128
"""Versions are numbers below this."""


def superseded(calls: tuple[Call, ...], later: Mapping[str, Sequence[str]]) -> tuple[Call, ...]:
    """The calls, those in `later` with what supersedes them: identity -> identities. Costs nothing where there are none."""
    if not later:
        return calls
    positions = {call.identity: call.position for call in calls}
    totals = [
        0,
        *accumulate(_number(call) for call in calls),
    ]  # so that many sequences that overlap cost no more than one
    changed = [*calls]
    for identity, others in later.items():
        here, by = positions[identity], tuple(sorted(positions[other] for other in others))
        version = (totals[by[-1] + 1] - totals[here]) % ROOM
        changed[here] = replace(calls[here], superseded=Superseded(by, f"{version:032x}"))
    return tuple(changed)


def _number(call: Call) -> int:
    """What the declaration of a call comes to; it may hold secrets, so it goes no further than into a digest."""
    said = {key: value for key, value in call.low.items() if key not in PLACES}
    return int.from_bytes(hashlib.blake2b(repr(said).encode("utf-8", "surrogatepass"), digest_size=16).digest())

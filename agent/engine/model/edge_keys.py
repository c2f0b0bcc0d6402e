"""Keys of resources in the journal: matches new states with known resources, and decides which deliveries to keep.

The journal counts changes and deliveries by key. A key belongs to the thing that a state manages (kind and name), not
to its ID, so a pending refresh survives a new ID. If no state manages the thing any more, the key stays with the ID: a
corrected command is still the same state.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.states.requisite_kinds import CARRIES, REFRESHING

Edge = tuple[str, str, str]
"""(upstream, downstream, kind): keys, and `watch`, `onchanges`, `listen` or `onfail`."""
_REFRESHES = {CARRIES[kind] for kind in REFRESHING}
_OTHER_REFRESH = {kind: other for kind in _REFRESHES for other in _REFRESHES - {kind}}
"""Each of the two deliveries that refresh -> the other one. A state that changes between them keeps its deliveries."""
KEPT = 30 * 86400.0
"""Seconds for which a pending delivery is kept while one of its ends is not declared."""
DAY = 86400.0
"""Most seconds counted between the last adoption of one process and the first of the next.

Only Unix time spans two processes, and it may jump.
"""


class End(NamedTuple):
    """A resource that the journal remembers."""

    thing: str
    """Digest of the thing that the resource manages, as `thing` returns it; empty in a journal of an older version."""
    identity: str
    """`kind[id]` of the state that declared the resource last."""
    absent: float | None = None
    """Counted seconds for which no state has declared the resource; None: it is declared."""


class PendingDelivery(NamedTuple):
    """A pending delivery."""

    upstream: str
    """Identity of the resource that has changed or failed."""
    downstream: str
    """Identity of the resource to notify."""
    kind: str
    """`watch`, `onchanges`, `listen` or `onfail`."""


class Adoption(NamedTuple):
    """The result of taking over new states."""

    keys: Mapping[str, str]
    """Identity -> key."""
    dropped: tuple[PendingDelivery, ...]
    """Deliveries that were due and have been dropped."""


@dataclass(slots=True, eq=False, repr=False)
class Settlement:
    """Changes of the delivery records that new states require."""

    put: dict[Edge, int] = field(default_factory=dict)
    """New edge -> change count that it has delivered."""
    gone: list[Edge] = field(default_factory=list)
    """Edges to forget."""
    dropped: list[Edge] = field(default_factory=list)
    """Edges in `gone` that had a pending delivery."""


def thing(kind: str, name: str) -> str:
    """Return a digest of what a state manages: names may be long or hold secrets."""
    return hashlib.blake2b(f"{kind} {name}".encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def pair(known: Mapping[str, End], declared: Mapping[str, str]) -> dict[str, str]:
    """Return identity -> key of each declared resource. `declared`: identity -> thing."""
    by_identity = {end.identity: key for key, end in known.items() if end.absent is not None}
    by_identity |= {end.identity: key for key, end in known.items() if end.absent is None}
    keys: dict[str, str] = {}
    for who, what in declared.items():
        key = by_identity.get(who)
        if key is not None and known[key].thing == what:
            keys[who] = key
    left = [who for who in declared if who not in keys]
    if left:
        _pair_by_thing(left, keys, known, declared)
        _pair_the_rest(left, keys, known, by_identity)
    return keys


def _pair_by_thing(
    left: Iterable[str], keys: dict[str, str], known: Mapping[str, End], declared: Mapping[str, str]
) -> None:
    """Give each resource that manages a known thing under a new ID the key of that thing."""
    claimed = set(keys.values())
    by_thing: dict[str, list[str]] = {}
    for key, end in known.items():
        if key not in claimed:
            by_thing.setdefault(end.thing, []).append(key)
    for who in left:
        if same := by_thing.get(declared[who]):
            keys[who] = same.pop(0)


def _pair_the_rest(
    left: Iterable[str], keys: dict[str, str], known: Mapping[str, End], by_identity: Mapping[str, str]
) -> None:
    """Give each resource without a key the key of its identity or, if that is taken, a new one."""
    claimed = set(keys.values())
    for who in left:
        if who not in keys:
            key = by_identity.get(who)
            keys[who] = key if key is not None and key not in claimed else _new(who, known, claimed)
            claimed.add(keys[who])


def matching(
    known: Mapping[str, End], declared: Mapping[str, str], others: Iterable[tuple[str, str]]
) -> dict[str, str]:
    """Return identity -> thing of the resources in `others` that the journal still knows.

    `declared` are the resources that the journal has to remember. The others are read only if the journal knows a
    resource that is not declared: computing their things takes time.
    """
    identities = {end.identity for end in known.values()} - declared.keys()
    things = {end.thing for end in known.values()}.difference(declared.values())
    return {who: what for who, what in others if who in identities or what in things} if identities or things else {}


def _new(identity: str, known: Mapping[str, End], claimed: Collection[str]) -> str:
    """Return an unused key: the identity if that is free."""
    key, number = identity, 1
    while key in known or key in claimed:
        number += 1
        key = f"{identity} {number}"  # never an identity, which ends with a bracket
    return key


def settle(
    delivered: Mapping[Edge, int],
    current: Collection[Edge],
    count: Callable[[Edge], int],
    ends: Mapping[str, End],
    present: Collection[str],
    *,
    whole: bool,
) -> Settlement:
    """Return how the delivery records change when the edges in `current` replace the old ones.

    `ends` are the remembered resources after the change, `present` the keys of declared ones.

    A new edge starts with nothing pending, unless it is another spelling of an edge that leaves. An edge with a pending
    delivery is kept for `KEPT` while one of its ends is not declared. With only a part of the states (not `whole`),
    each edge with an end that is not declared is kept.
    """
    found = Settlement()
    for edge, done in delivered.items():
        if edge in current:
            continue
        upstream, downstream, kind = edge
        owed = count(edge) > done
        absent = [key for key in (upstream, downstream) if key not in present]
        if absent and (not whole or (owed and _may_return(absent, ends))):
            continue
        other = (upstream, downstream, _OTHER_REFRESH.get(kind, ""))
        found.gone.append(edge)
        if other not in current:
            found.dropped += [edge] if owed else []
        elif other not in delivered:
            found.put[other] = done
    new = (edge for edge in current if edge not in delivered and edge not in found.put)
    found.put.update({edge: counted for edge in new if (counted := count(edge))})
    return found


def _may_return(absent: Iterable[str], ends: Mapping[str, End]) -> bool:
    """Return whether all of these resources have left a short time ago, so that they may be declared again."""
    return all((ends[key].absent or 0.0) < KEPT for key in absent)


def age(
    known: Mapping[str, End], declared: Mapping[str, str], keys: Mapping[str, str], seconds: float | None
) -> dict[str, End]:
    """Return the remembered resources after an adoption, `seconds` after the previous one.

    `seconds` is None if only a part of the states is adopted: that says nothing about the others.
    """
    after = {key: End(declared[who], who) for who, key in keys.items()}
    for key, end in known.items():
        if key not in after:
            after[key] = (
                end if seconds is None else end._replace(absent=0.0 if end.absent is None else end.absent + seconds)
            )
    return after


def needed(
    after: Mapping[str, End], known: Mapping[str, End], wanted: Collection[str], edges: Collection[Edge]
) -> dict[str, End]:
    """Return the resources that are wanted or are an end of an edge.

    A resource that this adoption has removed may still run, so it is kept until the next one.
    """
    bound = {key for edge in edges for key in edge[:2]}
    return {
        key: end
        for key, end in after.items()
        if key in wanted or key in bound or (end.absent == 0.0 and known[key].absent is None)
    }


def named(edge: Edge, ends: Mapping[str, End]) -> PendingDelivery:
    """Return an edge with the identities of its ends."""
    upstream, downstream, kind = edge
    return PendingDelivery(_identity(upstream, ends), _identity(downstream, ends), kind)


def _identity(key: str, ends: Mapping[str, End]) -> str:
    return ends[key].identity if key in ends else key

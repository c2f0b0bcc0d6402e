"""Which resource of new states is which of those that the journal knows, and which deliveries outlive the change.

The journal counts under keys. A key stays with what a state manages (kind and name), whatever its ID: so a refresh that is owed
survives a new ID. Where no state manages that thing any more, the key stays with the ID: a corrected command is still the same state.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

Edge = tuple[str, str, str]
"""(upstream, downstream, kind): keys, and `watch`, `onchanges`, `listen` or `onfail`."""
SPELLINGS = {"watch": "listen", "listen": "watch"}
"""The two ways to ask for a refresh: what is owed to the one is owed to the other."""
KEPT = 30 * 86400.0
"""Seconds for which an owed delivery is kept while one of its ends is not declared."""
DAY = 86400.0
"""Most seconds that count between the last adoption of one process and the first of the next: the clock of the world may jump."""


class End(NamedTuple):
    """A resource about which something is remembered."""

    thing: str
    """What it manages, as `thing` writes it; empty in a journal of older versions."""
    identity: str
    """`kind[id]` of the state that declared it last."""
    absent: float | None = None
    """Seconds for which no state has declared it, as far as they were counted; None: it is declared."""


class Owed(NamedTuple):
    """A delivery that is due."""

    upstream: str
    """Identity of what has changed or failed."""
    downstream: str
    """Identity of what is to be told."""
    kind: str
    """`watch`, `onchanges`, `listen` or `onfail`."""


@dataclass
class Settlement:
    """What becomes of the deliveries of older states."""

    put: dict[Edge, int] = field(default_factory=dict)
    """Edges that are new -> how far they have delivered."""
    gone: list[Edge] = field(default_factory=list)
    """Edges that are forgotten."""
    dropped: list[Edge] = field(default_factory=list)
    """Those of them that were owed something."""


def thing(kind: str, name: str) -> str:
    """What a state manages, as a digest: names may be long, or hold secrets."""
    return hashlib.blake2b(f"{kind} {name}".encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def pair(known: Mapping[str, End], declared: Mapping[str, str]) -> dict[str, str]:
    """The key of each declared resource. `declared`: identity -> thing."""
    by_identity = {end.identity: key for key, end in known.items() if end.absent is not None}
    by_identity.update({end.identity: key for key, end in known.items() if end.absent is None})
    keys = {
        who: key
        for who, what in declared.items()
        if (key := by_identity.get(who)) is not None and known[key].thing == what
    }
    left = [who for who in declared if who not in keys]
    if not left:
        return keys
    claimed = set(keys.values())
    by_thing: dict[str, list[str]] = {}
    for key, end in known.items():
        if key not in claimed:
            by_thing.setdefault(end.thing, []).append(key)
    for who in left:
        if same := by_thing.get(declared[who]):
            keys[who] = same.pop(0)
            claimed.add(keys[who])
    for who in left:
        if who not in keys:
            key = by_identity.get(who)
            keys[who] = key if key is not None and key not in claimed else _new(who, known, claimed)
            claimed.add(keys[who])
    return keys


def matching(
    known: Mapping[str, End], declared: Mapping[str, str], others: Iterable[tuple[str, str]]
) -> dict[str, str]:
    """Those of the other resources that the journal knows though it has nothing to remember of them any more; identity -> thing.

    They are looked at only when something is known that is not declared.
    """
    identities = {end.identity for end in known.values()} - declared.keys()
    things = {end.thing for end in known.values()}.difference(declared.values())
    return {who: what for who, what in others if who in identities or what in things} if identities or things else {}


def _new(identity: str, known: Mapping[str, End], claimed: Collection[str]) -> str:
    """A key that nobody has: the identity, where that is free."""
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
    """What becomes of edges when those in `current` take their place. `ends` are those after that, `present` the keys of what is declared.

    An edge that is new has missed nothing, unless it is another spelling of one that leaves. One that is owed something stays while an
    end of it is not declared, for `KEPT`; when only a part of the states is known (not `whole`), each does.
    """
    found = Settlement()
    for edge, done in delivered.items():
        if edge in current:
            continue
        upstream, downstream, kind = edge
        owed = count(edge) > done
        absent = [key for key in (upstream, downstream) if key not in present]
        if absent and (not whole or (owed and all((ends[key].absent or 0.0) < KEPT for key in absent))):
            continue
        other = (upstream, downstream, SPELLINGS.get(kind, ""))
        found.gone.append(edge)
        if other in current:
            if other not in delivered:
                found.put[other] = done
        elif owed:
            found.dropped.append(edge)
    for edge in current:
        if edge not in delivered and edge not in found.put and count(edge):
            found.put[edge] = count(edge)
    return found


def age(
    known: Mapping[str, End], declared: Mapping[str, str], keys: Mapping[str, str], seconds: float | None
) -> dict[str, End]:
    """The ends after an adoption, `seconds` after the one before; None: of a part of the states, which says nothing of the others."""
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
    """Those that are wanted, or stand at an edge. One that has just left may still run, and so stays once more."""
    bound = {key for edge in edges for key in edge[:2]}
    return {
        key: end
        for key, end in after.items()
        if key in wanted or key in bound or (end.absent == 0.0 and known[key].absent is None)
    }


def named(edge: Edge, ends: Mapping[str, End]) -> Owed:
    """An edge by the identities of its ends."""
    upstream, downstream, kind = edge
    return Owed(_identity(upstream, ends), _identity(downstream, ends), kind)


def _identity(key: str, ends: Mapping[str, End]) -> str:
    return ends[key].identity if key in ends else key

"""Finds contradictions: two states that declare one thing differently, or one that excludes all paths below its own."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, field

from holdfast.resources.contract import Resource, Uid
from holdfast.states.compile.check import conditional
from holdfast.states.compile.low import Chunk, Verdict
from holdfast.states.errors import Problem
from holdfast.states.parse.marks import or_lenient

ONCE = "the earlier one runs once, in its place in the order, and the later one is maintained"
"""Effect of a contradiction if the earlier state is lenient."""
KEEP_ONE = "keep one of the two"


@dataclass(slots=True, eq=False, repr=False)
class Contradictions:
    """The contradictions of all states."""

    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    """Contradictions in which one state applies under a condition, or the earlier one is lenient."""
    superseded: dict[str, list[str]] = field(default_factory=dict)
    """Identity of a lenient state -> identities of later states that contradict it, in order of execution."""


def contradictions(chunks: Iterable[Chunk]) -> Contradictions:
    """Find states that declare one thing differently; `chunks` are in order of execution."""
    found = Contradictions()
    owners: dict[Uid, list[tuple[Chunk, Resource, bool]]] = {}
    for chunk, resource, places in _shared(chunks):
        reported = False
        for uid, own in places.items():
            others = owners.setdefault(uid, [])
            clashes = _clashes(others, chunk, resource, own=own)
            others.append((chunk, resource, own))
            strict = _strict(found, chunk, uid, clashes)
            if strict and not reported:
                reported = True
                sometimes, message = min(strict, key=lambda clash: clash[0])
                if sometimes:
                    found.warnings.append(chunk.spot.problem("contradiction-possible", message, KEEP_ONE))
                else:
                    found.problems.append(chunk.spot.problem("contradiction", message, or_lenient(KEEP_ONE)))
    return found


def _clashes(
    others: Iterable[tuple[Chunk, Resource, bool]], chunk: Chunk, resource: Resource, *, own: bool
) -> list[tuple[bool, Chunk, str]]:
    """Return earlier chunks that contradict this one: (whether one of the two is conditional, chunk, reason).

    All earlier chunks are compared, because compatibility is not transitive: two states that differ may both be
    compatible with a third one.
    """
    return [
        (conditional(other, chunk), other, why)
        for other, theirs, its in others
        if (own or theirs.spreads)
        and (its or resource.spreads)
        and (own or its)
        and (why := theirs.contradicts(resource))
    ]


def _strict(
    found: Contradictions, chunk: Chunk, uid: Uid, clashes: Iterable[tuple[bool, Chunk, str]]
) -> list[tuple[bool, str]]:
    """Record lenient states as superseded; returns the other clashes: whether conditional, and the message."""
    strict = []
    for sometimes, owner, why in clashes:
        if sometimes or not owner.spot.document.lenient:
            strict.append((sometimes, _message(chunk, owner, uid, why)))
        elif chunk.identity not in (later := found.superseded.setdefault(owner.identity, [])):
            if not later:
                message = _message(owner, chunk, uid, why)
                found.warnings.append(owner.spot.accepted("contradiction", message, ONCE, KEEP_ONE))
            later.append(chunk.identity)
    return strict


def _message(here: Chunk, there: Chunk, uid: Uid, why: str) -> str:
    both = f"{here.identity} and {there.identity} ({there.spot.location})"
    return f"{both} declare the same {uid[0]} {uid[1]} differently: {why}"


def _shared(chunks: Iterable[Chunk]) -> list[tuple[Chunk, Resource, dict[Uid, bool]]]:
    """Return the chunks that share a uid with another one, and their uids.

    Each with whether it is their own or only above their path.
    """
    claims = _claims(chunks)
    spreading = {uid for _, verdict in claims if verdict.resource.spreads for uid in verdict.uids}
    twice = _claimed_twice(claims, spreading)
    if not twice:
        return []
    found = ((chunk, verdict.resource, _places(verdict.uids, spreading)) for chunk, verdict in claims)
    return [each for each in found if not twice.isdisjoint(each[2])]


def _claims(chunks: Iterable[Chunk]) -> list[tuple[Chunk, Verdict]]:
    """Return the valid chunks whose kind excludes other states with the same uid."""
    checked = ((chunk, chunk.checked) for chunk in chunks if chunk.checked is not None)
    return [(chunk, verdict) for chunk, verdict in checked if verdict.resource.exclusive or verdict.resource.partial]


def _claimed_twice(claims: Iterable[tuple[Chunk, Verdict]], spreading: Container[Uid]) -> set[Uid]:
    """Return the uids that more than one chunk claims, paths above their own included."""
    first: dict[Uid, Chunk] = {}
    return {
        uid
        for chunk, verdict in claims
        for uid in (_places(verdict.uids, spreading) if spreading else verdict.uids)
        if first.setdefault(uid, chunk) is not chunk
    }


def _places(uids: Iterable[Uid], spreading: Container[Uid]) -> dict[Uid, bool]:
    """Return the uids of a resource and of the paths above it; each with whether it is the resource's own."""
    places = dict.fromkeys(uids, True)
    for path in [value for kind, value in places if kind == "path"] if spreading else ():
        above = path.rpartition("/")[0]
        while above:
            if ("path", above) in spreading:
                places.setdefault(("path", above), False)
            above = above.rpartition("/")[0]
    return places

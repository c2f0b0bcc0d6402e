"""Selects states by names and patterns (`--only`), with all other states that they need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

from holdfast.resources.errors import HoldfastError
from holdfast.resources.spelling import nearest
from holdfast.states.compile.automatic import automatic
from holdfast.states.data import Call
from holdfast.states.requisite_kinds import LISTENING, PROBED, targets_of

CANDIDATES = 10_000
"""Maximum number of names that are compared to find a similar one."""


class NothingMatches(HoldfastError):
    """A name or pattern matches no state."""


def selected(calls: Sequence[Call], words: Iterable[str], *, autoedge: bool) -> frozenset[str]:
    """Return the identities of the states that the words match, and of all states that these need.

    As with Salt's `state.sls_id` and terraform's `-target`, a state needs the targets of its requisites, the targets of
    its automatic edges (if `autoedge`), and the states that have it as their prereq. It does not need states to which
    it only listens. States that watch a selected state are not needed: their refresh stays pending. Raises
    `NothingMatches` with all words that match no state.
    """
    found: set[int] = set()
    problems: list[str] = []
    for word in dict.fromkeys(words):
        positions = _meant(calls, word)
        found.update(positions)
        if not positions:
            problems.append(_missing(calls, word))
    if problems:
        raise NothingMatches("; ".join(problems))
    return frozenset(calls[position].identity for position in _needed(calls, found, autoedge=autoedge))


def _meant(calls: Sequence[Call], word: str) -> list[int]:
    """Return the positions of the calls that a word matches.

    The word is an identity, an ID, a name, or the end of a path; the first of these that matches counts. A pattern is
    compared with identities, IDs and names.
    """
    if any(mark in word for mark in "*?"):
        pattern = word.replace("[", "[[]")  # brackets are part of each identity, so they match literally
        return [call.position for call in calls if any(fnmatchcase(name, pattern) for name in _names(call))]
    ways: tuple[Callable[[Call], bool], ...] = (
        lambda call: call.identity == word,
        lambda call: call.low["__id__"] == word,
        lambda call: call.low["name"] == word,
        lambda call: any(name.startswith("/") and name.endswith(f"/{word}") for name in _names(call)),
    )
    return next((found for way in ways if (found := [call.position for call in calls if way(call)])), [])


def _names(call: Call) -> tuple[str, str, str]:
    return call.identity, str(call.low["__id__"]), str(call.low["name"])


def _missing(calls: Sequence[Call], word: str) -> str:
    whole = "[" in word
    known = (name for call in calls[:CANDIDATES] for name in (_names(call)[:1] if whole else _names(call)[1:]))
    near = nearest(word, dict.fromkeys(known))
    return f"no state is called {word!r}" + (f"; did you mean {near!r}?" if near else "")


def _needed(calls: Sequence[Call], found: set[int], *, autoedge: bool) -> set[int]:
    """Return the positions of these calls, and of all calls that they need."""
    edges = automatic(calls).edges if autoedge else {}
    before: dict[int, list[int]] = {}
    for call in calls:
        for target in targets_of(call.requisites, PROBED):
            before.setdefault(target, []).append(call.position)
    todo = list(found)
    while todo:
        position = todo.pop()
        new = {*_above(calls[position]), *edges.get(position, ()), *before.get(position, ())} - found
        found |= new
        todo += new
    return found


def _above(call: Call) -> Iterator[int]:
    """Yield the positions of the calls that must run, or whose outcome must be known, before a call can run."""
    for kind, targets in call.requisites.items():
        if kind not in LISTENING:
            yield from targets

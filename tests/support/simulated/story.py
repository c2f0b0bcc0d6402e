"""Compares the changes of a machine with the states of that time: which subscribers should have been notified."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.states.requisite_kinds import CARRIES, ON_FAILURE, TABLE
from simulated.plan import ACTIONS, CONDITIONAL, State

Edge = tuple[str, str, str]
"""Upstream and downstream with their kinds, and `watch`, `onchanges` or `listen`."""
WAYS = CARRIES.keys() - ON_FAILURE
"""Requisites by which a subscriber waits for changes."""
ON_CHANGES = {kind.name for kind in TABLE if kind.gates == "change"}


@dataclass
class Chapter:
    """The states of an agent in a part of its life."""

    begins: int
    """The number of effects before."""
    states: list[State]
    in_force: int | None = None
    """The number of effects when the swap was complete.

    None: the agent died before, or the swap is not complete yet.
    """


def lost(done: Sequence[str], chapters: Sequence[Chapter]) -> Iterator[str]:
    """Yield changes that did not reach a subscriber, although it has waited for them ever since."""
    told: dict[str, int] = {}
    listeners = {one[0] for chapter in chapters for one in chapter.states if "listen" in one[3]}
    edges = [{*_edges(chapter.states)} for chapter in chapters]
    for place in reversed(range(len(done))):
        what, name = done[place].split()
        if what != "look" and not (what == "refresh" and name in listeners):  # no event reports when a listener runs
            for edge in _owed(done, place, chapters, edges):
                _, down, kind = edge
                after = [told.get(f"{answer} {_name(down)}", -1) for answer in _answers(down, kind)]
                if max(after) < 0:
                    yield f"{done[place]} (number {place}) was never told: {edge}"
        told.setdefault(done[place], place)


def twice(done: Sequence[str], chapters: Sequence[Chapter]) -> Iterator[str]:
    """Yield refreshes without a new cause, and repeated runs of actions that only changes may trigger.

    A subscriber with two requisites on one target may be notified twice.
    """
    upstreams: dict[str, set[str]] = {}
    ways: dict[str, set[str]] = {}
    actions: set[str] = set()
    """Actions that have ever run without a change."""
    for chapter in chapters:
        for name, kind, meta, spec in chapter.states:
            ways.setdefault(name, set()).update(WAYS & spec.keys())
            upstreams.setdefault(name, set()).update(*(spec[way] for way in ways[name] if way in spec))
            if kind in ACTIONS and ("rerun" in meta or WAYS & spec.keys() != {"onchanges"}):
                actions.add(name)
    begun: dict[str, int] = {}
    since: dict[str, int] = {}
    for place, entry in enumerate(done):
        what, name = entry.split()
        if what == "look":
            begun[name] = place
        elif (what == "refresh" or (what == "run" and name not in actions)) and len(ways[name]) < 2:
            reasons = {f"{did} {up}" for did in ("change", "refresh", "run") for up in upstreams.get(name, ())}
            if reasons.isdisjoint(done[since.get(name, 0) : place]):
                yield f"{entry} (number {place}) for no reason"
            since[name] = begun.get(name, place)


def _owed(done: Sequence[str], place: int, chapters: Sequence[Chapter], edges: Sequence[set[Edge]]) -> Iterator[Edge]:
    """Yield the edges that must carry this change; `edges` has those of each chapter.

    They belong to the states in force at the start of the run, to earlier states, which may still have been running,
    and to all later states.
    """
    what, name = done[place].split()
    began = next((number for number in range(place, -1, -1) if done[number] == f"look {name}"), 0)
    number = max(
        (n for n, chapter in enumerate(chapters) if chapter.in_force is not None and chapter.in_force <= began),
        default=None,
    )
    if number is None:
        return
    for edge in sorted(set.intersection(*edges[max(0, number - 1) :])):
        if _name(edge[0]) == name and (edge[0].partition("[")[0] in ACTIONS) is (
            what == "run"
        ):  # otherwise it was a removed state of that name
            yield edge


def _edges(states: Sequence[State]) -> Iterator[Edge]:
    """Yield the edges that certainly deliver, because nothing else decides whether the subscriber runs."""
    identity = {one[0]: f"{one[1]}[{one[0]}]" for one in states}
    noop = any(meta.get("noop") for _, _, meta, _ in states)
    silent: set[str] = set()
    """Vertices that may never run, because the value that they receive may never be sent; and their dependents."""
    for name, kind, meta, spec in states:
        before = {target for targets in spec.values() if isinstance(targets, list) for target in targets}
        if noop and ("recv" in meta or not silent.isdisjoint(before)):
            silent.add(name)
        if meta.get("noop") or name in silent:
            continue
        yield from (
            (identity[target], identity[name], requisite)
            for requisite in ("watch", "onchanges", "listen")
            if _delivers(requisite, kind, spec)
            for target in spec.get(requisite, ())
            if target in identity
        )


def _delivers(requisite: str, kind: str, spec: Mapping[str, Any]) -> bool:
    """Return whether no other requisite of the subscriber affects the deliveries of this one."""
    if requisite == "listen":
        return kind not in ACTIONS
    chosen = ON_CHANGES & spec.keys()
    if CONDITIONAL & spec.keys() - chosen:
        return False
    return not chosen if requisite == "watch" else len(chosen) <= 1


def _answers(down: str, kind: str) -> tuple[str, ...]:
    """Return the effect that a notification must have on its subscriber."""
    if kind == "listen":
        return ("refresh",)
    return ("refresh", "change", "run", "look") if kind == "onchanges" else ("refresh", "change", "run")


def _name(identity: str) -> str:
    return identity.partition("[")[2].removesuffix("]")

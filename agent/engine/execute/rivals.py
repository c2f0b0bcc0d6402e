"""Who undoes whom: the resource whose own change of a thing came just before another resource found that thing wrong.

Only the time of a change and what two resources have in common are known, so the first time is told as "perhaps". When the next repair is undone
after a change by the same resource again, that is told as a fact. Nothing is compared unless a drift has been repaired.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from holdfast.agent.engine.model.events import Outcome
from holdfast.agent.engine.model.graph import Vertex
from holdfast.resources.context import Report
from holdfast.resources.contract import Uid

MOMENT = 1.0
"""Seconds from a change until a watch has told of it: watches collect events before they tell of them."""
CHANGES = 256
"""Changes that are remembered."""
PATHS = 1000
"""Paths that are remembered of one change."""
BLAMED = 1000
"""Resources for which it is remembered who undid their last repair."""


class Change(NamedTuple):
    """What one run has changed."""

    who: str
    """Identity."""
    began: float
    """Loop time at which the run began."""
    ended: float
    """Loop time at which it ended."""
    own: frozenset[Uid]
    """What is the resource's own: what it manages, and paths that its changes name."""
    touched: frozenset[Uid]
    """What else it touches."""
    removed: frozenset[str]
    """Paths that were removed with all that was below."""


class Blame(NamedTuple):
    """Who seems to have undone the last repair of a resource."""

    who: str
    times: int
    """Repairs in a row that the same one has undone."""

    def __str__(self) -> str:
        """For the log."""
        return f"undone by {self.who}" if self.times > 1 else f"perhaps undone by {self.who}"


class Rivals:
    """The last changes of one engine."""

    def __init__(self) -> None:
        self._running: dict[Vertex, tuple[float, Report]] = {}
        """Vertices that run -> loop time at which they began, and the report of the run before."""
        self._changes: deque[Change] = deque(maxlen=CHANGES)
        """In the order in which they ended."""
        self._blamed: dict[str, Blame] = {}

    def begin(self, vertex: Vertex) -> None:
        """Its run begins."""
        self._running[vertex] = asyncio.get_running_loop().time(), vertex.ctx.report

    def end(self, vertex: Vertex) -> None:
        """Its run has ended."""
        self._running.pop(vertex, None)

    def changed(self, vertex: Vertex, outcome: Outcome) -> None:
        """Remember what a run has changed, or may have changed before it failed."""
        run = self._running.get(vertex)
        if run is not None and (outcome.changed or outcome.touched):
            self._changes.append(_change(vertex, outcome.changes, run[0]))

    def judged(self, vertex: Vertex, outcome: Outcome, told: float | None) -> Outcome:
        """The outcome, with who seems to have undone what was repaired. `told`: loop time of the first event that this run answers."""
        if outcome.cause != "drift" or outcome.result is False or not outcome.changed or told is None:
            return outcome
        before, who = self._blamed.pop(vertex.identity, None), self._undoer(vertex, outcome, told)
        if who is None:
            return outcome
        blame = Blame(who, before.times + 1 if before and before.who == who else 1)
        self._blamed[vertex.identity] = blame
        if len(self._blamed) > BLAMED:
            del self._blamed[next(iter(self._blamed))]
        return outcome._replace(undone=str(blame))

    def told(self, vertex: Vertex, others: Iterable[Vertex], since: float) -> str:
        """Who undoes the repairs of a resource that flaps, and what to do. Others that repair the same since then are perhaps the ones."""
        blame = self._blamed.get(vertex.identity)
        if blame and blame.times > 1:
            return f"{blame.who} undoes it: keep one of the two"
        names = (
            [blame.who]
            if blame
            else [other.identity for other in others if other is not vertex and _repairs_same(vertex, other, since)]
        )
        return f"perhaps {' or '.join(names[:3])} undoes it: keep one" if names else "somebody undoes it"

    def _undoer(self, vertex: Vertex, outcome: Outcome, told: float) -> str | None:
        """The last that changed the same thing after the vertex itself did, a moment before its watch told of that."""
        mine = _change(vertex, outcome.changes, told)
        for change in self._latest_first(vertex):
            if change.who == mine.who or change.ended + MOMENT < told:
                return None  # all others ended before that
            if change.began < told and _meet(mine, change):
                return change.who
        return None

    def _latest_first(self, vertex: Vertex) -> Iterator[Change]:
        """Those of others that still run first."""
        for other, (began, before) in self._running.items():
            report = other.ctx.report
            if other is not vertex and other.applying and report is not before and (report.touched or report.changes):
                yield _change(other, report.changes, began)
        yield from reversed(self._changes)


def _change(vertex: Vertex, changes: Mapping[str, Any], began: float) -> Change:
    """What a resource has changed. A kind that raises when it is asked what it manages has nothing more in common with others than what its changes name."""
    gone = changes.get("removed")
    removed = frozenset(_paths(gone if isinstance(gone, list) else [gone]))
    own = frozenset([("path", path) for path in (*_paths(changes), *removed)])
    touched: frozenset[Uid] = frozenset()
    with suppress(Exception):  # the code of a kind may raise anything
        own, touched = own.union(vertex.resource.uids()), frozenset(vertex.resource.touches())
    return Change(vertex.identity, began, asyncio.get_running_loop().time(), own, touched, removed)


def _paths(values: Iterable[Any]) -> Iterator[str]:
    """The first absolute paths among values that a kind has chosen."""
    return islice((value for value in values if isinstance(value, str) and value.startswith("/")), PATHS)


def _meet(one: Change, other: Change) -> bool:
    """Whether one changes what is the other's own, or has removed what lies above it."""
    if not (one.own.isdisjoint(other.own) and one.own.isdisjoint(other.touched) and other.own.isdisjoint(one.touched)):
        return True
    return bool(other.removed) and any(
        str(above) in other.removed for kind, path in one.own if kind == "path" for above in PurePosixPath(path).parents
    )


def _repairs_same(vertex: Vertex, other: Vertex, since: float) -> bool:
    """Whether another has repaired the same thing since then."""
    return (
        bool(other.repairs) and other.repairs[-1] >= since and _meet(_change(vertex, {}, 0.0), _change(other, {}, 0.0))
    )

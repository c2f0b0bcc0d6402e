"""Finds resources that undo each other: one changes a thing, and just afterwards another one finds that thing drifted.

Only the time of a change and what two resources have in common are known, so the first report says "perhaps". If the
next repair is undone after a change by the same resource, the report states it as a fact. Changes are compared only
after a drift was repaired.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from heapq import merge
from itertools import islice
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from holdfast.agent.engine import kinds
from holdfast.agent.engine.model.outcome import Outcome
from holdfast.agent.engine.model.vertex import Vertex
from holdfast.resources.contract import Uid
from holdfast.resources.report import Report

MOMENT = 1.0
"""Seconds from a change until its watch reports it at the latest: watches collect events before they report them."""
CHANGES = 256
"""Number of changes that are remembered."""
PATHS = 1000
"""Number of paths that are remembered of one change."""
BLAMED = 1000
"""Number of resources whose last undoer is remembered."""


class RecordedChange(NamedTuple):
    """The changes of one run."""

    who: str
    """Identity of the resource that ran."""
    began: float
    """Loop time at which the run began."""
    ended: float
    """Loop time at which it ended."""
    own: tuple[Uid, ...]
    """The things that the resource manages, and the paths that its changes name; each once."""
    touched: tuple[Uid, ...]
    """Other things that its repairs change."""
    removed: tuple[str, ...]
    """Paths that were removed with everything below them."""

    @property
    def affected(self) -> set[Uid]:
        """All things that the change affects."""
        return {*self.own, *self.touched}


class Blame(NamedTuple):
    """The resource that seems to have undone the last repair of another one."""

    who: str
    """Identity of the undoing resource."""
    times: int
    """Consecutive repairs that this resource has undone."""

    def __str__(self) -> str:
        """Return the text for the log."""
        return f"undone by {self.who}" if self.times > 1 else f"perhaps undone by {self.who}"


class Undoers:
    """The last changes that the resources of one engine made."""

    def __init__(self) -> None:
        self._running: dict[Vertex, tuple[float, Report]] = {}
        """Running vertex -> loop time at which the run began, and the report of its previous run."""
        self._changes = ChangeIndex()
        self._blamed: dict[str, Blame] = {}
        """Identity of a resource -> the one that seems to have undone its last repair."""

    def begin(self, vertex: Vertex, now: float) -> None:
        """Note that a run of the vertex begins at this loop time."""
        self._running[vertex] = now, vertex.ctx.report

    def end(self, vertex: Vertex) -> None:
        """Note that the run of the vertex has ended."""
        self._running.pop(vertex, None)

    def changed(self, vertex: Vertex, outcome: Outcome) -> None:
        """Record what the run has changed, or may have changed before it failed."""
        if (outcome.changed or outcome.touched) and (run := self._running.get(vertex)):
            self._changes.add(_change(vertex, outcome.changes, run[0]))

    def attribute(self, vertex: Vertex, outcome: Outcome, noticed_at: float | None) -> Outcome:
        """Return the outcome with the resource that seems to have undone the last repair.

        `noticed_at`: loop time of the first event that led to this run.
        """
        if outcome.cause != "drift" or outcome.result is False or not outcome.changed or noticed_at is None:
            return outcome
        before, who = self._blamed.pop(vertex.identity, None), self._undoer(vertex, outcome, noticed_at)
        if who is None:
            return outcome
        blame = Blame(who, before.times + 1 if before and before.who == who else 1)
        self._blamed[vertex.identity] = blame
        if len(self._blamed) > BLAMED:
            del self._blamed[next(iter(self._blamed))]
        return outcome._replace(undone=str(blame))

    def advice(self, vertex: Vertex, others: Iterable[Vertex], since: float) -> str:
        """Return what undoes the repairs of a flapping resource, and how to stop that.

        If no resource is known to undo them, `others` that have repaired the same thing since then are named.
        """
        blame = self._blamed.get(vertex.identity)
        if blame and blame.times > 1:
            return f"{blame.who} undoes it: keep one of the two"
        names = (
            [blame.who]
            if blame
            else [other.identity for other in others if other is not vertex and _repairs_same(vertex, other, since)]
        )
        return f"perhaps {' or '.join(names[:3])} undoes it: keep one" if names else "something undoes it"

    def _undoer(self, vertex: Vertex, outcome: Outcome, noticed_at: float) -> str | None:
        """Return the last resource that changed the thing since the vertex did, at most `MOMENT` before the event."""
        mine = _change(vertex, outcome.changes, noticed_at)
        for change in self._latest_first(vertex, mine):
            if change.who == mine.who or change.ended + MOMENT < noticed_at:
                return None  # all further changes ended even earlier
            if change.began < noticed_at and _meet(mine, change):
                return change.who
        return None

    def _latest_first(self, vertex: Vertex, mine: RecordedChange) -> Iterator[RecordedChange]:
        """Yield the changes that may meet `mine`: those of other vertices that still run, then the recorded ones."""
        for other, (began, before) in self._running.items():
            report = other.ctx.report
            if (
                other is not vertex
                and other.run.applying
                and report is not before
                and (report.touched or report.changes)
            ):
                yield _change(other, report.changes, began)
        yield from self._changes.like(mine)


class ChangeIndex:
    """The last `CHANGES` changes, found by what they affect."""

    def __init__(self) -> None:
        self._all: deque[RecordedChange] = deque()
        """In the order in which the runs ended, as in the lists below."""
        self._by_uid: dict[Uid, list[RecordedChange]] = {}
        """Thing -> the changes that affect it."""
        self._removing: deque[RecordedChange] = deque()
        """The changes that removed paths with everything below them."""

    def add(self, change: RecordedChange) -> None:
        """Record a change, and forget the oldest one if there are too many."""
        self._all.append(change)
        for uid in change.affected:
            if uid in self._by_uid:
                self._by_uid[uid].append(change)
            else:
                self._by_uid[uid] = [change]
        if change.removed:
            self._removing.append(change)
        if len(self._all) > CHANGES:
            self._forget(self._all.popleft())

    def like(self, mine: RecordedChange) -> Iterator[RecordedChange]:
        """Yield the changes that may meet `mine`, the latest first; some are yielded more than once."""
        lists = [self._removing, *(self._by_uid[uid] for uid in mine.affected if uid in self._by_uid)]
        return merge(*map(reversed, lists), key=lambda change: change.ended, reverse=True)

    def _forget(self, oldest: RecordedChange) -> None:
        for uid in oldest.affected:
            changes = self._by_uid[uid]
            changes.pop(0)
            if not changes:
                del self._by_uid[uid]
        if oldest.removed:
            self._removing.popleft()


def _change(vertex: Vertex, changes: Mapping[str, Any], began: float) -> RecordedChange:
    """Return what a resource has changed.

    If the kind raises an error instead of returning its uids, only the paths that its changes name are compared.
    """
    named = changes.get("removed")
    removed = tuple(_paths(named if isinstance(named, list) else [named]))
    own = dict.fromkeys([*kinds.uids(vertex.resource), *(("path", path) for path in (*_paths(changes), *removed))])
    now = asyncio.get_running_loop().time()
    return RecordedChange(vertex.identity, began, now, tuple(own), tuple(kinds.touches(vertex.resource)), removed)


def _paths(values: Iterable[Any]) -> Iterator[str]:
    """Yield the first absolute paths among values that a kind has reported."""
    return islice((value for value in values if isinstance(value, str) and value.startswith("/")), PATHS)


def _meet(one: RecordedChange, other: RecordedChange) -> bool:
    """Return whether one change affects what the other resource manages, or removes a directory above it."""
    if not (one.affected.isdisjoint(other.own) and other.affected.isdisjoint(one.own)):
        return True
    return bool(other.removed) and any(
        str(above) in other.removed for kind, path in one.own if kind == "path" for above in PurePosixPath(path).parents
    )


def _repairs_same(vertex: Vertex, other: Vertex, since: float) -> bool:
    """Return whether the other vertex has repaired the same thing since then."""
    return (
        bool(other.rate.repairs)
        and other.rate.repairs[-1] >= since
        and _meet(_change(vertex, {}, 0.0), _change(other, {}, 0.0))
    )

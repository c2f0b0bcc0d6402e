"""The census: how many resources of each kind are in which state, kept up to date with each change, so that looking costs what is shown."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from holdfast.agent.engine.model.events import Reason
from holdfast.agent.engine.model.graph import Vertex
from holdfast.agent.engine.model.options import EngineOptions
from holdfast.agent.engine.model.states import QUIET, URGENT, Group, State
from holdfast.agent.engine.schedule import limits

SLICE = 100
"""Vertices that are counted anew at once, at most."""
_WITHOUT_A_RUN: Mapping[Reason, State] = {"": "ok", "superseded": "superseded"}
"""Why a vertex that is right did not run -> its state; for all other reasons it is skipped."""


def word(vertex: Vertex, *, unwatched: bool, paused: bool, flapping: bool) -> State:
    """The state of a vertex."""
    outcome = vertex.outcome
    if vertex.running:
        return "running"
    if outcome is not None and outcome.result is False:
        return "blocked" if outcome.blocked else "failed"
    if flapping:
        return "flapping"
    return "unwatched" if unwatched else _found(vertex, paused=paused)


def _found(vertex: Vertex, *, paused: bool) -> State:
    """What the last look at a vertex has found, or whether one is due."""
    outcome = vertex.outcome
    if paused and (vertex.cause == "drift" if vertex.dirty else outcome is not None and outcome.result is None):
        return "drifted"
    if vertex.dirty or vertex.timer is not None or outcome is None:
        return "waiting"
    return "would" if outcome.result is None else _WITHOUT_A_RUN.get(outcome.reason, "skipped")


class Census:
    """Counts the vertices of one graph. `note` is to be called after each change of what a vertex's group depends on.

    What was noted is counted when somebody looks, or when it has become much: a vertex changes several times in one run.
    `unwatched` are those whose watch has failed; `paused` says for which a pause holds.
    """

    def __init__(
        self, unwatched: Collection[Vertex], paused: Callable[[Vertex], bool], options: Callable[[], EngineOptions]
    ) -> None:
        self._unwatched = unwatched
        self._paused = paused
        self._options = options
        self._known: dict[tuple[object, ...], Group] = {}
        """Every group that there was, so that equal ones are one object."""
        self._counts: Counter[Group] = Counter()
        self._listed: dict[State, dict[Vertex, None]] = {}
        self._noted: dict[Vertex, None] = {}
        """Those that may be in another group than where they are counted."""
        self._flapping: set[Vertex] = set()
        """Those that flap, or have flapped: that ends by itself."""

    def enter(self, vertices: Iterable[Vertex]) -> None:
        """These are in the graph from now on."""
        for vertex in vertices:
            self._put(vertex, self._group(vertex))

    def leave(self, vertices: Iterable[Vertex]) -> None:
        """These are in it no longer; harmless for those that are not."""
        for vertex in vertices:
            self._noted.pop(vertex, None)
            if vertex.counted is not None:
                self._take(vertex, vertex.counted)

    def note(self, vertex: Vertex) -> None:
        """It may be in another group now."""
        if vertex.counted is not None:
            self._noted[vertex] = None
            if len(self._noted) >= SLICE:
                self._count_noted()

    def _count_noted(self) -> None:
        noted, self._noted = self._noted, {}
        for vertex in noted:
            self._count(vertex)

    def _count(self, vertex: Vertex) -> None:
        before = vertex.counted
        if before is None:
            return
        group = None if vertex.removed else self._group(vertex)
        if group is not before:
            self._take(vertex, before)
            if group is not None:
                self._put(vertex, group)

    @property
    def counts(self) -> Mapping[Group, int]:
        """How many there are in each group."""
        self._count_noted()
        for vertex in tuple(self._flapping):
            self._count(vertex)
        return self._counts

    def states(self) -> Counter[State]:
        """How many there are in each state."""
        found: Counter[State] = Counter()
        for group, number in self.counts.items():
            found[group.state] += number
        return found

    def urgent(self) -> Iterator[Vertex]:
        """All that are not `QUIET`, by state as `URGENT` has them. In one state those that are in it for longest come first: nobody sorts them."""
        for state in URGENT:
            yield from self.listed(state)

    def listed(self, state: State) -> Collection[Vertex]:
        """Those in this state, longest first; of `QUIET` states nobody is listed."""
        self._count_noted()
        return self._listed.get(state, {})

    def _group(self, vertex: Vertex) -> Group:
        flapping = bool(vertex.flapping) and limits.flaps(vertex, self._options(), asyncio.get_running_loop().time())
        unwatched = vertex in self._unwatched
        state = word(vertex, unwatched=unwatched, paused=self._paused(vertex), flapping=flapping)
        key = (vertex.call.kind, state, vertex.dirty, vertex.watcher is not None and vertex.armed, unwatched, flapping)
        group = self._known.get(key)
        if group is None:
            group = self._known[key] = Group(*key)
        return group

    def _put(self, vertex: Vertex, group: Group) -> None:
        vertex.counted = group
        self._counts[group] += 1
        if group.state not in QUIET:
            self._listed.setdefault(group.state, {})[vertex] = None
        if group.flapping:
            self._flapping.add(vertex)

    def _take(self, vertex: Vertex, group: Group) -> None:
        vertex.counted = None
        self._counts[group] -= 1
        if not self._counts[group]:
            del self._counts[group]
        if group.state not in QUIET:
            listed = self._listed[group.state]
            del listed[vertex]
            if not listed:
                del self._listed[group.state]  # a dict keeps the size that it has grown to
        self._flapping.discard(vertex)

"""The census: numbers of resources by kind and state.

The census is updated at each change, so the cost of a status request depends on what is shown, not on the number of
resources.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping

from holdfast.agent.engine.model.outcome import Reason
from holdfast.agent.engine.model.states import QUIET, URGENT, CensusGroup, State
from holdfast.agent.engine.model.vertex import Vertex
from holdfast.agent.engine.policy import Policy
from holdfast.agent.engine.schedule import limits

SLICE = 100
"""Noted vertices after which they are counted at once, so that a status request has few left to count."""
_WITHOUT_A_RUN: Mapping[Reason, State] = {"": "ok", "superseded": "superseded"}
"""Reason of an outcome that is neither a failure nor noop -> state; `skipped` for all other reasons."""


def word(vertex: Vertex, *, unwatched: bool, paused: bool, flapping: bool) -> State:
    """Return the state of a vertex."""
    outcome = vertex.last.outcome
    if vertex.queue.running:
        return "running"
    if outcome is not None and outcome.result is False:
        return "blocked" if outcome.blocked else "failed"
    if flapping:
        return "flapping"
    return "unwatched" if unwatched else _found(vertex, paused=paused)


def _found(vertex: Vertex, *, paused: bool) -> State:
    """Return what the last check of a vertex has found, or that a check is due."""
    outcome = vertex.last.outcome
    if paused and (
        vertex.queue.cause == "drift" if vertex.queue.dirty else outcome is not None and outcome.result is None
    ):
        return "drifted"
    if vertex.queue.dirty or vertex.timer is not None or outcome is None:
        return "waiting"
    return "would" if outcome.result is None else _WITHOUT_A_RUN.get(outcome.reason, "skipped")


class Census:
    """Counts the vertices of one graph. Call `note` after each change of a property that decides the group of a vertex.

    Noted vertices are counted when the numbers are read, or when there are `SLICE` of them: a vertex changes several
    times in one run.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._known: dict[tuple[object, ...], CensusGroup] = {}
        """Each group that has occurred, so that vertices share one object for equal groups."""
        self._counts: Counter[CensusGroup] = Counter()
        self._listed: dict[State, dict[Vertex, None]] = {}
        self._noted: dict[Vertex, None] = {}
        """Vertices whose group may have changed since they were counted."""
        self._flapping: set[Vertex] = set()
        """Vertices that were flapping when they were counted. Flapping ends with time, without a call of `note`."""

    def enter(self, vertices: Iterable[Vertex]) -> None:
        """Add vertices that enter the graph. They are new, so all of one kind are in the same group."""
        groups: dict[str, CensusGroup] = {}
        for vertex in vertices:
            kind = vertex.call.kind
            if kind not in groups:
                groups[kind] = self._group(vertex)
            self._put(vertex, groups[kind])

    def leave(self, vertices: Iterable[Vertex]) -> None:
        """Remove vertices that leave the graph. Has no effect for a vertex that is not counted."""
        for vertex in vertices:
            self._noted.pop(vertex, None)
            if vertex.counted is not None:
                self._take(vertex, vertex.counted)

    def note(self, vertex: Vertex) -> None:
        """Record that the group of a vertex may have changed."""
        if vertex.counted is not None:
            self._noted[vertex] = None
            if len(self._noted) >= SLICE:
                self.count_noted()

    def count_noted(self) -> None:
        """Count the vertices that were noted. After a large pass, this releases the memory of the lists of states."""
        noted, self._noted = self._noted, {}
        for vertex in noted:
            self._count(vertex)

    def _count(self, vertex: Vertex) -> None:
        before = vertex.counted
        if before is None:
            return
        group = None if vertex.queue.removed else self._group(vertex)
        if group is not before:
            self._take(vertex, before)
            if group is not None:
                self._put(vertex, group)

    @property
    def counts(self) -> Mapping[CensusGroup, int]:
        """Number of vertices in each group."""
        self.count_noted()
        for vertex in tuple(self._flapping):
            self._count(vertex)
        return self._counts

    def states(self) -> Counter[State]:
        """Return the number of vertices in each state."""
        found: Counter[State] = Counter()
        for group, number in self.counts.items():
            found[group.state] += number
        return found

    def urgent(self) -> Iterator[Vertex]:
        """Return the vertices in states that are not `QUIET`, the most urgent state first.

        Within a state, the vertex that entered it first comes first; nothing is sorted.
        """
        for state in URGENT:
            yield from self.listed(state)

    def listed(self, state: State) -> Collection[Vertex]:
        """Return the vertices in this state, in the order in which they entered it; none for a `QUIET` state."""
        self.count_noted()
        return self._listed.get(state, {})

    def _group(self, vertex: Vertex) -> CensusGroup:
        flapping = bool(vertex.rate.flapping) and limits.flaps(
            vertex, self._policy.options, asyncio.get_running_loop().time()
        )
        unwatched = bool(vertex.watching.failed)
        state = word(vertex, unwatched=unwatched, paused=self._policy.known_paused(vertex), flapping=flapping)
        key = (
            vertex.call.kind,
            state,
            vertex.queue.dirty,
            vertex.watching.watcher is not None and vertex.watching.armed,
            unwatched,
            flapping,
        )
        group = self._known.get(key)
        if group is None:
            group = self._known[key] = CensusGroup(*key)
        return group

    def _put(self, vertex: Vertex, group: CensusGroup) -> None:
        vertex.counted = group
        self._counts[group] += 1
        if group.state not in QUIET:
            self._listed.setdefault(group.state, {})[vertex] = None
        if group.flapping:
            self._flapping.add(vertex)

    def _take(self, vertex: Vertex, group: CensusGroup) -> None:
        vertex.counted = None
        self._counts[group] -= 1
        if not self._counts[group]:
            del self._counts[group]
        if group.state not in QUIET:
            listed = self._listed[group.state]
            del listed[vertex]
            if not listed:
                del self._listed[group.state]  # a dict does not release memory when entries are removed
        self._flapping.discard(vertex)

"""Delivers changes and failures along the edges: which subscribers to notify, and what was delivered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from holdfast.agent.engine.deliver.journal import Journal
from holdfast.agent.engine.model.edge_keys import Edge
from holdfast.agent.engine.model.outcome import GUARDS, Outcome
from holdfast.agent.engine.model.vertex import Vertex
from holdfast.agent.engine.policy import Policy
from holdfast.states.requisite_kinds import CARRIES, LISTENING, ON_FAILURE, REFRESHING, targets_of

Seen = list[tuple[Edge, int]]
"""Edges into a vertex, each with the count of its upstream when the run of the vertex began."""


class Deliveries:
    """Deliveries between the vertices of the graph, counted in the journal.

    Changes that noop prevented are delivered only to vertices that may not change the machine either. The deliveries of
    vertices that may not run at all stay due. In the daemon, a failed run that may have changed something counts as a
    change.
    """

    def __init__(self, journal: Journal, policy: Policy) -> None:
        self._journal = journal
        self._policy = policy
        self._listeners: set[Vertex] = set()
        """Listeners that may have a delivery due."""
        self._behind: set[Vertex] = set()
        """Vertices that may have a delivery due."""
        self.listened: set[Vertex] = set()
        """Listeners that have run in this pass and need no other run."""

    def serve(self, vertices: Iterable[Vertex]) -> None:
        """Take a new graph: any of its listeners and subscribers may have deliveries due."""
        self._listeners, self._behind = set(), set()
        for vertex in vertices:
            for kind in vertex.links.requisites:
                if kind in CARRIES:
                    self._behind.add(vertex)
                    if kind in LISTENING:
                        self._listeners.add(vertex)

    def seen(self, vertex: Vertex, *, listen: bool = False) -> Seen:
        """Return the counts that this run acknowledges if it succeeds: those of `listen` edges, or of all others.

        A failed upstream delivers only its failure for now; its changes stay due.
        """
        if not vertex.links.requisites:
            return []
        edges = ((edge, target) for edge, target in incoming(vertex) if (edge[2] in LISTENING) is listen)
        return [
            (edge, self._journal.count(edge))
            for edge, target in edges
            if edge[2] in ON_FAILURE or listen or not target.blocks
        ]

    def delivered(self, seen: Seen, outcome: Outcome) -> None:
        """Acknowledge the counts of a run that succeeded.

        If a guard kept the vertex from running, this acknowledges `onchanges` and `onfail`; a refresh stays due.
        """
        guarded = outcome.reason in GUARDS
        self._journal.deliver([each for each in seen if not guarded or each[0][2] not in REFRESHING])

    def pending(self, vertex: Vertex) -> bool:
        """Return whether the vertex has deliveries due: changes or failures of upstreams."""
        return any(self._journal.pending(edge) for edge, _ in incoming(vertex))

    def note_pending(self, vertex: Vertex) -> bool:
        """Return the result of `pending`, and note the vertex. Used for changes that another process has counted."""
        if not LISTENING.isdisjoint(vertex.links.requisites):
            self._listeners.add(vertex)
        if pending := self.pending(vertex):
            self._behind.add(vertex)
        return pending

    def behind(self, edge: Edge) -> int:
        """Return the number of changes or failures that this edge has not delivered yet."""
        return self._journal.behind(edge)

    def undelivered(self) -> Iterator[tuple[Vertex, int]]:
        """Yield the vertices with deliveries due, each with the number of edges that have some."""
        for vertex in tuple(self._behind):
            number = 0 if vertex.queue.removed else sum(self._journal.pending(edge) for edge, _ in incoming(vertex))
            if number:
                yield vertex, number
            else:
                self._behind.discard(vertex)

    def due_listeners(self) -> list[Vertex]:
        """Return the listeners to run now: a target has changed, and all their targets are settled.

        They are sorted by `_turn`. Vertices that start together run in order of execution, so the list ends where the
        sorted listeners leave that order. A later call returns the rest.
        """
        if not self._listeners:
            return []
        turns = {vertex: turn for vertex in self._listeners if (turn := self._turn(vertex)) is not None}
        self._listeners = {*turns}
        free = (
            vertex for vertex in self._listeners - self.listened if self._policy.selects(vertex) and _may_listen(vertex)
        )
        due = sorted(free, key=lambda vertex: (turns[vertex], vertex.position))
        end = next(
            (place for place, (one, other) in enumerate(pairwise(due), 1) if other.position < one.position), len(due)
        )
        return due[:end]

    def _turn(self, vertex: Vertex) -> int | None:
        """Return the position that orders a listener among others; None if nothing is due.

        The position is its own, or, if only `listen_in` makes it a listener, that of its first changed target.
        """
        edges = ((edge, target) for edge, target in incoming(vertex) if edge[2] in LISTENING)
        noop = not self._policy.applies(vertex)
        changed = [
            target.position
            for edge, target in edges
            if self._journal.pending(edge) or (noop and target.last.would_change)
        ]
        return vertex.position if changed and not LISTENING.isdisjoint(vertex.call.low) else min(changed, default=None)

    async def announce(self, vertex: Vertex) -> None:
        """Record in the journal that the vertex may change, so that a crash does not lose a refresh.

        Raises `Unwritable` if the journal cannot be written.
        """
        if vertex.links.subscribers:
            await self._journal.announce(vertex.key, vertex.carriers())

    def interrupted(self, vertex: Vertex, *, begun: bool) -> None:
        """Count an interrupted run as a change if it had begun to change something: how far it got is unknown."""
        # Without an intent, `begun` may come from the report of the previous run.
        if not begun or not self._journal.intended(vertex.key):
            self._journal.unchanged(vertex.key)
        else:
            self._journal.changed(vertex.key, vertex.carriers())
            self._listeners.update(_listeners(vertex))
            self._behind.update(subscriber for subscriber, _ in vertex.links.subscribers)

    def tell(
        self, vertex: Vertex, outcome: Outcome, *, real: bool, newly_failed: bool, newly_would: bool
    ) -> list[Vertex]:
        """Count the change or failure of a vertex; return the subscribers to notify.

        A change that noop prevents is notified once, until the vertex no longer differs.
        """
        if not vertex.links.subscribers:
            return []
        if real and outcome.ran and (outcome.changed or (outcome.touched and self._policy.daemon)):
            self._journal.changed(vertex.key, vertex.carriers())
        else:
            self._journal.unchanged(vertex.key)
        self._listeners.update(_listeners(vertex))
        self._behind.update(subscriber for subscriber, _ in vertex.links.subscribers)
        if outcome.result:
            self._journal.recovered(vertex.key)
        elif (
            newly_failed
            and (edges := vertex.carriers(failure=True))
            and not (self._policy.daemon and self._journal.failing(vertex.key))
        ):
            self._journal.failed(vertex.key, edges)
        return list(self._notified(vertex, outcome, newly_failed=newly_failed, newly_would=newly_would))

    def _notified(self, vertex: Vertex, outcome: Outcome, *, newly_failed: bool, newly_would: bool) -> Iterator[Vertex]:
        """Yield the subscribers that must run now. Listeners run later, in their own order."""
        for subscriber, kind in vertex.links.subscribers:
            pending = self._journal.pending((vertex.key, subscriber.key, kind)) or (
                newly_would and not self._policy.applies(subscriber)
            )
            if kind in ON_FAILURE:
                # A dirty subscriber was notified already. A success is notified too: it ends a failure that is due.
                if (
                    pending
                    and outcome.result is not None
                    and (outcome.result or newly_failed or not subscriber.queue.dirty)
                ):
                    yield subscriber
            elif pending and outcome.result is not False and kind not in LISTENING:
                yield subscriber


def _may_listen(vertex: Vertex) -> bool:
    """Return whether the vertex, its `listen` targets and its upstreams are all settled."""
    targets = targets_of(vertex.links.requisites, LISTENING)
    return vertex.settled and all(above.settled for above in (*targets, *vertex.links.upstream))


def _listeners(vertex: Vertex) -> Iterator[Vertex]:
    return (subscriber for subscriber, kind in vertex.links.subscribers if kind in LISTENING)


def incoming(vertex: Vertex) -> Iterator[tuple[Edge, Vertex]]:
    """Yield the edges that carry changes or failures to this vertex, each with its upstream."""
    for kind, targets in vertex.links.requisites.items():
        if kind in CARRIES:
            for target in targets:
                yield (target.key, vertex.key, CARRIES[kind]), target

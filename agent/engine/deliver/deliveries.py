"""Carries changes and failures along the edges: who is to be told, what was delivered, what must not be lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

from holdfast.agent.engine.deliver.journal import Journal
from holdfast.agent.engine.deliver.obstacles import unwritable
from holdfast.agent.engine.deliver.store import WAITS, Unwritable
from holdfast.agent.engine.model.edge_keys import SPELLINGS, Edge
from holdfast.agent.engine.model.events import GUARDS, Outcome
from holdfast.agent.engine.model.graph import CARRIES, Vertex
from holdfast.resources.errors import Temporary

Seen = list[tuple[Edge, int]]
"""Edges into a vertex, each with how far its upstream had counted when the vertex began to run."""


class Deliveries:
    """The journal as the graph uses it.

    `applies` says whether a vertex may change the machine: what noop would have changed is told to those alone that only look, too. `runs` says
    whether it runs at all: to one that does not, what it is told stays owed.
    `daemon`: what may have changed in a run that failed is counted as changed.
    """

    def __init__(
        self, journal: Journal, applies: Callable[[Vertex], bool], runs: Callable[[Vertex], bool], *, daemon: bool
    ) -> None:
        self._journal = journal
        self._runs = runs
        self._applies = applies
        self._daemon = daemon
        self._listeners: set[Vertex] = set()
        """Those that may have heard something."""
        self._behind: set[Vertex] = set()
        """Those that may have something to act on."""
        self.listened: set[Vertex] = set()
        """Those that had their turn in this pass, and have nothing to gain from another."""

    def serve(self, vertices: Iterable[Vertex]) -> None:
        """A new graph: any of its listeners may have something to hear, and any end of an edge something to act on."""
        self._listeners, self._behind = set(), set()
        for vertex in vertices:
            for kind in vertex.requisites:
                if kind in CARRIES:
                    self._behind.add(vertex)
                    if kind == "listen":
                        self._listeners.add(vertex)

    def seen(self, vertex: Vertex, *, listen: bool = False) -> Seen:
        """What this run, if it comes to a good end, will have delivered: of `listen` edges, or of all others.

        An upstream that has failed has not delivered its change yet, only its failure.
        """
        if not vertex.requisites:
            return []
        edges = ((edge, target) for edge, target in incoming(vertex) if (edge[2] == "listen") is listen)
        return [
            (edge, self._journal.count(edge))
            for edge, target in edges
            if edge[2] == "onfail" or listen or not target.failed
        ]

    def delivered(self, seen: Seen, outcome: Outcome) -> None:
        """The run has ended well. A guard that kept it from running has answered `onchanges` and `onfail`; a refresh stays owed until it runs."""
        guarded = outcome.reason in GUARDS
        self._journal.deliver([each for each in seen if not guarded or each[0][2] not in SPELLINGS])

    def pending(self, vertex: Vertex) -> bool:
        """Some upstream has a change or failure that this one has not acted on."""
        return any(self._journal.pending(edge) for edge, _ in incoming(vertex))

    def owes(self, vertex: Vertex) -> bool:
        """Likewise, of changes that may have been counted by somebody else."""
        if "listen" in vertex.requisites:
            self._listeners.add(vertex)
        if pending := self.pending(vertex):
            self._behind.add(vertex)
        return pending

    def behind(self, edge: Edge) -> int:
        """How many changes, or failures, this edge has not delivered yet."""
        return self._journal.behind(edge)

    def undelivered(self) -> Iterator[tuple[Vertex, int]]:
        """Those that have not acted on something yet, each with how many edges carry that."""
        for vertex in tuple(self._behind):
            number = 0 if vertex.removed else sum(self._journal.pending(edge) for edge, _ in incoming(vertex))
            if number:
                yield vertex, number
            else:
                self._behind.discard(vertex)

    def heard(self) -> list[Vertex]:
        """Those whose turn it is: they listen to something that has changed, and to nothing unsettled. In the order of those who say that they listen.

        Turns that are given together are taken in order of execution: so these are as many as stand in that order, the others come later.
        """
        turns = {vertex: turn for vertex in self._listeners if (turn := self._turn(vertex)) is not None}
        self._listeners = {*turns}
        free = (vertex for vertex in self._listeners - self.listened if self._runs(vertex) and _may_listen(vertex))
        due = sorted(free, key=lambda vertex: (turns[vertex], vertex.position))
        later = next(
            (place for place, (one, other) in enumerate(pairwise(due), 1) if other.position < one.position), len(due)
        )
        return due[:later]

    def _turn(self, vertex: Vertex) -> int | None:
        """When it is its turn: at its own place, or where only `listen_in` says that it listens, at that of the first that it hears."""
        edges = ((edge, target) for edge, target in incoming(vertex) if edge[2] == "listen")
        looks = not self._applies(vertex)
        heard = [
            target.position for edge, target in edges if self._journal.pending(edge) or (looks and target.would_change)
        ]
        return vertex.position if heard and "listen" in vertex.call.low else min(heard, default=None)

    async def announce(self, vertex: Vertex) -> None:
        """Write down that it may be changed, so that a crash does not lose the refresh. Raises `Temporary`; in the daemon that is an obstacle."""
        if vertex.subscribers:
            try:
                await self._journal.announce(vertex.key, vertex.carriers())
            except Unwritable as error:
                if self._daemon:
                    vertex.obstacle = unwritable(self._journal, error)
                raise Temporary(f"{WAITS}: {error}") from error

    def interrupted(self, vertex: Vertex, *, begun: bool) -> None:
        """Its run was cancelled. When changing had begun nobody knows how far it came, so it counts as changed."""
        if not begun or not self._journal.intended(
            vertex.key
        ):  # one that has not come so far may show what the run before has done
            self._journal.unchanged(vertex.key)
        else:
            self._journal.changed(vertex.key, vertex.carriers())
            self._listeners.update(_listeners(vertex))
            self._behind.update(who for who, _ in vertex.subscribers)

    def tell(
        self, vertex: Vertex, outcome: Outcome, *, real: bool, newly_failed: bool, newly_would: bool
    ) -> list[Vertex]:
        """Count its change or failure; those who are to be told. What it would change in noop is told once, for as long as that is so."""
        if not vertex.subscribers:
            return []
        if real and outcome.ran and (outcome.changed or (outcome.touched and self._daemon)):
            self._journal.changed(vertex.key, vertex.carriers())
        else:
            self._journal.unchanged(vertex.key)
        self._listeners.update(_listeners(vertex))
        self._behind.update(who for who, _ in vertex.subscribers)
        if outcome.result:
            self._journal.recovered(vertex.key)
        elif (
            newly_failed
            and (edges := vertex.carriers(failure=True))
            and not (self._daemon and self._journal.failing(vertex.key))
        ):
            self._journal.failed(vertex.key, edges)
        return list(self._told(vertex, outcome, newly_failed=newly_failed, newly_would=newly_would))

    def _told(self, vertex: Vertex, outcome: Outcome, *, newly_failed: bool, newly_would: bool) -> Iterator[Vertex]:
        for who, kind in vertex.subscribers:
            pending = self._journal.pending((vertex.key, who.key, kind)) or (newly_would and not self._applies(who))
            if (
                kind == "onfail"
            ):  # one that is dirty has been told, and waits; a failure that it has missed is over when all is right again
                if pending and outcome.result is not None and (outcome.result or newly_failed or not who.dirty):
                    yield who
            elif pending and outcome.result is not False and kind != "listen":
                yield who


def _may_listen(vertex: Vertex) -> bool:
    """It has settled, with all that it listens to or waits for."""
    return vertex.settled and all(above.settled for above in (*vertex.requisites.get("listen", ()), *vertex.upstream))


def _listeners(vertex: Vertex) -> Iterator[Vertex]:
    return (who for who, kind in vertex.subscribers if kind == "listen")


def incoming(vertex: Vertex) -> Iterator[tuple[Edge, Vertex]]:
    """The edges that carry something to this vertex, each with its upstream."""
    for kind, targets in vertex.requisites.items():
        if kind in CARRIES:
            for target in targets:
                yield (target.key, vertex.key, CARRIES[kind]), target

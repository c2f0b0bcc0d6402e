"""Definition order: a new vertex waits for all new vertices before it.

A vertex is new until it has settled or failed once, or has held back the others for too long (`Vertex.new`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterable
from heapq import heapify, heappop, heappush
from itertools import count

from holdfast.agent.engine.model.vertex import Vertex

TIMEOUT = 60.0
"""Seconds for which the first slow vertex of a graph may hold back later ones; each further slow one gets half of that.

One-shot runs have no such limit.
"""

Item = tuple[int, int, int, Vertex]
"""(scheduler round in which the vertex was marked, or 0; position; a number that breaks ties; vertex)."""


_NUMBERS = count()


def item_of(vertex: Vertex, round_: int = 0) -> Item:
    """Return a new item for a vertex. Several heaps may share it."""
    return round_, vertex.position, next(_NUMBERS), vertex


class Heap(list[Item]):
    """Vertices, ordered by round (if one is given) and position. Callers remove outdated items at the front."""

    @property
    def first(self) -> Vertex:
        """The first vertex. The heap must not be empty."""
        return self[0][3]

    def push(self, item: Item) -> None:
        """Add a vertex."""
        heappush(self, item)

    def rebuild(self, items: Iterable[Item]) -> None:
        """Replace the content by these items."""
        self[:] = items
        heapify(self)


class DefinitionOrder:
    """Which vertices of one graph hold back later ones.

    The first slow vertex does so for `timeout` seconds, the second for half of that, and so on; all together for at
    most twice `timeout`.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = self._left = timeout
        """Seconds for the first slow vertex of a new graph, and for the next slow vertex of this one."""
        self._unsettled = Heap()
        """Vertices that may hold back others."""
        self._head: tuple[Vertex, float] | None = None
        """The first of them, and the loop time since which it holds back the others."""
        self._began: dict[Vertex, float] = {}
        """Running vertices that hold back others -> loop time of their start; a batch is slow as a whole."""
        self._overtaken: dict[Vertex, list[Vertex]] = {}
        """Running vertices that no longer hold back others -> new vertices that have started since."""

    def clear(self) -> None:
        """Start again for a new graph, in which vertices have other positions."""
        self._unsettled.clear()
        self._head = None
        self._left = self._timeout

    def forget_time(self) -> None:
        """Give each vertex that holds back others its full time again."""
        self._head = None
        self._began.clear()

    def enter(self, item: Item) -> None:
        """Add a vertex that has become unsettled."""
        self._unsettled.push(item)

    def began(self, vertex: Vertex) -> None:
        """Note that a vertex starts: from now on, its run holds back the others."""
        if vertex.queue.new:
            self._began[vertex] = asyncio.get_running_loop().time()
            for behind in self._overtaken.values():
                behind.append(vertex)
        if self._head and self._head[0] is vertex:
            self._head = None

    def ended(self, vertex: Vertex) -> list[Vertex]:
        """Note that the run of a vertex has ended. Returns the vertices that have overtaken it."""
        self._began.pop(vertex, None)
        return self._overtaken.pop(vertex, []) if self._overtaken else []

    def lets_start(self, vertex: Vertex, batch: Container[Vertex] = (), passed: list[Item] | None = None) -> bool:
        """Return whether no earlier vertex holds this one back.

        Members of its batch do not count; they move to `passed`.
        """
        heap = self._unsettled
        while heap:
            first = heap.first
            if not holds_back(first):
                heappop(heap)
            elif passed is not None and first in batch:
                passed.append(heappop(heap))
            else:
                return first is vertex
        return True

    def put_back(self, passed: Iterable[Item]) -> None:
        """Add the vertices that `lets_start` moved to `passed`: they still hold back others."""
        for item in passed:
            heappush(self._unsettled, item)

    def overdue(self, now: float) -> Vertex | None:
        """Return the first vertex that holds back others, if it has done so for too long."""
        first = self._unsettled.first
        if self._head is None or self._head[0] is not first:
            self._head = first, self._began.get(first, now)
        if now < self.until:
            return None
        if first.queue.running:
            self._overtaken[first] = []
        self._left /= 2
        return first

    @property
    def until(self) -> float:
        """Loop time until which the first vertex may hold back the others."""
        return self._head[1] + self._left if self._head else 0.0

    @staticmethod
    def is_exempt(vertex: Vertex) -> bool:
        """Return whether a vertex has failed, or has lost its place in definition order before it settled.

        A vertex that requires it holds back no other vertex either.
        """
        return not vertex.queue.new and (vertex.last.outcome is None or vertex.last.failures > 0)


def holds_back(vertex: Vertex) -> bool:
    """Return whether a vertex keeps later ones from starting until it settles.

    A running one with `parallel` does not.
    """
    return vertex.queue.new and not vertex.settled and not (vertex.queue.running and vertex.call.meta.parallel)

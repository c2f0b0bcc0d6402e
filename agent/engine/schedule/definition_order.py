"""Definition order: until a vertex has settled for the first time, it waits for those before it of which the same holds.

It does not wait for one whose attempt has failed, nor for one that has held back the others for too long: those are no longer `first`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterable
from heapq import heappop, heappush

from holdfast.agent.engine.model.graph import Vertex

PATIENCE = 60.0
"""Seconds for which the daemon lets the first slow vertex of a graph hold back those after it; each further one has half of the time before."""

Item = tuple[int, int, int, Vertex]
"""(round of marking or 0, position, a number that breaks ties, vertex)."""


class Heap(list[Item]):
    """Vertices by round of marking, if one is given, and by position. What no longer holds is removed when it comes first."""

    def __init__(self) -> None:
        super().__init__()
        self._pushed = 0

    @property
    def first(self) -> Vertex:
        """There must be one."""
        return self[0][3]

    def push(self, vertex: Vertex, round_: int = 0) -> None:
        """Add it."""
        self._pushed += 1
        heappush(self, (round_, vertex.position, self._pushed, vertex))

    def rebuild(self, vertices: Iterable[Vertex]) -> None:
        """Have these alone."""
        self.clear()
        for vertex in vertices:
            self.push(vertex)


class DefinitionOrder:
    """What holds back whom in one graph: for `patience` seconds the first that is slow, half of that the second, and so on: twice that in all."""

    def __init__(self, patience: float) -> None:
        self._patience = self._left = patience
        """What there is for a new graph, and for the next vertex that is slow."""
        self._unsettled = Heap()
        """Those that may hold back others."""
        self._head: tuple[Vertex, float] | None = None
        """The first of them, and since when it holds back the others."""
        self._began: dict[Vertex, float] = {}
        """Running vertices that hold back the others -> loop time of their start: those of one batch are slow together."""
        self._overtaken: dict[Vertex, list[Vertex]] = {}
        """Running vertices that hold back the others no longer -> who started though it comes later."""

    def clear(self) -> None:
        """Positions have changed."""
        self._unsettled.clear()
        self._head = None
        self._left = self._patience

    def forget_time(self) -> None:
        """What holds back others has its time again."""
        self._head = None
        self._began.clear()

    def enter(self, vertex: Vertex) -> None:
        """It is unsettled."""
        self._unsettled.push(vertex)

    def began(self, vertex: Vertex) -> None:
        """It starts: from now on it is its run that holds back the others."""
        if vertex.new:
            self._began[vertex] = asyncio.get_running_loop().time()
            for behind in self._overtaken.values():
                behind.append(vertex)
        if self._head and self._head[0] is vertex:
            self._head = None

    def ended(self, vertex: Vertex) -> list[Vertex]:
        """Its run has ended; those that have overtaken it."""
        self._began.pop(vertex, None)
        return self._overtaken.pop(vertex, []) if self._overtaken else []

    def lets_start(self, vertex: Vertex, batch: Container[Vertex] = (), passed: list[Item] | None = None) -> bool:
        """Nothing earlier holds it back, but for those of its batch, which are moved to `passed`."""
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
        """What was moved away holds back others still."""
        for item in passed:
            heappush(self._unsettled, item)

    def overdue(self, now: float) -> Vertex | None:
        """The first that holds back others, if it has done so for too long."""
        first = self._unsettled.first
        if self._head is None or self._head[0] is not first:
            self._head = first, self._began.get(first, now)
        if now < self.until:
            return None
        if first.running:
            self._overtaken[first] = []
        self._left /= 2
        return first

    @property
    def until(self) -> float:
        """Loop time until which that one may hold them back; there must be one."""
        return self._head[1] + self._left if self._head else 0.0

    @staticmethod
    def has_let_go(vertex: Vertex) -> bool:
        """It was let go before it settled for the first time, or it has failed since: what requires it holds back nobody either."""
        return not vertex.new and (vertex.outcome is None or vertex.failures > 0)


def holds_back(vertex: Vertex) -> bool:
    """Those after it that definition order binds do not start."""
    return vertex.new and not vertex.settled and not (vertex.running and vertex.call.meta.parallel)

"""Which dirty vertex may run now: the one owner of every vertex's dirty and running state.

Two rules. A vertex starts when it is dirty, armed, not held back, and nothing before it in its requisites, near or far, is
unsettled. And until a vertex has settled once, definition order binds it: it starts only when everything earlier in the order is
settled (`parallel: true` on an earlier one lifts that for those after it).

Work follows what is unsettled, not what exists: heaps of positions with lazy deletion, a search upward through requisites
that stops at the earliest unsettled position and at what was found clear since something last became unsettled, and waiting
lists on the vertex that blocks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from heapq import heappop, heappush

from holdfast.agent.engine.graph import Vertex
from holdfast.agent.engine.report import Cause

Heap = list[tuple[int, int, Vertex]]
"""(position, a number that breaks ties, vertex)."""


class Scheduler:
    """Starts dirty vertices in order; `start` is called for each, `idle` whenever nothing is left unsettled.

    `again` is called for a vertex that was marked while it ran, when that run has ended, with the cause of the mark.
    """

    def __init__(
        self, workers: int, start: Callable[[Vertex], None], idle: Callable[[], None], again: Callable[[Vertex, Cause], None]
    ) -> None:
        self.workers = workers
        self.paused = False
        self.unsettled: set[Vertex] = set()
        self.running = 0
        self._start = start
        self._idle = idle
        self._again = again
        self._pushed = 0
        self._epoch = 0
        """Grows whenever something becomes unsettled: what was found clear in this epoch is clear still."""
        self._bound: Heap = []
        """Dirty vertices that definition order still binds."""
        self._free: Heap = []
        """Dirty vertices that only their requisites bind."""
        self._lowest: Heap = []
        """Unsettled vertices."""
        self._barrier: Heap = []
        """Unsettled vertices that hold back those bound by definition order."""

    def mark(self, vertex: Vertex, cause: Cause) -> None:
        """The vertex may not be right any more. While it runs, it becomes dirty when the run ends: no event is lost."""
        if vertex.removed or vertex.dirty:
            return
        if vertex.running:
            vertex.again = vertex.again or cause
            return
        vertex.dirty, vertex.cause = True, cause
        self._epoch += 1
        self.unsettled.add(vertex)
        self._push(self._lowest, vertex)
        self._push(self._barrier, vertex)
        self.offer(vertex)

    def offer(self, vertex: Vertex) -> None:
        """A dirty vertex may be startable now: it was marked, armed, or what blocked it has settled."""
        if vertex.dirty:
            self._push(self._bound if vertex.first else self._free, vertex)

    def pump(self) -> None:
        """Start all that may start."""
        while not self.paused and self.running < self.workers:
            vertex = self._next()
            if vertex is None:
                break
            vertex.dirty, vertex.running = False, True
            self.running += 1
            self._start(vertex)
        if not self.unsettled:
            self._idle()

    def finished(self, vertex: Vertex) -> None:
        """The run of a vertex has ended."""
        self.running -= 1
        vertex.running = False
        self.settle(vertex)

    def settle(self, vertex: Vertex) -> None:
        """The vertex has an outcome, by a run or without one; who waited for it is looked at again."""
        vertex.first = vertex.dirty = False
        self.unsettled.discard(vertex)
        waiters, vertex.waiters = vertex.waiters, []
        for waiter in waiters:
            self.offer(waiter)
        if vertex.again:
            cause, vertex.again = vertex.again, None
            self._again(vertex, cause)

    def rebuild(self, vertices: Iterable[Vertex]) -> None:
        """Positions have changed with the graph: build the heaps anew from what is unsettled."""
        for heap in (self._bound, self._free, self._lowest, self._barrier):
            heap.clear()
        self._epoch += 1
        self.unsettled = {vertex for vertex in vertices if not vertex.settled}
        for vertex in self.unsettled:
            vertex.waiters.clear()
            self._push(self._lowest, vertex)
            self._push(self._barrier, vertex)
            self.offer(vertex)

    def _push(self, heap: Heap, vertex: Vertex) -> None:
        self._pushed += 1
        heappush(heap, (vertex.position, self._pushed, vertex))

    def _next(self) -> Vertex | None:
        now = asyncio.get_running_loop().time()
        while self._bound:
            vertex = self._bound[0][2]
            if vertex.dirty and not vertex.removed and vertex.first:
                if not self._ready(vertex, now) or not self._at_barrier(vertex) or self._blocker(vertex) is not None:
                    break
                heappop(self._bound)
                return vertex
            heappop(self._bound)
        while self._free:
            vertex = heappop(self._free)[2]
            if not vertex.dirty or vertex.removed or not self._ready(vertex, now):
                continue  # it is offered again when it is armed, or its time has come
            blocker = self._blocker(vertex)
            if blocker is None:
                return vertex
            blocker.waiters.append(vertex)
        return None

    @staticmethod
    def _ready(vertex: Vertex, now: float) -> bool:
        return vertex.armed and vertex.not_before <= now

    def _at_barrier(self, vertex: Vertex) -> bool:
        """Everything earlier in the order is settled, or runs in parallel."""
        heap = self._barrier
        while heap:
            first = heap[0][2]
            if first.settled or (first.running and first.call.meta.parallel):
                heappop(heap)
                continue
            return first is vertex
        return True

    def _blocker(self, vertex: Vertex) -> Vertex | None:
        """An unsettled vertex somewhere above in the requisites; None when there is none."""
        heap = self._lowest
        while heap and heap[0][2].settled:
            heappop(heap)
        lowest = heap[0][0] if heap else vertex.position
        if lowest >= vertex.position:
            return None
        seen: set[Vertex] = set()
        stack = list(vertex.upstream)
        while stack:
            above = stack.pop()
            if above.position < lowest or above in seen:
                continue
            if not above.settled:
                return above
            seen.add(above)
            if above.clear != self._epoch:
                stack.extend(above.upstream)
        for above in (vertex, *seen):
            above.clear = self._epoch
        return None

"""Which dirty vertex may run now: the one owner of every vertex's dirty and running state.

Two rules. A vertex starts when it is dirty, armed, not held back, and nothing before it in its requisites, near or far, is
unsettled. And until a vertex has settled once, definition order binds it: it starts only when everything earlier in the order is
settled (`parallel: true` on an earlier one lifts that for those after it). A semaphore that is full holds it back, too.

Work follows what is unsettled, not what exists: heaps of positions with lazy deletion, a search upward through requisites
that stops at the earliest unsettled position and at what was found clear since something last became unsettled, and waiting
lists on the vertex that blocks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Hashable, Iterable, Iterator
from heapq import heappop, heappush

from holdfast.agent.engine.batch import Batch
from holdfast.agent.engine.graph import Vertex
from holdfast.agent.engine.report import Cause, Pause, Rest
from holdfast.agent.engine.semaphores import Semaphores

Heap = list[tuple[int, int, Vertex]]
"""(position, a number that breaks ties, vertex)."""


class Scheduler:
    """Starts dirty vertices in order; `start` is called for each, `idle` whenever nothing is left unsettled.

    Those of one group that may start at the same time run as one batch, which counts as one of `workers`.

    `again` is called for a vertex that was marked while it ran, when that run has ended, with the cause of the mark.
    """

    def __init__(
        self, workers: int, start: Callable[[Vertex], None], idle: Callable[[], None], again: Callable[[Vertex, Cause], None]
    ) -> None:
        self.workers = workers
        self.paused: set[Pause] = set()
        """Why nothing is started now; empty: what may start is started."""
        self.unsettled: set[Vertex] = set()
        self.running = 0
        self.semaphores = Semaphores()
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
        self._groups: dict[Hashable, set[Vertex]] = {}
        """Group -> its vertices that were marked and may be dirty still."""

    def mark(self, vertex: Vertex, cause: Cause) -> None:
        """The vertex may not be right any more. While it runs, it becomes dirty when the run ends: no event is lost."""
        if vertex.removed or vertex.dirty:
            return
        if vertex.told is None:
            vertex.told = asyncio.get_running_loop().time()
        if vertex.running:
            vertex.again = vertex.again or cause
            return
        vertex.dirty, vertex.cause = True, cause
        self._epoch += 1
        self.unsettled.add(vertex)
        self._push(self._lowest, vertex)
        self._push(self._barrier, vertex)
        self._join_group(vertex)
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
            self.running += 1
            self._begin(vertex)
            together = [vertex] if vertex.group is None or vertex.listening else [vertex, *self._companions(vertex)]
            batch = Batch([each.identity for each in together]) if len(together) > 1 else None
            for each in together:
                each.batch = batch
                self._start(each)
        if not self.unsettled:
            self._idle()

    def finished(self, vertex: Vertex) -> None:
        """The run of a vertex has ended."""
        if vertex.rest is None:
            self._let_go(vertex)
        vertex.batch = vertex.rest = None
        vertex.running = False
        for waiter in self.semaphores.give(vertex):
            self.offer(waiter)
        self.settle(vertex)

    def rest(self, vertex: Vertex, rest: Rest) -> None:
        """Its run waits for its next attempt: others may have its worker meanwhile."""
        vertex.rest = rest
        self._let_go(vertex)

    def rested(self, vertex: Vertex) -> None:
        """It goes on, and takes up a worker again; if all are busy, one more than there are, for a busy one may wait for just this run."""
        vertex.rest = None
        if not vertex.batch or not vertex.batch.at_work:
            self.running += 1
        if vertex.batch:
            vertex.batch.at_work += 1

    def settle(self, vertex: Vertex) -> None:
        """The vertex has an outcome, by a run or without one; who waited for it is looked at again."""
        vertex.first = vertex.dirty = False
        self.unsettled.discard(vertex)
        waiters, vertex.waiters = vertex.waiters, None
        for waiter in waiters or ():
            self.offer(waiter)
        if vertex.again:
            cause, vertex.again = vertex.again, None
            self._again(vertex, cause)

    def rebuild(self, vertices: Iterable[Vertex]) -> None:
        """Positions have changed with the graph: build the heaps anew from what is unsettled."""
        for heap in (self._bound, self._free, self._lowest, self._barrier):
            heap.clear()
        self._groups.clear()
        self._epoch += 1
        self.unsettled = {vertex for vertex in vertices if not vertex.settled}
        for vertex in self.unsettled:
            vertex.waiters = None
            self._push(self._lowest, vertex)
            self._push(self._barrier, vertex)
            self._join_group(vertex)
            self.offer(vertex)

    def _let_go(self, vertex: Vertex) -> None:
        """Take up no worker any more, unless another one of its batch does."""
        if vertex.batch:
            vertex.batch.at_work -= 1
        if not vertex.batch or not vertex.batch.at_work:
            self.running -= 1

    def _begin(self, vertex: Vertex) -> None:
        vertex.dirty, vertex.running = False, True
        self.semaphores.take(vertex)

    def _join_group(self, vertex: Vertex) -> None:
        if (group := vertex.group) is not None:
            self._groups.setdefault(group, set()).add(vertex)

    def _companions(self, leader: Vertex) -> Iterator[Vertex]:
        """Those of its group that may start with it, begun one by one: no path connects any two, and nobody jumps the queue.

        Definition order binds them but for the batch itself: what is only asked for later does not come before what stands between.
        `aggregate: true` lifts that, as in Salt.
        """
        group, now, batch = self._groups[leader.group], asyncio.get_running_loop().time(), {leader}
        passed: Heap = []
        bound = False
        for vertex in sorted(group, key=lambda vertex: vertex.position):
            if not vertex.dirty or vertex.removed:
                group.discard(vertex)
                continue
            if vertex.listening or not self._ready(vertex, now) or self.semaphores.full(vertex):
                continue
            if vertex.first and not vertex.call.meta.aggregate:
                bound = bound or not self._at_barrier(vertex, batch, passed)
                if bound:
                    continue
            if self._blocker(vertex) is None:
                self._begin(vertex)
                batch.add(vertex)
                yield vertex
        for item in passed:
            heappush(self._barrier, item)

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
                if self.semaphores.full(vertex):
                    break
                heappop(self._bound)
                return vertex
            heappop(self._bound)
        while self._free:
            vertex = heappop(self._free)[2]
            if not vertex.dirty or vertex.removed or not self._ready(vertex, now):
                continue  # it is offered again when it is armed, or its time has come
            blocker = self._blocker(vertex)
            if blocker is not None:
                if blocker.waiters is None:
                    blocker.waiters = []
                blocker.waiters.append(vertex)
            elif name := self.semaphores.full(vertex):
                self.semaphores.wait(vertex, name)
            else:
                return vertex
        return None

    @staticmethod
    def _ready(vertex: Vertex, now: float) -> bool:
        return vertex.armed and vertex.not_before <= now

    def _at_barrier(self, vertex: Vertex, batch: Container[Vertex] = (), passed: Heap | None = None) -> bool:
        """Everything earlier in the order is settled, runs in parallel, or is of its batch; the last are moved to `passed`."""
        heap = self._barrier
        while heap:
            first = heap[0][2]
            if first.settled or first.obstacle or (first.running and first.call.meta.parallel):
                heappop(heap)
            elif passed is not None and first in batch:
                passed.append(heappop(heap))
            else:
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

"""Which dirty vertex may run now: the one owner of every vertex's dirty and running state.

A vertex starts when it is dirty, armed, not held back, and nothing before it in its requisites, near or far, is unsettled; when
definition order lets it (`order`), a worker is free (`workers`) and no semaphore that it names is full.

There are three queues: those that definition order binds, those that were marked, and those that are due for a routine look (recheck, also one that
an operator asks for, and poll).
They take turns. The last two are served in the order of marking, so that no vertex waits for ever.

Work follows what is unsettled, not what exists: heaps with lazy deletion, a search upward through requisites
that stops at the earliest unsettled position and at what was found clear since something last became unsettled, and waiting
lists on the vertex that blocks.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection, Hashable, Iterator
from heapq import heappop

from holdfast.agent.engine.model.batch import Batch
from holdfast.agent.engine.model.events import ROUTINE, WATCHED, Cause, Pause
from holdfast.agent.engine.model.graph import Vertex
from holdfast.agent.engine.schedule.definition_order import DefinitionOrder, Heap, Item
from holdfast.agent.engine.schedule.semaphores import Semaphores
from holdfast.agent.engine.schedule.sequences import Sequences
from holdfast.agent.engine.schedule.workers import Workers

SPARE = 64
"""Entries of a heap that may be out of date, besides as many as are not."""


class Scheduler:
    """Starts dirty vertices in order; `start` is called for each, `idle` whenever nothing is at work: all has settled, or what has not only waits.

    Those of one group that may start at the same time run as one batch, which counts as one of `workers`.

    `again` is called for a vertex that was marked while it ran, when that run has ended, with the cause of the mark; `noted` for one that
    is dirty or runs, or does so no longer.
    """

    def __init__(
        self,
        workers: int,
        start: Callable[[Vertex], None],
        idle: Callable[[], None],
        again: Callable[[Vertex, Cause], None],
        *,
        noted: Callable[[Vertex], None],
        patience: float = math.inf,
    ) -> None:
        self.workers = Workers(workers)
        self.paused: set[Pause] = set()
        """Why nothing is started now; empty: what may start is started."""
        self.unsettled: set[Vertex] = set()
        self.semaphores = Semaphores()
        self.sequences = Sequences()
        self.lent: set[str] = set()
        """Keys of resources that a run beside this engine is at: they do not start here."""
        self._start = start
        self._idle = idle
        self._again = again
        self._noted = noted
        self._order = DefinitionOrder(patience)
        self._alarm: asyncio.TimerHandle | None = None
        """Pumps when something may have taken too long."""
        self._round = 0
        """Grows with each pump: what is marked between two of them starts in definition order."""
        self._turn = 0
        """The queue whose turn it is."""
        self._epoch = 0
        """Grows whenever something becomes unsettled: what was found clear in this epoch is clear still."""
        self._bound = Heap()
        """Dirty vertices that definition order still binds."""
        self._marked = Heap()
        """Dirty vertices that only their requisites bind."""
        self._routine = Heap()
        """Those of them that nothing has happened to: a recheck or a poll is due."""
        self._lowest = Heap()
        """Unsettled vertices."""
        self._groups: dict[Hashable, set[Vertex]] = {}
        """Group -> its vertices that were marked and may be dirty still."""

    def mark(self, vertex: Vertex, cause: Cause) -> None:
        """The vertex may not be right any more. While it runs, it becomes dirty when the run ends: no event is lost.

        A poll is no event. One that is due while the vertex runs is dropped, or a check that takes longer than its period would never end its pass.
        """
        if vertex.removed:
            return
        if vertex.dirty:
            if _is_routine(vertex, vertex.cause) and not _is_routine(vertex, cause):
                vertex.cause, vertex.round = cause, self._round
                self.offer(vertex)
            return
        if vertex.noticed_at is None:
            vertex.noticed_at = asyncio.get_running_loop().time()
        if vertex.running:
            if cause != "poll" and (vertex.pending_cause is None or vertex.pending_cause in WATCHED):
                vertex.pending_cause = cause
            return
        vertex.dirty, vertex.cause, vertex.round = True, cause, self._round
        self._epoch += 1
        self.unsettled.add(vertex)
        self._enter(vertex)
        self._noted(vertex)

    def offer(self, vertex: Vertex) -> None:
        """A dirty vertex may be startable now: it was marked, armed, or what blocked it has settled."""
        if not vertex.dirty:
            return
        if vertex.new:
            self._bound.push(vertex)
        else:
            (self._routine if _is_routine(vertex, vertex.cause) else self._marked).push(vertex, vertex.round)

    def pump(self) -> None:
        """Start all that may start."""
        now = asyncio.get_running_loop().time()
        self._round += 1
        while not self.paused and not self.workers.busy:
            vertex = self._next(now)
            if vertex is None:
                break
            self._begin(vertex, vertex)
            together = (
                [vertex] if vertex.group is None or vertex.listening else [vertex, *self._companions(vertex, now)]
            )
            batch = Batch([each.identity for each in together]) if len(together) > 1 else None
            self.workers.take(batch or vertex, now)
            for each in together:
                each.batch = batch
                self._start(each)
        if self.unsettled and self.workers.at_work:
            self.look_again_at(self.workers.until)
        if not self.unsettled or not (self.workers.at_work or self.paused):
            self._idle()

    def pause(self, why: Pause) -> None:
        """Start nothing any more."""
        self.paused.add(why)

    def resume(self, why: Pause) -> None:
        """Go on if no other pause is left. What held others back when it was paused has its whole time again."""
        self.paused.discard(why)
        if not self.paused:
            self._order.forget_time()
            self.pump()

    def finished(self, vertex: Vertex) -> None:
        """The run of a vertex has ended; or only an attempt, or something was in its way, and it is dirty until the next."""
        if not vertex.batch or vertex.batch.ended():
            self.workers.give(vertex.batch or vertex)
        vertex.batch = None
        vertex.running = False
        for waiter in self.semaphores.give(vertex):
            self.offer(waiter)
        if (vertex.rest is None and vertex.obstacle is None) or vertex.removed:
            self.settle(vertex)
            return
        vertex.dirty, vertex.new, vertex.round = True, False, self._round
        self._enter(vertex)
        self._noted(vertex)
        self._release(vertex)
        self._over(vertex)

    def settle(self, vertex: Vertex) -> None:
        """The vertex has an outcome, by a run or without one; who waited for it is looked at again."""
        vertex.new = vertex.dirty = False
        vertex.rest = vertex.obstacle = None
        self.unsettled.discard(vertex)
        self._noted(vertex)
        self._release(vertex)
        self._over(vertex)

    def _release(self, vertex: Vertex) -> None:
        """Who waited for it is looked at again."""
        waiters, vertex.waiters = vertex.waiters, None
        for waiter in waiters or ():
            self.offer(waiter)

    def rebuild(self, vertices: Collection[Vertex]) -> None:
        """Positions have changed with the graph: build the heaps anew from what is unsettled."""
        for heap in (self._bound, self._marked, self._routine, self._lowest):
            heap.clear()
        self._order.clear()
        self.sequences.rebuild(vertices)
        self._groups.clear()
        self._epoch += 1
        self.unsettled = {vertex for vertex in vertices if not vertex.settled}
        for vertex in self.unsettled:
            vertex.waiters = None
            self._enter(vertex)

    def _over(self, vertex: Vertex) -> None:
        """Its run has ended: what happened to it meanwhile counts now, and those that overtook it are looked at again."""
        if vertex.pending_cause:
            cause, vertex.pending_cause = vertex.pending_cause, None
            self._again(vertex, cause)
        for each in self._order.ended(vertex):
            self._again(each, "recovery")

    def _enter(self, vertex: Vertex) -> None:
        """It is unsettled."""
        if (
            len(self._lowest) > 2 * len(self.unsettled) + SPARE
        ):  # what is settled leaves when it comes first, and so never below one that rests for long
            self._lowest.rebuild(self.unsettled - {vertex})
        self._lowest.push(vertex)
        if vertex.new:
            self._order.enter(vertex)
        if (group := vertex.group) is not None:
            self._groups.setdefault(group, set()).add(vertex)
        self.offer(vertex)

    def _begin(self, vertex: Vertex, leader: Vertex) -> None:
        vertex.dirty, vertex.running = False, True
        self._noted(vertex)
        self._order.began(vertex)
        self.semaphores.take(vertex, leader)

    def _companions(self, leader: Vertex, now: float) -> Iterator[Vertex]:
        """Those of its group that may start with it, begun one by one: no path connects any two, and nobody jumps the queue.

        Definition order binds them but for the batch itself: what is only asked for later does not come before what stands between.
        `aggregate: true` lifts that, as in Salt.
        """
        group, batch = self._groups[leader.group], {leader}
        passed: list[Item] = []
        bound = False
        for vertex in sorted(group, key=lambda vertex: vertex.position):
            if not vertex.dirty or vertex.removed:
                group.discard(vertex)
                continue
            if vertex.listening or not self._ready(vertex, now) or self.semaphores.full(vertex, leader):
                continue
            if vertex.new and not vertex.call.meta.aggregate:
                bound = bound or not self._order.lets_start(vertex, batch, passed)
                if bound:
                    continue
            if self._blocker(vertex) is None:
                self._begin(vertex, leader)
                batch.add(vertex)
                yield vertex
        self._order.put_back(passed)

    def _next(self, now: float) -> Vertex | None:
        for _ in range(3):
            turn, self._turn = self._turn, (self._turn + 1) % 3
            heap = (self._bound, self._marked, self._routine)[turn]
            if not heap:
                continue
            vertex = self._next_bound(now) if turn == 0 else self._next_free(heap, now)
            if vertex is not None:
                return vertex
        return None

    def _next_bound(self, now: float) -> Vertex | None:
        while self._bound:
            vertex = self._bound.first
            if vertex.removed or not vertex.dirty or not vertex.new:
                heappop(self._bound)
                continue
            if self._order.lets_start(vertex):
                blocker = self._blocker(vertex)
                if vertex.not_before > now or self._is_lent(vertex) or (blocker and self._order.has_let_go(blocker)):
                    self._lift(vertex)
                    continue
                if not blocker and vertex.armed and not self.semaphores.full(vertex):
                    heappop(self._bound)
                    return vertex
            slow = self._order.overdue(now)
            if slow is None:
                self.look_again_at(self._order.until)
                break
            self._lift(slow)
        return None

    def _next_free(self, heap: Heap, now: float) -> Vertex | None:
        while heap:
            round_, *_, vertex = heappop(heap)
            if not vertex.dirty or vertex.removed or vertex.round != round_ or not self._ready(vertex, now):
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

    def _ready(self, vertex: Vertex, now: float) -> bool:
        return vertex.armed and vertex.not_before <= now and not self._is_lent(vertex)

    def _is_lent(self, vertex: Vertex) -> bool:
        return vertex.key in self.lent

    def _lift(self, vertex: Vertex) -> None:
        """Definition order binds it no longer."""
        vertex.new = False
        self.offer(vertex)

    def look_again_at(self, when: float) -> None:
        """Pump at this loop time: something may have taken too long then."""
        if when < math.inf and (self._alarm is None or self._alarm.when() > when):
            if self._alarm:
                self._alarm.cancel()
            self._alarm = asyncio.get_running_loop().call_at(when, self._alarmed)

    def _alarmed(self) -> None:
        """What runs for too long gives up its worker."""
        self._alarm = None
        self.workers.release(asyncio.get_running_loop().time())
        self.pump()

    def _blocker(self, vertex: Vertex) -> Vertex | None:
        """An unsettled vertex somewhere above in the requisites, or in a sequence; None when there is none."""
        if self.sequences and (holder := self.sequences.blocker(vertex, self.unsettled)):
            return holder
        heap, position = self._lowest, vertex.position
        while heap and heap.first.settled:
            heappop(heap)
        lowest = heap.first.position if heap else position
        if lowest >= position:
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
            if above.clear_epoch != self._epoch:
                stack.extend(above.upstream)
        for above in (vertex, *seen):
            above.clear_epoch = self._epoch
        return None


def _is_routine(vertex: Vertex, cause: Cause) -> bool:
    """Nothing has happened to it: a recheck or a poll is due, or an operator has everything looked at. What he triggers is due."""
    return cause in ROUTINE or (cause == "command" and not vertex.force_next)

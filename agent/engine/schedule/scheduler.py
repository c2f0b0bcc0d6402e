"""The scheduler: decides which dirty vertex may run now.

A vertex starts when all of these hold: it is dirty, armed and not held back; all its direct and indirect requisites are
settled; definition order permits it (`definition_order.py`); nothing else works on it (`reservations.py`); a worker is
free (`workers.py`); no semaphore that it names is full (`semaphores.py`).

There are three queues: vertices bound by definition order, marked vertices, and vertices due for a routine check (a
poll, or a recheck, also one that an operator requested). The queues are served in turn. The last two are served in the
order of marking, so that no vertex waits forever.

The work depends on the number of unsettled vertices, not on the size of the graph. Heaps delete outdated entries
lazily. A blocked vertex waits in a list of the vertex that blocks it (`blockers.py`).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from heapq import heappop
from typing import Protocol

from holdfast.agent.engine.model.batch import Batch
from holdfast.agent.engine.model.outcome import ROUTINE, WATCHED, Cause
from holdfast.agent.engine.model.vertex import Observer, Vertex
from holdfast.agent.engine.model.waits import Pause
from holdfast.agent.engine.policy import Policy
from holdfast.agent.engine.schedule.blockers import Blockers
from holdfast.agent.engine.schedule.definition_order import TIMEOUT, DefinitionOrder, Heap, Item, item_of
from holdfast.agent.engine.schedule.reservations import Reservations
from holdfast.agent.engine.schedule.semaphores import Semaphores
from holdfast.agent.engine.schedule.sequences import Sequences
from holdfast.agent.engine.schedule.workers import Workers

Mark = tuple[Vertex, Cause]
"""A vertex to make dirty, and why."""
NO_MARKS: Sequence[Mark] = ()


class VertexStarter(Protocol):
    """The part of the runner that the scheduler uses."""

    def start(self, vertex: Vertex) -> None:
        """Start the run of a vertex. `finished` must be called after it."""

    def idle(self) -> None:
        """Run listeners or end the pass: no vertex runs, and all others have settled or only wait."""


class Scheduler:
    """Starts dirty vertices in order.

    Vertices of one group that may start at the same time run as one batch, which occupies one of `workers`.

    Notifies the observer when a vertex becomes dirty, starts or settles. `Parts` sets `runner` after the construction.
    """

    runner: VertexStarter

    def __init__(self, policy: Policy, observer: Observer) -> None:
        self._loop = asyncio.get_running_loop()  # asked for once, as elsewhere: each time costs a system call
        self.workers = Workers(policy)
        self.paused: set[Pause] = set()
        """Reasons for starting nothing now; empty: vertices start."""
        self.unsettled: set[Vertex] = set()
        """Vertices that are dirty or running."""
        self.semaphores = Semaphores()
        self.reservations = Reservations()
        self._observer = observer
        self._order = DefinitionOrder(TIMEOUT if policy.daemon else math.inf)
        self.vertices: Collection[Vertex] = ()
        """All vertices of the graph."""
        self._alarm: asyncio.TimerHandle | None = None
        """Calls `pump` when a run or a wait may have taken too long."""
        self._round = 0
        """Number of the latest pump: vertices that are marked between two pumps start in definition order."""
        self._turn = 0
        """The queue whose turn it is."""
        self._blockers = Blockers()
        self._bound = Heap()
        """Dirty vertices bound by definition order."""
        self._marked = Heap()
        """Dirty vertices bound only by their requisites."""
        self._routine = Heap()
        """Dirty vertices bound only by their requisites and marked only for a recheck or a poll."""
        self._groups: dict[Hashable, set[Vertex]] = {}
        """Group -> its vertices that were marked and may still be dirty."""

    @property
    def sequences(self) -> Sequences:
        """The sequences of the graph."""
        return self._blockers.sequences

    def mark(self, vertex: Vertex, cause: Cause) -> None:
        """Make a vertex dirty. A running vertex becomes dirty when its run ends, so that no event is lost.

        A poll that is due while the vertex runs is dropped. Otherwise, a check that takes longer than the poll period
        would keep its pass from ending.
        """
        queue = vertex.queue
        if queue.removed:
            return
        if queue.running:
            self.notice(vertex)
            if cause != "poll" and (queue.pending_cause is None or queue.pending_cause in WATCHED):
                queue.pending_cause = cause
            return
        queue.generation += 1
        if not queue.dirty:
            self._make_dirty(vertex, cause)
        elif queue.listening:
            queue.pending_cause = cause  # the next run only refreshes; the one after it needs the cause
        elif _is_routine(vertex, queue.cause) and not _is_routine(vertex, cause):
            queue.cause, queue.round = cause, self._round
            self.offer(vertex)

    def listen(self, vertex: Vertex) -> None:
        """Make a settled listener dirty: its next run only refreshes, and runs in definition order."""
        vertex.queue.listening = vertex.queue.new = True
        self._make_dirty(vertex, "refresh")

    def notice(self, vertex: Vertex) -> None:
        """Note the time of an event, unless an earlier event is still to be handled."""
        if vertex.queue.noticed_at is None:
            vertex.queue.noticed_at = self._loop.time()

    def answer(self, vertex: Vertex) -> float | None:
        """Note that the current run handles all events so far. Returns the loop time of the first; None: none came."""
        noticed_at, vertex.queue.noticed_at = vertex.queue.noticed_at, None
        return noticed_at

    def force(self, vertex: Vertex) -> None:
        """Make the next run execute the action even if it is done."""
        vertex.queue.force_next = True

    def _make_dirty(self, vertex: Vertex, cause: Cause) -> None:
        queue = vertex.queue
        if queue.noticed_at is None:
            queue.noticed_at = self._loop.time()
        queue.dirty, queue.cause, queue.round = True, cause, self._round
        self.unsettled.add(vertex)
        self._enter(vertex)
        self._observer.note(vertex)

    def offer(self, vertex: Vertex) -> None:
        """Queue a dirty vertex that may be able to start: it was marked or armed, or its blocker has settled.

        A vertex bound by definition order needs no further item: `_bound` keeps the one of `_enter` until it starts.
        """
        queue = vertex.queue
        if queue.dirty and not queue.new:
            heap = self._routine if _is_routine(vertex, queue.cause) else self._marked
            heap.push(item_of(vertex, queue.round))

    def pump(self) -> None:
        """Start all vertices that may start."""
        now = self._loop.time()
        self._round += 1
        while not self.paused and not self.workers.busy:
            vertex = self._next(now)
            if vertex is None:
                break
            self._start(vertex, now)
        if self.unsettled and self.workers.at_work:
            self.pump_at(self.workers.until)
        if not self.unsettled or not (self.workers.at_work or self.paused):
            self.runner.idle()

    def _start(self, vertex: Vertex, now: float) -> None:
        """Start a vertex, with all others of its group that may start."""
        self._begin(vertex, vertex)
        together = [vertex]
        if vertex.group is not None and not vertex.queue.listening:
            together += self._companions(vertex, now)
        batch = Batch([each.identity for each in together]) if len(together) > 1 else None
        self.workers.take(batch or vertex, now)
        for each in together:
            each.queue.batch = batch
            self.runner.start(each)
            each.queue.force_next = each.queue.force_next and each.queue.listening  # the run has read the flag

    def release_worker(self, vertex: Vertex) -> None:
        """Let another vertex start although this one runs: the run is about to take long."""
        self.workers.release(vertex.queue.batch or vertex)
        self.pump_at(self._loop.time())

    def pause(self, why: Pause) -> None:
        """Start nothing until `resume` is called."""
        self.paused.add(why)

    def resume(self, why: Pause) -> None:
        """End a pause, and start vertices if no other pause is left.

        A vertex that held back others during the pause gets its full time again.
        """
        self.paused.discard(why)
        if not self.paused:
            self._order.forget_time()
            self.pump()

    def finished(self, vertex: Vertex, *, waits: bool, again: Cause | None = None) -> Sequence[Mark]:
        """Note that the task of a run has ended. Returns the marks to make now.

        If the vertex `waits` for its next attempt, it stays dirty; otherwise it settles. `again`: the cause for which
        it must run again, in place of any mark that it got during the run.
        """
        if not vertex.queue.batch or vertex.queue.batch.ended():
            self.workers.give(vertex.queue.batch or vertex)
        queue = vertex.queue
        queue.batch, queue.running = None, False
        queue.pending_cause = again or queue.pending_cause
        for waiter in self.semaphores.give(vertex):
            self.offer(waiter)
        if not waits:
            return self.settle(vertex)
        queue.dirty, queue.new, queue.round = True, False, self._round
        self._enter(vertex)
        self._observer.note(vertex)
        return self._over(vertex)

    def settle(self, vertex: Vertex) -> Sequence[Mark]:
        """Settle a vertex that has an outcome, and queue the vertices that waited for it. Returns the marks to make."""
        vertex.queue.new = vertex.queue.dirty = vertex.queue.listening = False
        self.unsettled.discard(vertex)
        if not self.unsettled:
            self.unsettled.clear()  # a set does not release memory when elements are removed
        self._observer.note(vertex)
        return self._over(vertex)

    def enter(self, vertex: Vertex, *, new: bool, forced: bool) -> None:
        """Take a vertex that has joined the graph. `new`: definition order applies; `forced`: as after `force`."""
        vertex.queue.new, vertex.queue.force_next = new, forced

    def remove(self, vertices: Iterable[Vertex]) -> None:
        """Never start these vertices again: they leave the graph, or are reversals that are done."""
        for vertex in vertices:
            vertex.queue.removed = True

    def give_up(self) -> None:
        """Forget all marks."""
        for vertex in self.unsettled:
            vertex.queue.dirty = False
        self.rebuild(self.vertices)

    def rebuild(self, vertices: Collection[Vertex]) -> None:
        """Build all queues again from the unsettled vertices of a new graph, since positions have changed."""
        self.vertices = vertices
        for heap in (self._bound, self._marked, self._routine):
            heap.clear()
        self._order.clear()
        self._blockers.rebuild(vertices)
        self._groups.clear()
        self.unsettled = {vertex for vertex in vertices if not vertex.settled}
        for vertex in self.unsettled:
            vertex.queue.waiters = None
            self._enter(vertex)

    def _over(self, vertex: Vertex) -> Sequence[Mark]:
        """Queue the vertices that waited for this one, which has settled or waits.

        Returns the mark that it got during its run, and marks of the vertices that overtook it.
        """
        waiters, vertex.queue.waiters = vertex.queue.waiters, None
        for waiter in waiters or ():
            self.offer(waiter)
        cause, vertex.queue.pending_cause = vertex.queue.pending_cause, None
        overtook = self._order.ended(vertex)
        if cause is None and not overtook:
            return NO_MARKS
        marks: list[Mark] = [] if cause is None else [(vertex, cause)]
        return marks + [(each, "recovery") for each in overtook]

    def _enter(self, vertex: Vertex) -> None:
        """Add a vertex to the heaps of unsettled vertices. They share one item: at the start they have all vertices."""
        item = item_of(vertex)
        self._blockers.enter(item, self.unsettled)
        if vertex.queue.new:
            self._order.enter(item)
            self._bound.push(item)
        if (group := vertex.group) is not None:
            self._groups.setdefault(group, set()).add(vertex)
        self.offer(vertex)

    def _begin(self, vertex: Vertex, leader: Vertex) -> None:
        vertex.queue.dirty, vertex.queue.running = False, True
        self._observer.note(vertex)
        self._order.began(vertex)
        self.semaphores.take(vertex, leader)

    def _companions(self, leader: Vertex, now: float) -> Iterator[Vertex]:
        """Yield each vertex of the leader's group that may start with it, after beginning its run.

        No path connects two members of a batch, since each member has begun when the next one is considered. Definition
        order binds members, but they do not hold back each other: a vertex that was declared after others does not
        overtake these by joining a batch. `aggregate: true` lifts definition order, as in Salt.
        """
        group, batch = self._groups[leader.group], {leader}
        passed: list[Item] = []
        bound = False
        for vertex in sorted(group, key=lambda vertex: vertex.position):
            if not vertex.queue.dirty or vertex.queue.removed:
                group.discard(vertex)
                continue
            if vertex.queue.listening or not self._ready(vertex, now) or self.semaphores.full(vertex, leader):
                continue
            if vertex.queue.new and not vertex.call.meta.aggregate:
                bound = bound or not self._order.lets_start(vertex, batch, passed)
                if bound:
                    continue
            if self._blockers.of(vertex, self.unsettled) is None:
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
            if vertex.queue.removed or not vertex.queue.dirty or not vertex.queue.new:
                heappop(self._bound)
                continue
            if self._order.lets_start(vertex):
                blocker = self._blockers.of(vertex, self.unsettled)
                if (
                    vertex.not_before > now
                    or self.reservations.covers(vertex)
                    or (blocker and self._order.is_exempt(blocker))
                ):
                    self._exempt(vertex)
                    continue
                if not blocker and vertex.watching.armed and not self.semaphores.full(vertex):
                    heappop(self._bound)
                    return vertex
            slow = self._order.overdue(now)
            if slow is None:
                self.pump_at(self._order.until)
                break
            self._exempt(slow)
        return None

    def _next_free(self, heap: Heap, now: float) -> Vertex | None:
        while heap:
            round_, *_, vertex = heappop(heap)
            if (
                not vertex.queue.dirty
                or vertex.queue.removed
                or vertex.queue.round != round_
                or not self._ready(vertex, now)
            ):
                continue  # `offer` is called again when the vertex is armed or its time has come
            blocker = self._blockers.of(vertex, self.unsettled)
            if blocker is not None:
                if blocker.queue.waiters is None:
                    blocker.queue.waiters = []
                blocker.queue.waiters.append(vertex)
            elif name := self.semaphores.full(vertex):
                self.semaphores.wait(vertex, name)
            else:
                return vertex
        return None

    def _ready(self, vertex: Vertex, now: float) -> bool:
        return vertex.watching.armed and vertex.not_before <= now and not self.reservations.covers(vertex)

    def _exempt(self, vertex: Vertex) -> None:
        """Exempt a vertex from definition order."""
        vertex.queue.new = False
        self.offer(vertex)

    def pump_at(self, when: float) -> None:
        """Call `pump` at this loop time, when a run or a wait may have taken too long."""
        if when < math.inf and (self._alarm is None or self._alarm.when() > when):
            if self._alarm:
                self._alarm.cancel()
            self._alarm = self._loop.call_at(when, self._alarmed)

    def _alarmed(self) -> None:
        """Release the workers of runs that take too long, and start all vertices that may start."""
        self._alarm = None
        self.workers.release_overdue(self._loop.time())
        self.pump()


def _is_routine(vertex: Vertex, cause: Cause) -> bool:
    """Return whether the check of a vertex is routine: a poll, or a recheck, also one that an operator requested.

    A run that an operator triggered is not routine.
    """
    return cause in ROUTINE or (cause == "command" and not vertex.queue.force_next)

"""Handles events of watches, timers and obstacles: each marks a vertex, now or later."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection, Iterable

from holdfast.agent.engine.decide.marker import Marker
from holdfast.agent.engine.deliver.deliveries import Deliveries
from holdfast.agent.engine.deliver.obstacles import Obstacles
from holdfast.agent.engine.model.events import Notice
from holdfast.agent.engine.model.outcome import WATCHED, Cause
from holdfast.agent.engine.model.vertex import Vertex
from holdfast.agent.engine.model.waits import Obstacle
from holdfast.agent.engine.policy import Policy
from holdfast.agent.engine.schedule import limits
from holdfast.agent.engine.schedule.pending_events import PendingEvents
from holdfast.agent.engine.schedule.scheduler import Mark, Scheduler
from holdfast.agent.engine.schedule.timers import Timers
from holdfast.agent.engine.watch.supervisor import cause_of
from holdfast.resources.traits import Reactive


class EventHandler:
    """Handles the events of one engine."""

    def __init__(
        self,
        policy: Policy,
        emit: Callable[[Notice], None],
        *,
        scheduler: Scheduler,
        timers: Timers,
        marker: Marker,
        deliveries: Deliveries,
    ) -> None:
        self._policy = policy
        self._loop = asyncio.get_running_loop()
        self._emit = emit
        self._scheduler = scheduler
        self._timers = timers
        self._marker = marker
        self._deliveries = deliveries
        self.pending = PendingEvents(self, scheduler)
        self._obstacles = Obstacles(self)
        self._held: set[Vertex] = set()
        """Vertices that may have drifted and are to be checked later."""

    @property
    def held(self) -> Collection[Vertex]:
        """Vertices that may have drifted and are to be checked later."""
        return self._held

    def keep(self, vertices: Collection[Vertex]) -> None:
        """Forget all other vertices, which have left the graph."""
        self._held.intersection_update(vertices)

    def stop(self) -> None:
        """Stop waiting for obstacles to end."""
        self._obstacles.close()

    def watch_event(self, vertex: Vertex) -> None:
        """Handle an event of the vertex's watch."""
        if not vertex.queue.removed:
            self._handle(vertex, cause_of(vertex))

    def _handle(self, vertex: Vertex, cause: Cause) -> None:
        """Mark the vertex, or check it later. A reactive action has to run again."""
        if cause == "drift" and isinstance(vertex.resource, Reactive):
            self._scheduler.force(vertex)
        wait = vertex.run.retry_wait
        if vertex.queue.running or (vertex.queue.dirty and wait is None):
            self._marker.mark(vertex, cause)
        elif wait or not vertex.not_before or vertex.not_before <= self._loop.time():
            self._notice(vertex, cause)

    def _notice(self, vertex: Vertex, cause: Cause) -> None:
        """Check a vertex after an event, now or later.

        A rate limit or flapping delays the check, and so does a failed attempt that may have caused the event.
        """
        now = self._loop.time()
        if "operator" in self._scheduler.paused and not vertex.queue.dirty:
            self._emit(Notice("info", "noticed", vertex.identity, "may have drifted; nothing is repaired while paused"))
        echo = limits.self_caused_delay(vertex, cause, now)
        wait = max(limits.hold_off(vertex, now), echo or limits.take(vertex, self._policy.options, now))
        if wait == 0:
            self._marker.mark(vertex, cause)
        elif vertex.run.retry_wait is None:
            known = echo > 0 and vertex.timer is not None
            if echo:
                wait = self._timers.postpone(vertex, wait, cause)
            else:
                self._timers.hold(vertex, wait, cause)
                self._held.add(vertex)
            self._scheduler.notice(vertex)
            if not known:
                self._emit(Notice("info", "held-off", vertex.identity, f"may have drifted; checked in {wait:.3g} s"))

    def marked(self, marks: Iterable[Mark]) -> None:
        """Handle the marks that vertices got during a run that has ended now.

        If the attempt was perhaps undone, the next attempt handles all events of the watch so far.
        """
        for vertex, cause in marks:
            if cause in WATCHED and not vertex.queue.removed:
                if vertex.run.retry_wait is None or vertex.run.retry_wait.undone is None:
                    self._notice(vertex, cause)
            else:
                self._marker.mark(vertex, cause)

    def postponed(self, vertex: Vertex, cause: Cause) -> None:
        """Handle an event that was delayed after a failed attempt; rate limits apply to it only now."""
        limits.forget_failure(vertex)
        self._timers.clear(vertex)
        self._handle(vertex, cause)
        self.pending.soon()

    def woken(self, vertex: Vertex, cause: Cause) -> None:
        """Check a vertex now, even if it was held back."""
        self._timers.clear(vertex)
        self._held.discard(vertex)
        self._deliveries.listened.discard(vertex)
        if cause != "retry" or vertex.run.retry_wait is None:
            self._marker.mark(vertex, cause)
        self._scheduler.offer(vertex)
        self._scheduler.pump()

    def hold_back(self, vertex: Vertex, obstacle: Obstacle) -> None:
        """Keep a vertex from starting until its obstacle is gone; then check it."""
        now = self._loop.time()
        self._timers.hold(vertex, math.inf if obstacle.until is None else obstacle.until - now, "retry")
        self._obstacles.hold(vertex, obstacle)

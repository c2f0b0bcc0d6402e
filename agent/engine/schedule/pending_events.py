"""Pending events: events of watches, handled in the next callback of the loop, so that vertices start in order.

When a directory and its files vanish together, the directory is repaired first; the members of one group start
together. Many events are handled in slices, so that they do not block the event loop.
"""

from __future__ import annotations

import asyncio
from heapq import heappop
from typing import Protocol

from holdfast.agent.engine.model.vertex import Vertex
from holdfast.agent.engine.schedule.definition_order import Heap, item_of
from holdfast.agent.engine.schedule.scheduler import Scheduler

SLICE = 100
"""Events that are handled in one callback of the loop: less than two milliseconds."""


class EventConsumer(Protocol):
    """The handler of pending events."""

    def watch_event(self, vertex: Vertex) -> None:
        """Handle an event of the vertex's watch."""


class PendingEvents:
    """The pending events of one engine. When all are handled, the scheduler starts all vertices that may start."""

    def __init__(self, events: EventConsumer, scheduler: Scheduler) -> None:
        self._events = events
        self._scheduler = scheduler
        self._loop = asyncio.get_running_loop()
        self._told = Heap()
        self._called = False
        """Whether a call of `_next` is scheduled."""

    def tell(self, vertex: Vertex) -> None:
        """Add an event of the vertex's watch. Never fails; the event is handled in the next callback of the loop."""
        self._told.push(item_of(vertex))
        self.soon()

    def soon(self) -> None:
        """Make the scheduler start vertices, once it has queued all that are marked or armed at this moment."""
        if not self._called:
            self._called = True
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        self._called = False
        try:
            for _ in range(min(len(self._told), SLICE)):
                self._events.watch_event(heappop(self._told)[3])
        finally:  # an exception for one vertex must not keep the others from being handled
            if self._told:
                self.soon()
            else:
                self._scheduler.pump()

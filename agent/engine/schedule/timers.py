"""Timers: when a vertex is checked again without an event, and the time before which it must not start."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable
from typing import Protocol

from holdfast.agent.engine.model.outcome import Cause
from holdfast.agent.engine.model.vertex import Observer, Vertex


class TimerHandler(Protocol):
    """The handler of timers that have fired."""

    def woken(self, vertex: Vertex, cause: Cause) -> None:
        """Check a vertex, whose time has come."""

    def postponed(self, vertex: Vertex, cause: Cause) -> None:
        """Handle a postponed event of a vertex."""


class Timers:
    """The timers of one engine. `events`, which is set after the construction, handles them."""

    events: TimerHandler

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    def wake(self, vertex: Vertex, delay: float, cause: Cause) -> None:
        """Check the vertex after `delay` seconds, unless an earlier timer is set or the vertex is held."""
        loop = asyncio.get_running_loop()
        if vertex.timer is None or (vertex.not_before <= loop.time() and vertex.timer.when() > loop.time() + delay):
            self._set(vertex, loop.time() + delay, self.events.woken, cause)

    def postpone(self, vertex: Vertex, delay: float, cause: Cause) -> float:
        """Answer an event after `delay` seconds, or at the time of an earlier timer. Returns the seconds until then."""
        now = asyncio.get_running_loop().time()
        when = min(now + delay, vertex.timer.when()) if vertex.timer else now + delay
        self._set(vertex, when, self.events.postponed, cause)
        return when - now

    def hold(self, vertex: Vertex, delay: float, cause: Cause) -> None:
        """Keep the vertex from starting for `delay` seconds, then check it. This replaces an earlier timer.

        With an infinite delay, the vertex is held until `clear` is called.
        """
        self.clear(vertex)
        vertex.not_before = asyncio.get_running_loop().time() + delay
        if delay < math.inf:
            self._set(vertex, vertex.not_before, self.events.woken, cause)

    def clear(self, vertex: Vertex) -> None:
        """Remove the timer: the vertex may start at any time, and is not checked without an event."""
        vertex.not_before = 0.0
        if vertex.timer:
            vertex.timer.cancel()
            vertex.timer = None
            self._observer.note(vertex)

    def drop(self, vertices: Iterable[Vertex]) -> None:
        """Cancel the timers of vertices that leave the graph."""
        for vertex in vertices:
            if vertex.timer:
                vertex.timer.cancel()

    def _set(self, vertex: Vertex, when: float, then: Callable[[Vertex, Cause], None], cause: Cause) -> None:
        if vertex.timer:
            vertex.timer.cancel()
        vertex.timer = asyncio.get_running_loop().call_at(when, then, vertex, cause)
        self._observer.note(vertex)

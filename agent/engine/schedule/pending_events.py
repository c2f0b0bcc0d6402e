"""News: what watches have told, taken up a moment later, so that what comes together starts in order.

A directory that is gone comes before the files in it, and those of one group start together. What is much is taken up a slice at a time, so that
it holds up nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from heapq import heappop

from holdfast.agent.engine.model.graph import Vertex
from holdfast.agent.engine.schedule.definition_order import Heap

SLICE = 100
"""Vertices that are taken up in one callback of the loop: less than two milliseconds."""


class PendingEvents:
    """Those of one engine. `take_up` is called for each vertex of which a watch has told something, then `pump` starts what may start."""

    def __init__(self, take_up: Callable[[Vertex], None], pump: Callable[[], None]) -> None:
        self._take_up = take_up
        self._pump = pump
        self._told = Heap()
        self._called = False
        """`_next` is called in a moment."""

    def tell(self, vertex: Vertex) -> None:
        """Its watch tells that something may have changed. Never fails, and changes nothing before the next callback of the loop."""
        self._told.push(vertex)
        self.soon()

    def soon(self) -> None:
        """Start what may start, when all that comes at this moment is marked, or armed."""
        if not self._called:
            self._called = True
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        self._called = False
        try:
            for _ in range(min(len(self._told), SLICE)):
                self._take_up(heappop(self._told)[3])
        finally:  # a bug that one vertex meets keeps no other from being looked at
            if self._told:
                self.soon()
            else:
                self._pump()

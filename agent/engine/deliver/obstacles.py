"""Vertices that are left alone while something outside is in their way: they stay dirty, and start when it is over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from holdfast.agent.engine.deliver.journal import Journal
from holdfast.agent.engine.deliver.store import Unwritable
from holdfast.agent.engine.model.events import Obstacle
from holdfast.agent.engine.model.graph import Vertex
from holdfast.resources.contract import Resource

Ask = Callable[[Resource], Awaitable[Obstacle | None]]
"""Finds what is in the way of putting a resource right now."""


async def nothing(_: Resource) -> None:
    """There is never anything in the way."""


def unwritable(journal: Journal, error: Unwritable) -> Obstacle:
    """The obstacle for a resource whose change must be written down first, while that cannot be done."""
    return Obstacle(f"the journal cannot be written ({error})", None, journal.writable)


class Obstacles:
    """Those of one engine. `over` is called for each vertex whose obstacle is."""

    def __init__(self, over: Callable[[Vertex], None]) -> None:
        self._over = over
        self._behind: dict[asyncio.Event, set[Vertex]] = {}
        """The end of each obstacle -> who waits for it."""
        self._waiting: set[asyncio.Task[None]] = set()

    def hold(self, vertex: Vertex, obstacle: Obstacle) -> None:
        """Have it wait for the end of this."""
        if obstacle.over not in self._behind:
            self._behind[obstacle.over] = set()
            task = asyncio.create_task(self._wait(obstacle.over), name="obstacle")
            self._waiting.add(task)
            task.add_done_callback(self._waiting.discard)
        self._behind[obstacle.over].add(vertex)

    def close(self) -> None:
        """Wait for nothing any more."""
        for task in self._waiting:
            task.cancel()

    async def _wait(self, over: asyncio.Event) -> None:
        await over.wait()
        for vertex in sorted(self._behind.pop(over), key=lambda vertex: vertex.position):
            if not vertex.removed:
                self._over(vertex)

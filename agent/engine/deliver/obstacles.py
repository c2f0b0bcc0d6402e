"""Obstacles: external reasons why a vertex cannot be repaired now; it stays dirty and starts when the obstacle ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from holdfast.agent.engine.deliver.journal import Journal
from holdfast.agent.engine.deliver.store import Unwritable
from holdfast.agent.engine.model.outcome import Cause
from holdfast.agent.engine.model.vertex import Vertex
from holdfast.agent.engine.model.waits import Obstacle
from holdfast.resources.contract import Resource

Ask = Callable[[Resource], Awaitable[Obstacle | None]]
"""Returns what prevents the repair of a resource now, if anything does."""


async def nothing(_: Resource) -> None:
    """Return no obstacle, whatever the resource."""


def unwritable(journal: Journal, error: Unwritable) -> Obstacle:
    """Return the obstacle of a resource whose change must be recorded first, while the journal cannot be written."""
    return Obstacle(f"the journal cannot be written ({error})", None, journal.writable)


class VertexWaker(Protocol):
    """The part of the engine that obstacles use."""

    def woken(self, vertex: Vertex, cause: Cause) -> None:
        """Check a vertex now."""


class Obstacles:
    """The obstacles of one engine. A vertex whose obstacle is gone is checked."""

    def __init__(self, events: VertexWaker) -> None:
        self._events = events
        self._behind: dict[asyncio.Event, set[Vertex]] = {}
        """Event that ends an obstacle -> the vertices that wait for it."""
        self._waiting: set[asyncio.Task[None]] = set()

    def hold(self, vertex: Vertex, obstacle: Obstacle) -> None:
        """Let the vertex wait until the obstacle is gone."""
        if obstacle.over not in self._behind:
            self._behind[obstacle.over] = set()
            task = asyncio.create_task(self._wait(obstacle.over), name="obstacle")
            self._waiting.add(task)
            task.add_done_callback(self._waiting.discard)
        self._behind[obstacle.over].add(vertex)

    def close(self) -> None:
        """Stop waiting."""
        for task in self._waiting:
            task.cancel()

    async def _wait(self, over: asyncio.Event) -> None:
        await over.wait()
        for vertex in sorted(self._behind.pop(over), key=lambda vertex: vertex.position):
            if not vertex.queue.removed:
                self._events.woken(vertex, vertex.queue.cause)

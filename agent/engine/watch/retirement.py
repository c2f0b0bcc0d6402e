"""Retirement: ends the watches and runs of vertices that leave the graph; their replacements wait for that."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Protocol

from holdfast.agent.engine.model.vertex import Vertex


class DepartureHandler(Protocol):
    """The receiver of reports on vertices that have left."""

    def left(self, vertex: Vertex) -> None:
        """Note that all runs of a vertex that has left the graph have ended."""


class Retirement:
    """The vertices that are leaving one engine."""

    def __init__(self, owner: DepartureHandler) -> None:
        self._owner = owner
        self._ending: dict[Vertex, asyncio.Task[None]] = {}
        """Leaving vertex that still runs -> the task that waits for the end of its run."""
        self._cancelling = False

    def __iter__(self) -> Iterator[Vertex]:
        """Iterate over the leaving vertices that still run."""
        return iter(self._ending)

    async def retire(self, vertices: Iterable[Vertex], timeout: float) -> None:
        """End the watches of these vertices. A run that does not end within `timeout` seconds is cancelled.

        Returns when the watches have ended; `over` waits for the runs.
        """
        leaving = list(vertices)
        for vertex in leaving:
            watcher = vertex.watching.watcher
            if watcher and not isinstance(watcher, asyncio.Task):
                watcher.close()
        await cancel(
            [vertex.watching.watcher for vertex in leaving if isinstance(vertex.watching.watcher, asyncio.Task)]
        )
        for vertex in leaving:
            if running := _running(vertex):
                self._ending[vertex] = asyncio.create_task(_end(running, 0 if self._cancelling else timeout))
                self._ending[vertex].add_done_callback(partial(self._over, vertex))

    def before(self, succeeds: Callable[[Vertex], bool]) -> tuple[asyncio.Task[None], ...]:
        """Return the tasks for which a new vertex must wait.

        `succeeds` says whether the new vertex takes the place of the given leaving one.
        """
        return tuple([task for vertex, task in self._ending.items() if succeeds(vertex)])

    def cancel_all(self) -> None:
        """Cancel all runs of leaving vertices at once, also of those that leave later."""
        self._cancelling = True
        for vertex in self._ending:
            for task in _running(vertex):
                task.cancel()

    async def over(self) -> None:
        """Wait until the runs of all leaving vertices have ended."""
        if self._ending:
            await asyncio.wait(self._ending.values())

    def _over(self, vertex: Vertex, ended: asyncio.Task[None]) -> None:
        if self._ending.get(vertex) is ended:
            del self._ending[vertex]
        self._owner.left(vertex)


def _running(vertex: Vertex) -> list[asyncio.Task[Any]]:
    """Return the tasks that work for a vertex: a run, a probe, or none."""
    return [task for task in (vertex.run.task, vertex.probe.task) if task]


async def _end(tasks: Iterable[asyncio.Task[Any]], timeout: float) -> None:
    """Wait for these tasks for `timeout` seconds, then cancel those that still run."""
    _, late = await asyncio.wait(tasks, timeout=timeout)
    await cancel(late)


async def cancel(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel these tasks, and wait until they have ended."""
    ending = list(tasks)
    for task in ending:
        task.cancel()
    if ending:
        await asyncio.wait(ending)

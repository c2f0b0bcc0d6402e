"""Resources that have left the graph and still run: what ends that, and for whom others have to wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from holdfast.agent.engine.model.graph import Vertex


class Retirement:
    """All that are leaving one engine. `left` is called for each of which nothing runs any more."""

    def __init__(self, left: Callable[[Vertex], None]) -> None:
        self._left = left
        self._ending: dict[Vertex, asyncio.Task[None]] = {}
        """Each with what ends its run."""
        self._hurried = False

    def __iter__(self) -> Iterator[Vertex]:
        """Those that still run."""
        return iter(self._ending)

    async def retire(self, vertices: Iterable[Vertex], patience: float) -> None:
        """End the watches of these, and see to it that what runs of them ends: by itself within `patience` seconds, else it is cancelled."""
        leaving = list(vertices)
        for vertex in leaving:
            vertex.removed = True
            if vertex.timer:
                vertex.timer.cancel()
            if vertex.watcher and not isinstance(vertex.watcher, asyncio.Task):
                vertex.watcher.close()
        await cancel([vertex.watcher for vertex in leaving if isinstance(vertex.watcher, asyncio.Task)])
        for vertex in leaving:
            if running := [task for task in (vertex.task, vertex.probe_task) if task]:
                self._ending[vertex] = asyncio.create_task(_end(running, 0 if self._hurried else patience))
                self._ending[vertex].add_done_callback(partial(self._over, vertex))

    def before(self, succeeds: Callable[[Vertex], bool]) -> tuple[asyncio.Task[None], ...]:
        """What has to be waited for by one that takes the place of those for which this holds."""
        return tuple([task for vertex, task in self._ending.items() if succeeds(vertex)])

    def hurry(self) -> None:
        """Wait for nobody any more: what still runs is cancelled."""
        self._hurried = True
        for vertex in self._ending:
            for task in (vertex.task, vertex.probe_task):
                if task:
                    task.cancel()

    async def over(self) -> None:
        """Wait until all have come to their end."""
        if self._ending:
            await asyncio.wait(self._ending.values())

    def _over(self, vertex: Vertex, ended: asyncio.Task[None]) -> None:
        if self._ending.get(vertex) is ended:
            del self._ending[vertex]
        self._left(vertex)


async def _end(tasks: Iterable[asyncio.Task[Any]], patience: float) -> None:
    """Let them finish for so many seconds, then cancel them."""
    _, late = await asyncio.wait(tasks, timeout=patience)
    await cancel(late)


async def cancel(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel and wait for the end."""
    ending = list(tasks)
    for task in ending:
        task.cancel()
    if ending:
        await asyncio.wait(ending)

"""Tasks that run as long as the daemon, each with a name. If a task ends early, health reports it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from holdfast.agent.health import Health
from holdfast.agent.loggers import LazyLogger

log = LazyLogger("holdfast.tasks")


class Tasks:
    """The permanent tasks of one daemon. If one ends by itself, the log and health report an error."""

    def __init__(self, health: Health) -> None:
        self._health = health
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, name: str, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run `work` for the life of the daemon."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        why = task.exception()
        text = f"{task.get_name()} has ended unexpectedly" + (f": {why}" if why else "")
        log.error(text, exc_info=why)
        self._health.set(f"task-died:{task.get_name()}", text, "error")

    async def end(self, task: asyncio.Task[Any], within: float | None = None) -> None:
        """Cancel a task that is no longer needed, and wait for its end; it is cancelled again after some seconds.

        This also clears a report that the task had ended by itself.
        """
        task.cancel()
        if not (await asyncio.wait([task], timeout=within))[0]:
            task.cancel()
            await asyncio.wait([task])
        self._health.clear(f"task-died:{task.get_name()}")

    async def stop(self) -> None:
        """Cancel all tasks and wait until they have ended."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

"""Eternal tasks, named and guarded: none of them dies in silence."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from holdfast.agent.health import Health
from holdfast.agent.loggers import Late

log = Late("holdfast.tasks")


class Tasks:
    """The eternal tasks of one daemon; one that ends by itself is an error in the log and in health."""

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

    async def stop(self) -> None:
        """Cancel all and wait for their ends, last started first."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

"""Connections of those who ask the agent something: each is a task of its own, and none outlives the server that took it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""What is said over one connection, from its begin to its end; `OSError` and `TimeoutError` end it."""


class Connections:
    """Those that are open."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self._open: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """How many they are."""
        return len(self._open)

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Talk over a new connection and close it: what asyncio's servers call, in a task made for that."""
        task = asyncio.current_task()
        if task is not None:
            self._open.add(task)
            task.add_done_callback(self._open.discard)
        try:
            await self._talk(reader, writer)
        except (OSError, TimeoutError, asyncio.CancelledError):
            pass  # the client is gone, or we are: there is nobody to tell
        finally:
            writer.close()

    async def stop(self) -> None:
        """Let go of all of them."""
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

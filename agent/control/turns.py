"""Turns of viewers in the event loop: one viewer at a time, and all viewers together for a limited part of the time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

REST = 4.0
"""After a turn, viewers wait this many times as long as it took: they get at most a fifth of the time."""


class Turns:
    """The turns of one server. Repairs and requests of root continue between them, however many viewers are waiting."""

    def __init__(self) -> None:
        self._free = asyncio.Lock()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Hold the turn during the block.

        The next turn begins after a pause, even if the viewer has disconnected by then.
        """
        await self._free.acquire()
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            yield
        finally:
            loop.call_later(REST * (loop.time() - began), self._free.release)

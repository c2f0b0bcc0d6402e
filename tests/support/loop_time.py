"""The time that each callback of the event loop takes."""

from __future__ import annotations

import asyncio.events
import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def callbacks() -> Iterator[list[float]]:
    """CPU seconds of each callback of the event loop within the block; other processes on the cores do not count."""
    taken: list[float] = []
    run = asyncio.events.Handle._run

    def timed(handle: asyncio.events.Handle) -> None:
        began = time.thread_time()
        run(handle)
        taken.append(time.thread_time() - began)

    asyncio.events.Handle._run = timed  # type: ignore[method-assign]
    try:
        yield taken
    finally:
        asyncio.events.Handle._run = run  # type: ignore[method-assign]

"""Blocking calls, one after the other, in a thread that ends after a second without calls.

Unlike `agent/host/blocking`, which the store must not import, it also makes calls whose callers were cancelled: each
accepted write reaches the database.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

LINGER = 1.0
"""Seconds for which the thread waits for the next call: an idle agent has no such thread."""


class CallThread:
    """Runs calls of one event loop."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: deque[Callable[[], None]] = deque()
        self._changed = threading.Condition()
        self._running = False

    async def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """Return the result of the function, or raise its error. The call runs even if the caller is cancelled."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def call() -> None:
            try:
                result = function(*arguments)
            except Exception as error:  # noqa: BLE001 - it is raised in the loop
                _settle(loop, done, done.set_exception, error)
            else:
                _settle(loop, done, done.set_result, result)

        with self._changed:
            self._calls.append(call)
            if self._running:
                self._changed.notify()
            else:
                self._running = True
                threading.Thread(target=self._work, name=self._name, daemon=True).start()
        return await done

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._changed.wait_for(lambda: self._calls, LINGER):
                    self._running = False
                    return
                call = self._calls.popleft()
            call()


def _settle(
    loop: asyncio.AbstractEventLoop, done: asyncio.Future[Any], settle: Callable[[Any], None], value: object
) -> None:
    def unless_cancelled() -> None:
        if not done.done():
            settle(value)

    try:
        loop.call_soon_threadsafe(unless_cancelled)
    except RuntimeError:  # the loop is closed
        return

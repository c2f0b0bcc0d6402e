"""Calls that may block, each in a short-lived thread of its own.

An idle agent has no thread here; a busy one never more than a few, because what blocks is the disk or a name service, and
more at once would not make those faster.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any

LIMIT = 2
"""Threads at once."""


class Blocking:
    """Runs blocking calls for one event loop."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._free = asyncio.Semaphore(limit)

    async def __call__(self, call: Callable[..., Any], /, *args: Any) -> Any:
        """What `call(*args)` returns or raises.

        The wait can be cancelled: a call that waits for a thread is then never made; one that runs goes on to its end unheard,
        and holds its place until then.
        """
        await self._free.acquire()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()

        def finish(value: Any, error: BaseException | None) -> None:
            self._free.release()
            if answer.cancelled():
                return
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(value)

        def work() -> None:
            value, error = None, None
            try:
                value = call(*args)
            except BaseException as raised:  # noqa: BLE001 - handed to the one who waits
                error = raised
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile: nobody waits
                loop.call_soon_threadsafe(finish, value, error)

        try:
            threading.Thread(target=work, name="holdfast-blocking", daemon=True).start()
        except RuntimeError:
            self._free.release()
            raise
        return await answer

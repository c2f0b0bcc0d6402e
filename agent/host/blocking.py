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
SPARE = 32
"""Threads more than that, in place of those whose call hangs: on a network file system, say."""
LONG = 10.0
"""Seconds after which a call may hang."""


class Blocking:
    """Runs blocking calls for one event loop, `limit` of them at once; those that take longer than `long` do not count, but for `spare` at most."""

    def __init__(self, limit: int = LIMIT, *, spare: int = 0, long: float = LONG) -> None:
        self._free = asyncio.Semaphore(limit)
        self._spare = spare
        self._patience = long

    async def __call__(self, call: Callable[..., Any], /, *args: Any) -> Any:
        """What `call(*args)` returns or raises.

        The wait can be cancelled: a call that waits for a thread is then never made; one that runs goes on to its end unheard,
        and holds its place until then.
        """
        await self._free.acquire()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        give_back = self._lend(loop)

        def finish(value: Any, error: BaseException | None) -> None:
            give_back()
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
            give_back()
            raise
        return await answer

    def _lend(self, loop: asyncio.AbstractEventLoop) -> Callable[[], None]:
        """What gives the place of one call back. Until then a spare takes its place, if it takes long."""
        if not self._spare:
            return self._free.release
        replaced = False

        def replace() -> None:
            nonlocal replaced
            if self._spare:
                self._spare -= 1
                replaced = True
                self._free.release()

        patience = loop.call_later(self._patience, replace)

        def give_back() -> None:
            patience.cancel()
            if replaced:
                self._spare += 1
            else:
                self._free.release()

        return give_back

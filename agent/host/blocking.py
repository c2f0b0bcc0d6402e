"""Calls that may block, in threads that end with their call, or soon after it.

An idle agent has no thread here; a busy one never more than a few, because what blocks is the disk or a name service, and
more at once would not make those faster. Where many short calls are made one after the other, a thread waits a moment for the next.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

LIMIT = 2
"""Threads at once."""
LINGER = 0.1
"""Seconds for which a thread may wait for its next call: as much as a slow disk takes between two."""
SPARE = 32
"""Threads more than that, in place of those whose call hangs: on a network file system, say."""
LONG = 10.0
"""Seconds after which a call may hang."""


Work = Callable[[Callable[[], None]], None]
"""A call to be made in a thread, which calls what it is given as soon as the thread is free again."""


def never() -> bool:
    """Something else may always want to run."""
    return False


class Blocking:
    """Runs blocking calls for one event loop, `limit` of them at once; those that take longer than `long` do not count, but for `spare` at most.

    A thread waits `linger` seconds for its next call.
    `alone` says whether nothing else in this process wants to run now: brief calls are then made at once, without a thread.
    """

    def __init__(
        self,
        limit: int = LIMIT,
        *,
        spare: int = 0,
        long: float = LONG,
        linger: float = 0.0,
        alone: Callable[[], bool] = never,
    ) -> None:
        self.alone = alone
        self._free = asyncio.Semaphore(limit)
        self._spare = spare
        self._patience = long
        self._linger = linger
        self._idle: list[SimpleQueue[Work]] = []
        """Threads that wait for work, each by the queue that it takes it from. Loop and threads change it in single steps."""

    async def brief(self, call: Callable[..., Any], /, *args: Any) -> Any:
        """The same for a call that waits for a disk, and only for a little: a small file, a flush."""
        return call(*args) if self.alone() else await self(call, *args)

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

        def work(free: Callable[[], None]) -> None:
            value, error = None, None
            try:
                value = call(*args)
            except BaseException as raised:  # noqa: BLE001 - handed to the one who waits
                error = raised
            free()  # before the answer: the next call finds this thread
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile: nobody waits
                loop.call_soon_threadsafe(finish, value, error)

        try:
            self._begin(work)
        except RuntimeError:
            give_back()
            raise
        return await answer

    def _begin(self, work: Work) -> None:
        """Hand work to a thread that waits for some, or to a new one. Raises `RuntimeError`."""
        try:
            inbox = self._idle.pop()
        except IndexError:
            inbox = SimpleQueue()
            threading.Thread(target=self._serve, args=(inbox,), name="holdfast-blocking", daemon=True).start()
        inbox.put(work)

    def _serve(self, inbox: SimpleQueue[Work]) -> None:
        """One thread: works until nothing has come for a while."""
        work: Work | None = inbox.get()
        while work is not None:
            work(lambda: self._idle.append(inbox))
            work = None  # what it has read is not kept meanwhile
            try:
                work = inbox.get(timeout=self._linger)
            except Empty:
                try:
                    self._idle.remove(inbox)
                except ValueError:  # it was given work at this very moment
                    work = inbox.get()

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

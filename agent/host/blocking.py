"""Calls that may block, in threads that end with their call or soon after.

An idle agent has no thread here, and a busy agent only a few: blocking calls wait for the disk or a name service, and
more threads would not make these faster. After many short calls in a row, a thread waits a moment for the next call.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar, copy_context
from queue import Empty, SimpleQueue
from typing import Any

LIMIT = 2
"""Threads at once."""
LINGER = 0.1
"""Seconds for which a thread may wait for its next call: the longest usual time between two calls on a slow disk."""
SPARE = 32
"""Most extra threads in place of threads whose call hangs, for example on a network file system."""
LONG = 10.0
"""Seconds after which a call counts as hanging."""


Work = Callable[[Callable[[], None]], None]
"""A call to make in a thread. The thread passes a callback; the call runs it as soon as the thread is free again."""


class Threads:
    """Counts the calls that run in threads for one caller. They continue after their caller was cancelled."""

    def __init__(self) -> None:
        self._number = 0
        self._none = asyncio.Event()
        self._none.set()

    @property
    def busy(self) -> bool:
        """Whether a call runs."""
        return self._number > 0

    async def end(self) -> None:
        """Wait until no call runs."""
        await self._none.wait()

    def begun(self) -> None:
        """Count a call that has begun."""
        self._number += 1
        self._none.clear()

    def ended(self) -> None:
        """Count a call that has ended."""
        self._number -= 1
        if not self._number:
            self._none.set()


_COUNTED: ContextVar[Threads | None] = ContextVar("threads of the present task", default=None)


@contextlib.contextmanager
def counted() -> Iterator[Threads]:
    """Count the calls that this task, and tasks which it starts, make in threads in the body."""
    threads = Threads()
    before = _COUNTED.set(threads)
    try:
        yield threads
    finally:
        _COUNTED.reset(before)


def never() -> bool:
    """Return False, as the default of `Blocking(alone=)`: other work may always be waiting."""
    return False


class Blocking:
    """Runs blocking calls for one event loop, at most `limit` at a time.

    A call that takes longer than `long` seconds no longer counts towards `limit`; at most `spare` calls are exempt this
    way. A thread waits `linger` seconds for its next call. `alone` says whether no other work in this process is
    waiting: `brief` calls are then made directly, without a thread.
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
        self._timeout = long
        self._linger = linger
        self._idle: list[SimpleQueue[Work]] = []
        """Queues of the idle threads, one each. The loop and the threads change this list in atomic steps only."""

    async def brief(self, call: Callable[..., Any], /, *args: Any) -> Any:
        """Do as `__call__`, for a call that waits only briefly for a disk: a flush, or a read of a small file."""
        return call(*args) if self.alone() else await self(call, *args)

    async def __call__(self, call: Callable[..., Any], /, *args: Any) -> Any:
        """Return the result of `call(*args)`, or raise its exception. The call has the context variables of its caller.

        The caller can be cancelled. A call that still waits for a thread is then never made. A running call continues
        to its end, keeps its slot until then, and its result is discarded.
        """
        await self._free.acquire()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        give_back = self._slot_release(loop)
        threads, context = _COUNTED.get(), copy_context()

        def over() -> None:
            give_back()
            if threads is not None:
                threads.ended()

        def finish(value: Any, error: BaseException | None) -> None:
            nonlocal answer
            over()
            if not answer.cancelled():
                if error is not None:
                    answer.set_exception(error)
                else:
                    answer.set_result(value)
            del answer  # the traceback of an error leads here: what the call has opened would stay open

        def work(free: Callable[[], None]) -> None:
            value, error = None, None
            try:
                value = context.run(call, *args)
            except BaseException as raised:  # noqa: BLE001 - handed to the waiting caller
                error = raised
            free()  # before the result is handed over: the next call can use this thread
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(finish, value, error)
            error = None  # for the same reason

        if threads is not None:
            threads.begun()
        try:
            self._begin(work)
        except RuntimeError:
            over()
            raise
        return await answer

    def _begin(self, work: Work) -> None:
        """Give work to an idle thread, or start a thread. Raises `RuntimeError`."""
        try:
            inbox = self._idle.pop()
        except IndexError:
            inbox = SimpleQueue()
            threading.Thread(target=self._serve, args=(inbox,), name="holdfast-blocking", daemon=True).start()
        inbox.put(work)

    def _serve(self, inbox: SimpleQueue[Work]) -> None:
        """One thread: works until its queue has been empty for `linger` seconds."""
        work: Work | None = inbox.get()
        while work is not None:
            work(lambda: self._idle.append(inbox))
            work = None  # release what the last call has read while waiting
            try:
                work = inbox.get(timeout=self._linger)
            except Empty:
                try:
                    self._idle.remove(inbox)
                except ValueError:  # work arrived at this very moment
                    work = inbox.get()

    def _slot_release(self, loop: asyncio.AbstractEventLoop) -> Callable[[], None]:
        """Return a function that gives the slot of one call back.

        If the call takes long, a spare slot replaces it meanwhile.
        """
        if not self._spare:
            return self._free.release
        replaced = False

        def replace() -> None:
            nonlocal replaced
            if self._spare:
                self._spare -= 1
                replaced = True
                self._free.release()

        timer = loop.call_later(self._timeout, replace)

        def give_back() -> None:
            timer.cancel()
            if replaced:
                self._spare += 1
            else:
                self._free.release()

        return give_back

"""Building blocks of watches."""

from __future__ import annotations

import asyncio
import os
from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Coroutine
from contextlib import suppress
from typing import Any, Protocol, Self

from holdfast.resources.author import Author
from holdfast.resources.context import Completed, Watch
from holdfast.resources.errors import Permanent
from holdfast.resources.watch_items import Unwatched, WatchItem

ALIVE = 0.5
"""Seconds after which a watching command that still runs counts as armed, even if it has written no line.

A command that does not exist ends sooner.
"""


class Closable(Protocol):
    """Something that continues until it is closed."""

    def close(self) -> None:
        """End it; harmless when repeated."""
        ...


class Listening(Closable, Protocol):
    """An armed watch that reports by a callback."""

    async def changed_by(self, since: float) -> Author | None:
        """Return the last process that has changed what is watched since this loop time; None if none is known."""
        ...


class CallbackWatch(AsyncGenerator[None, None]):
    """A watch that can also report by a callback, and never fails once it is armed.

    No task has to wait for such a watch, which saves memory.
    """

    @abstractmethod
    def listen(self, callback: Callable[[], None]) -> Listening:
        """Arm the watch. `callback` is called at each event until the result is closed.

        `callback` must neither block nor raise.
        """


async def idle() -> AsyncIterator[None]:
    """Watch nothing: the watch is armed at once and never reports an event."""
    yield None
    await asyncio.Event().wait()


async def either(*watches: Watch) -> AsyncGenerator[WatchItem, None]:
    """Merge watches: armed as long as all of them are; reports the events of each.

    Raises the exception of the first watch that raises one, and ends when one of them ends.
    """
    unarmed, news, told = set(range(len(watches))), asyncio.Event(), asyncio.Event()
    unwatched: dict[int, Unwatched] = {}

    async def follow(number: int, watch: Watch) -> None:
        try:
            async for item in watch:
                unarmed.discard(number)
                unwatched.pop(number, None)
                if isinstance(item, Unwatched):
                    unwatched[number] = item
                told.set()
                news.set()
        finally:
            news.set()

    followers = [asyncio.create_task(follow(number, watch), name="watch") for number, watch in enumerate(watches)]
    try:
        while True:
            await news.wait()
            news.clear()
            if told.is_set() and not unarmed:
                told.clear()
                yield next(iter(unwatched.values()), None)  # even if a watch has ended since then, its last item counts
            ended = [follower for follower in followers if follower.done()]
            if ended:
                ended[0].result()
                return
    finally:
        for follower in followers:
            follower.cancel()
        await asyncio.gather(*followers, return_exceptions=True)


async def lines(run: Callable[..., Coroutine[Any, Any, Completed]]) -> Watch:
    """Report the lines that a command writes; armed when the command runs.

    `run` starts the command, and takes `on_start` and `on_line` as `Context.run` does. Raises `Permanent` when the
    command ends: it is expected to run as long as the watch does.
    """
    news, line = asyncio.Event(), asyncio.Event()

    def written() -> None:
        line.set()
        news.set()

    running = asyncio.create_task(run(on_start=lambda _: news.set(), on_line=written), name="watching command")
    running.add_done_callback(lambda _: news.set())
    try:
        await news.wait()
        news.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(ALIVE):
                await news.wait()
        if not running.done() or line.is_set():
            yield None
        while True:
            if not (line.is_set() or running.done()):
                await news.wait()
            news.clear()
            if line.is_set():
                line.clear()
                yield None
            if running.done():
                raise Permanent(_ended(running.result()))
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def _ended(done: Completed) -> str:
    """Return a sentence that says how a watching command ended, with its last line of error output."""
    how = f"was killed by signal {-done.retcode}" if done.retcode < 0 else f"ended with status {done.retcode}"
    said = done.stderr.strip().splitlines()
    why = f": {said[-1].strip()}" if said else ""
    return f"the watching command {how}{why}; it must keep running and write a line for each event"


class ProcessEnds:
    """Watches the ends of a changing set of processes. A context manager, which closes all descriptors."""

    def __init__(self) -> None:
        self._descriptors: dict[int, int] = {}
        """Process id -> pidfd."""
        self._gone: set[int] = set()
        """Processes that have ended; one that is not reaped keeps its number."""
        self._ended = asyncio.Event()

    def __enter__(self) -> Self:
        """Watch no process yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop watching all processes."""
        self.follow(())

    def follow(self, pids: Collection[int]) -> None:
        """Watch exactly these processes. One that has already ended is reported at once, and only once."""
        self._gone &= set(pids)
        for pid in self._descriptors.keys() - set(pids):
            self._close(pid)
        for pid in set(pids) - self._descriptors.keys() - self._gone:
            try:
                descriptor = os.pidfd_open(pid)
            except ProcessLookupError:
                self._report(pid)
                continue
            self._descriptors[pid] = descriptor
            asyncio.get_running_loop().add_reader(descriptor, self._end, pid)

    def _end(self, pid: int) -> None:
        self._close(pid)
        self._report(pid)

    def _report(self, pid: int) -> None:
        self._gone.add(pid)
        self._ended.set()

    def _close(self, pid: int) -> None:
        descriptor = self._descriptors.pop(pid)
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)

    async def watch(self) -> Watch:
        """Report each end."""
        yield None
        while True:
            await self._ended.wait()
            self._ended.clear()
            yield None

"""Watches that others are made of."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import suppress
from typing import Any, Protocol

from holdfast.resources.context import Completed, Watch
from holdfast.resources.errors import Permanent

ALIVE = 0.5
"""Seconds that a watching command must run, or until it writes a line, to count as armed: one that is missing ends sooner."""


class Closable(Protocol):
    """What goes on until it is closed."""

    def close(self) -> None:
        """End it; harmless when done twice."""
        ...


class Told(AsyncGenerator[None, None]):
    """A watch that can tell by a callback as well, and never fails once it is armed: so nobody has to wait for it, which takes memory."""

    @abstractmethod
    def listen(self, callback: Callable[[], None]) -> Closable:
        """Arm it; `callback`, which must neither block nor raise, is called for each event until the result is closed."""


async def idle() -> Watch:
    """A watch that is armed at once and never tells anything."""
    yield None
    await asyncio.Event().wait()


async def either(*watches: Watch) -> Watch:
    """Tells when one of these does; armed when all of them are. It raises what one of them raises, and ends when one ends."""
    unarmed, news, told = set(range(len(watches))), asyncio.Event(), asyncio.Event()

    async def follow(number: int, watch: Watch) -> None:
        try:
            async for _ in watch:
                unarmed.discard(number)
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
                yield None  # also when one has ended since: what was told before counts
            ended = [follower for follower in followers if follower.done()]
            if ended:
                ended[0].result()
                return
    finally:
        for follower in followers:
            follower.cancel()
        await asyncio.gather(*followers, return_exceptions=True)


async def lines(run: Callable[..., Coroutine[Any, Any, Completed]]) -> Watch:
    """Tells of the lines that a command writes; armed when it runs. `run` starts it, and takes `on_start` and `on_line` as `Context.run` does.

    Raises `Permanent` when it ends: it is expected to go on for as long as somebody watches.
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
    """How a command ended that was to go on, and the last thing it said."""
    how = f"was killed by signal {-done.retcode}" if done.retcode < 0 else f"ended with status {done.retcode}"
    said = done.stderr.strip().splitlines()
    return f"the watching command {how}{f': {said[-1].strip()}' if said else ''}; it is to go on, and to write a line for each event"

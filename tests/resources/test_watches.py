"""Merged watches: no event is lost, and no part outlives the whole."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from deadline import DEADLINE
from holdfast.resources.watch_items import Unwatched, WatchItem
from holdfast.resources.watches import ProcessEnds, either


class Source:
    """A watch that reports the items of a test."""

    def __init__(self) -> None:
        self.said: asyncio.Queue[Exception | WatchItem] = asyncio.Queue()
        self.open = False

    async def watch(self) -> AsyncIterator[WatchItem]:
        """Yield each item; an error is raised, `StopAsyncIteration` ends it."""
        self.open = True
        try:
            while True:
                error = await self.said.get()
                if isinstance(error, StopAsyncIteration):
                    return
                if isinstance(error, Exception):
                    raise error
                yield error
        finally:
            self.open = False


async def test_armed_when_both_are_and_told_by_either() -> None:
    """The merged watch is not armed while only one of them is."""
    one, other = Source(), Source()
    async with aclosing(either(one.watch(), other.watch())) as watch:
        armed = asyncio.ensure_future(anext(watch))
        one.said.put_nowait(None)
        one.said.put_nowait(None)
        while not one.said.empty():
            await asyncio.sleep(0)
        assert not armed.done()

        other.said.put_nowait(None)
        await armed
        for source in (one, other, one):
            source.said.put_nowait(None)
            await anext(watch)
    assert not one.open
    assert not other.open


async def test_unwatched_as_long_as_one_is() -> None:
    """Events of the other watch do not end this state; the next item of the same watch does."""
    one, other = Source(), Source()
    down = Unwatched("the server is down")
    async with aclosing(either(one.watch(), other.watch())) as watch:
        found = []
        one.said.put_nowait(None)
        for source, item in ((other, down), (one, None), (other, None)):
            source.said.put_nowait(item)
            found.append(await anext(watch))

    assert found == [down, down, None]


async def test_what_is_told_while_nobody_looks_is_not_lost() -> None:
    """Any number of events become one item."""
    one, other = Source(), Source()
    async with aclosing(either(one.watch(), other.watch())) as watch:
        for source in (one, other):
            source.said.put_nowait(None)
        await anext(watch)
        for source in (one, other, one):
            source.said.put_nowait(None)
        while not (one.said.empty() and other.said.empty()):
            await asyncio.sleep(0)
        await anext(watch)
        following = asyncio.ensure_future(anext(watch))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not following.done()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


@pytest.mark.parametrize("error", [ValueError("broken"), StopAsyncIteration()])
@pytest.mark.parametrize("armed", [False, True])
async def test_the_end_of_one_is_the_end_of_all(error: Exception, *, armed: bool) -> None:
    """The error of the ended watch is raised, and the other one is closed."""
    one, other = Source(), Source()
    async with aclosing(either(one.watch(), other.watch())) as watch:
        if armed:
            for source in (one, other):
                source.said.put_nowait(None)
            await anext(watch)
        other.said.put_nowait(error)
        with pytest.raises(StopAsyncIteration if isinstance(error, StopAsyncIteration) else ValueError):
            await anext(watch)
    assert not one.open
    assert not other.open


async def test_cancelled_it_closes_both() -> None:
    """The engine ends watches by cancelling them."""
    one, other = Source(), Source()

    async def look() -> None:
        async for _ in either(one.watch(), other.watch()):
            pass

    task = asyncio.create_task(look())
    while not (one.open and other.open):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert not one.open
    assert not other.open


def descriptors() -> int:
    """Return the number of open descriptors of this process."""
    return len(list(Path("/proc/self/fd").iterdir()))


def sleeper() -> subprocess.Popen[bytes]:
    """Start a process that does not end by itself."""
    return subprocess.Popen(["sleep", "1000"])


async def test_the_end_of_a_process_is_reported_once():
    """A process that is not reaped keeps its number, and is not reported again."""
    with sleeper() as process, ProcessEnds() as ends:
        async with aclosing(ends.watch()) as events:
            await anext(events)
            ends.follow({process.pid})
            process.kill()
            await asyncio.wait_for(anext(events), DEADLINE)

            ends.follow({process.pid})

            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(events), 0.05)


async def test_a_process_that_has_already_ended_is_reported():
    """The process may end after its number was read, and before the watch starts."""
    with sleeper() as gone:
        gone.kill()
    with ProcessEnds() as ends:
        async with aclosing(ends.watch()) as events:
            await anext(events)

            ends.follow({gone.pid})

            await asyncio.wait_for(anext(events), DEADLINE)


async def test_processes_that_are_followed_no_more_are_closed():
    """Otherwise, each restart of a service would leave a descriptor open."""
    before = descriptors()
    with ProcessEnds() as ends:
        ends.follow({os.getpid(), os.getppid()})
        assert descriptors() == before + 2
        ends.follow({os.getpid()})
        assert descriptors() == before + 1
    assert descriptors() == before

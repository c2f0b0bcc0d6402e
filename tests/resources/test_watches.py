"""Watches made of others: none of them is missed, none outlives the whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from holdfast.resources.watches import either


class Source:
    """A watch that tells when it is told."""

    def __init__(self) -> None:
        self.said: asyncio.Queue[Exception | None] = asyncio.Queue()
        self.open = False

    async def watch(self) -> AsyncIterator[None]:
        """One item for each None; an error is raised, `StopAsyncIteration` ends it."""
        self.open = True
        try:
            while True:
                error = await self.said.get()
                if isinstance(error, StopAsyncIteration):
                    return
                if error:
                    raise error
                yield None
        finally:
            self.open = False


async def test_armed_when_both_are_and_told_by_either() -> None:
    """One that is armed before the other says nothing yet."""
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


async def test_what_is_told_while_nobody_looks_is_not_lost() -> None:
    """Any number of events are one item."""
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
    """Its error is raised, the other one closed."""
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
    """As the engine ends a watch."""
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

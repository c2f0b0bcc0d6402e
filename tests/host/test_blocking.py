"""Blocking calls: results, errors, at most two at once, none left idle, and a wait that can be cancelled."""

from __future__ import annotations

import asyncio
import threading

import pytest

from holdfast.agent.host.blocking import Blocking


async def test_result_and_error():
    """What the call returns or raises comes back."""
    blocking = Blocking()
    assert await blocking(pow, 2, 10) == 1024
    with pytest.raises(ZeroDivisionError):
        await blocking(lambda: 1 // 0)


async def test_no_thread_is_left():
    """An idle agent has none."""
    blocking = Blocking()
    thread = await blocking(threading.current_thread)
    thread.join(2)
    assert thread not in threading.enumerate()


async def test_at_most_two_at_once():
    """The third waits, without a thread of its own."""
    blocking, go = Blocking(), threading.Event()
    tasks = [asyncio.create_task(blocking(go.wait, 10)) for _ in range(5)]
    for _ in range(5):
        await asyncio.sleep(0)
    assert sum(thread.name == "holdfast-blocking" for thread in threading.enumerate()) == 2

    go.set()
    assert await asyncio.gather(*tasks) == [True] * 5


async def test_cancelled_wait():
    """A cancelled wait ends at once; its thread holds its place until it is done, and the next call still gets one."""
    blocking, go = Blocking(limit=1), threading.Event()
    running = asyncio.create_task(blocking(go.wait, 10))
    waiting = asyncio.create_task(blocking(pow, 2, 2))
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert running.cancelled()
    assert not waiting.done()
    go.set()
    assert await asyncio.wait_for(waiting, 2) == 4


async def test_calls_that_hang_do_not_keep_others_from_being_made():
    """Each is replaced after a while, as often as there are spares; when it ends after all, its spare is there again."""
    blocking, go = Blocking(limit=2, spare=2, long=0.001), threading.Event()
    for _ in range(2):
        hanging = [asyncio.create_task(blocking(go.wait, 20)) for _ in range(2)]
        assert await asyncio.wait_for(blocking(pow, 2, 2), 5) == 4

        hanging += [asyncio.create_task(blocking(go.wait, 20)) for _ in range(4)]
        while sum(thread.name == "holdfast-blocking" for thread in threading.enumerate()) < 4:
            await asyncio.sleep(0)
        late = asyncio.create_task(blocking(pow, 2, 3))
        await asyncio.wait([late], timeout=0.05)
        assert not late.done(), "there is an end to it"
        go.set()
        assert await late == 8
        await asyncio.gather(*hanging)
        go.clear()

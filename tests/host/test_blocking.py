"""Blocking calls: results, errors, at most two at once, none left idle, and a wait that can be cancelled."""

from __future__ import annotations

import asyncio
import threading

import pytest

from holdfast.agent.host.blocking import Blocking


@pytest.fixture
def threads():
    """How many threads there are that this test has started; those of others may still wait for work."""
    before = threading.enumerate()
    return lambda: sum(thread.name == "holdfast-blocking" and thread not in before for thread in threading.enumerate())


async def test_result_and_error():
    """What the call returns or raises comes back."""
    blocking = Blocking()
    assert await blocking(pow, 2, 10) == 1024
    with pytest.raises(ZeroDivisionError):
        await blocking(lambda: 1 // 0)


async def test_no_thread_is_left():
    """An idle agent has none: a thread ends when nothing has come for a while."""
    blocking = Blocking(linger=0.01)
    thread = await blocking(threading.current_thread)
    thread.join(2)
    assert thread not in threading.enumerate()


async def test_calls_that_follow_each_other_share_a_thread():
    """To start one costs more than most calls."""
    blocking = Blocking(linger=10)
    threads = {await blocking(threading.current_thread) for _ in range(20)}
    assert len(threads) == 1
    with pytest.raises(ZeroDivisionError):
        await blocking(lambda: 1 // 0)
    assert {await blocking(threading.current_thread)} == threads


async def test_work_that_comes_when_a_thread_is_about_to_end_is_done():
    """A thread that waits for no time at all is always about to end."""
    blocking = Blocking(linger=0)
    assert [await blocking(pow, number, 2) for number in range(300)] == [number * number for number in range(300)]


async def test_brief_calls_are_made_at_once_where_nothing_else_waits():
    """Else in a thread, like all others."""
    alone = True
    blocking = Blocking(alone=lambda: alone)
    assert await blocking.brief(threading.current_thread) is threading.current_thread()
    assert await blocking(threading.current_thread) is not threading.current_thread()
    alone = False
    assert await blocking.brief(threading.current_thread) is not threading.current_thread()


async def test_at_most_two_at_once(threads):
    """The third waits, without a thread of its own."""
    blocking, go = Blocking(), threading.Event()
    tasks = [asyncio.create_task(blocking(go.wait, 10)) for _ in range(5)]
    for _ in range(5):
        await asyncio.sleep(0)
    assert threads() == 2

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


async def test_calls_that_hang_do_not_keep_others_from_being_made(threads):
    """Each is replaced after a while, as often as there are spares.

    When it ends after all, its spare is there again.
    """
    blocking, go = Blocking(limit=2, spare=2, long=0.001), threading.Event()
    for _ in range(2):
        hanging = [asyncio.create_task(blocking(go.wait, 20)) for _ in range(2)]
        assert await asyncio.wait_for(blocking(pow, 2, 2), 5) == 4

        hanging += [asyncio.create_task(blocking(go.wait, 20)) for _ in range(4)]
        while threads() < 4:
            await asyncio.sleep(0)
        late = asyncio.create_task(blocking(pow, 2, 3))
        await asyncio.wait([late], timeout=0.05)
        assert not late.done(), "there is an end to it"
        go.set()
        assert await late == 8
        await asyncio.gather(*hanging)
        go.clear()

"""Blocking calls have results, errors, a limit of two at once, no idle threads, and waits that can be cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
import weakref

import pytest

from deadline import DEADLINE
from holdfast.agent.host.blocking import Blocking, counted


@pytest.fixture
def threads():
    """Count the threads that this test has started. Threads of earlier tests may still wait for work."""
    before = threading.enumerate()
    return lambda: sum(thread.name == "holdfast-blocking" and thread not in before for thread in threading.enumerate())


async def test_result_and_error():
    """The result or exception of the call is passed to the caller."""
    blocking = Blocking()
    assert await blocking(pow, 2, 10) == 1024
    with pytest.raises(ZeroDivisionError):
        await blocking(lambda: 1 // 0)


async def test_nothing_of_a_failed_call_is_left():
    """The objects of the call are freed once its exception is handled, without a garbage collection of cycles."""

    class Opened:
        """A thing that the call uses."""

    loop, closed = asyncio.get_running_loop(), asyncio.Event()

    def fail():
        opened = Opened()
        weakref.finalize(opened, loop.call_soon_threadsafe, closed.set)
        raise OSError

    gc.disable()
    try:
        with contextlib.suppress(OSError):
            await Blocking()(fail)
        await asyncio.wait_for(closed.wait(), DEADLINE)
    finally:
        gc.enable()


async def test_an_idle_thread_ends():
    """A thread ends when no call has come for a while, so an idle agent has none."""
    blocking = Blocking(linger=0.01)
    thread = await blocking(threading.current_thread)
    thread.join(DEADLINE)
    assert thread not in threading.enumerate()


async def test_successive_calls_share_a_thread():
    """Calls that follow each other use one thread, because starting a thread costs more than most calls."""
    blocking = Blocking(linger=10)
    threads = {await blocking(threading.current_thread) for _ in range(20)}
    assert len(threads) == 1
    with pytest.raises(ZeroDivisionError):
        await blocking(lambda: 1 // 0)
    assert {await blocking(threading.current_thread)} == threads


async def test_a_call_that_comes_when_a_thread_is_about_to_end_is_made():
    """A call that arrives while the thread ends is still made. Here the thread waits for no time at all."""
    blocking = Blocking(linger=0)
    assert [await blocking(pow, number, 2) for number in range(300)] == [number * number for number in range(300)]


async def test_short_calls_run_without_a_thread_if_nothing_else_waits():
    """A short call runs in the event loop if nothing else waits; otherwise in a thread."""
    alone = True
    blocking = Blocking(alone=lambda: alone)
    assert await blocking.brief(threading.current_thread) is threading.current_thread()
    assert await blocking(threading.current_thread) is not threading.current_thread()
    alone = False
    assert await blocking.brief(threading.current_thread) is not threading.current_thread()


async def test_at_most_two_at_once(threads):
    """The third call waits, and has no thread meanwhile."""
    blocking, go = Blocking(), threading.Event()
    tasks = [asyncio.create_task(blocking(go.wait, 10)) for _ in range(5)]
    for _ in range(5):
        await asyncio.sleep(0)
    assert threads() == 2

    go.set()
    assert await asyncio.gather(*tasks) == [True] * 5


async def test_cancelled_wait():
    """A cancelled wait ends at once. Its thread is busy until the call ends, and the next call still gets a thread."""
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
    assert await asyncio.wait_for(waiting, DEADLINE) == 4


async def test_calls_that_hang_do_not_delay_others(threads):
    """A call that hangs is replaced after a while, up to the number of spares.

    When it ends after all, the spare is available again.
    """
    blocking, go = Blocking(limit=2, spare=2, long=0.001), threading.Event()
    for _ in range(2):
        hanging = [asyncio.create_task(blocking(go.wait, DEADLINE)) for _ in range(2)]
        assert await asyncio.wait_for(blocking(pow, 2, 2), DEADLINE / 2) == 4

        hanging += [asyncio.create_task(blocking(go.wait, DEADLINE)) for _ in range(4)]
        while threads() < 4:
            await asyncio.sleep(0)
        late = asyncio.create_task(blocking(pow, 2, 3))
        await asyncio.wait([late], timeout=0.05)
        assert not late.done(), "the number of spare threads is limited"
        go.set()
        assert await late == 8
        await asyncio.gather(*hanging)
        go.clear()


async def test_a_call_that_takes_a_thread_from_the_idle_ones_as_it_ends_is_made():
    """The thread finds that it is no longer idle, and waits for the call instead of ending."""
    made = threading.Event()

    class Idle(list):
        """The idle threads. The first thread that wants to end is given a call just before."""

        def remove(self, inbox):
            if not made.is_set():
                self.pop(self.index(inbox))
                inbox.put(lambda free: (free(), made.set()))
            super().remove(inbox)

    blocking = Blocking(linger=0.01)
    blocking._idle = Idle()
    await blocking(int)
    assert await asyncio.to_thread(made.wait, 10)


async def test_calls_in_threads_are_counted_until_they_end():
    """Calls of tasks that the body starts and of cancelled callers count; others do not."""
    blocking, go = Blocking(), threading.Event()
    with counted() as threads:
        caller = asyncio.create_task(blocking(go.wait, 10))
    other = asyncio.create_task(blocking(go.wait, 10))
    await asyncio.sleep(0)
    caller.cancel()
    await asyncio.gather(caller, return_exceptions=True)
    assert threads.busy
    go.set()
    await threads.end()
    assert not threads.busy
    await other

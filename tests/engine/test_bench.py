"""The bench itself works as other tests of the engine expect."""

from __future__ import annotations

import asyncio
import time

import pytest

from engine_bench import Bench, ended, state
from fake_machine import Machine


async def test_drift_is_repaired(bench: Bench, machine: Machine) -> None:
    """The test is the example in the documentation of the bench, with `until` in place of `elapse`."""
    async with bench.running(state("a"), state("b", watch=["a"])):
        bench.forget()
        machine.drift("a")
        await bench.until(ended("drift"))

        assert machine.log == ["check a", "apply a", "check a", "check b", "refresh b"]


async def test_time_passes_without_waiting(bench: Bench) -> None:
    """The clock of the loop and the clock of the system advance together."""
    began, unix, real = asyncio.get_running_loop().time(), time.time(), time.monotonic()
    await bench.elapse(3600)

    assert (asyncio.get_running_loop().time() - began, time.time() - unix) == (3600, 3600)
    assert time.monotonic() - real < 60


async def test_without_seconds_the_clock_stands_still(bench: Bench) -> None:
    """Everything that can happen at the present time has happened afterwards."""
    loop, seen = asyncio.get_running_loop(), []

    async def chain(length: int) -> None:
        for number in range(length):
            await asyncio.sleep(0)
            seen.append(number)

    task = asyncio.create_task(chain(50))
    before = loop.time()
    await bench.elapse()

    assert (seen, loop.time()) == ([*range(50)], before)
    await task


async def test_the_engine_is_stopped_at_the_end_of_the_block(bench: Bench, machine: Machine) -> None:
    """No task and no watch is left, even if the block fails while a resource runs."""

    async def fail() -> None:
        async with bench.running(state("a"), state("b"), stop_timeout=1):
            machine.hold("apply a")
            machine.drift("a")
            await bench.elapse()
            assert len(asyncio.all_tasks()) > 1
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()

    assert len(asyncio.all_tasks()) == 1
    assert not machine.armed


async def test_a_condition_that_never_holds_is_an_error(bench: Bench) -> None:
    """`turns` raises after a limited number of turns."""
    with pytest.raises(AssertionError, match="did not hold"):
        await bench.turns(lambda: False)

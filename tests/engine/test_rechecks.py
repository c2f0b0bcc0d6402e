"""Rechecks mark vertices in slices: they delay nothing else and leave out nothing."""

from __future__ import annotations

import asyncio

from engine_bench import Bench, compilation, state
from fake_machine import Machine
from holdfast.agent.engine.model.events import PassEnded
from holdfast.agent.engine.schedule.rounds import SLICE

NAMES = [f"s{number:04}" for number in range(5 * SLICE)]


def looks(machine: Machine) -> list[str]:
    """Return the names of the checked settings, in order."""
    return [line.removeprefix("check ") for line in machine.log if line.startswith("check ")]


async def test_a_recheck_marks_a_slice_in_each_callback(bench: Bench, machine: Machine) -> None:
    """When `recheck` returns, one slice is marked. All vertices are checked once, in order, in one pass."""
    async with bench.running(*map(state, NAMES)) as engine:
        bench.forget()
        engine.recheck("recheck")
        assert len(engine.view.scheduler.unsettled) == SLICE
        await engine.settle()

        assert looks(machine) == NAMES
        assert [len(record.outcomes) for record in bench.passes()] == [len(NAMES)]


async def test_a_pass_does_not_end_between_two_slices(bench: Bench) -> None:
    """The marked vertices may be settled before the other vertices are marked."""
    async with bench.running(*map(state, NAMES), workers=2 * SLICE) as engine:
        bench.forget()
        engine.recheck()
        ended = await bench.until(lambda event: isinstance(event, PassEnded))

        assert isinstance(ended, PassEnded)
        assert len({outcome.identity for outcome in ended.record.outcomes}) == len(NAMES)


async def test_a_second_recheck_checks_everything_again(bench: Bench, machine: Machine) -> None:
    """It also checks the resources that the first one has already checked."""
    async with bench.running(*map(state, NAMES)) as engine:
        engine.recheck()
        while "s0000" not in looks(machine)[len(NAMES) :]:
            await asyncio.sleep(0)
        bench.forget()
        engine.recheck()
        await engine.settle()

        assert set(looks(machine)) == set(NAMES)


async def test_a_swap_during_a_recheck(bench: Bench, machine: Machine) -> None:
    """Vertices that stay are checked once; removed ones are not checked."""
    async with bench.running(*map(state, NAMES)) as engine:
        bench.forget()
        engine.recheck()
        await engine.swap(compilation(*map(state, NAMES[:-1])))
        await engine.settle()

        assert sorted(looks(machine)) == NAMES[:-1]


async def test_a_stop_during_a_recheck(bench: Bench, machine: Machine) -> None:
    """The stop ends the marking of vertices."""
    async with bench.running(*map(state, NAMES)) as engine:
        bench.forget()
        engine.recheck()
    await bench.elapse(1)

    assert len(looks(machine)) < SLICE

"""A recheck of many resources is marked a slice at a time: it holds up nothing else, and leaves out nothing."""

from __future__ import annotations

import asyncio

from engine_bench import Bench, compilation, state
from fake_machine import Machine
from holdfast.agent.engine.model.events import PassEnded
from holdfast.agent.engine.schedule.rounds import SLICE

NAMES = [f"s{number:04}" for number in range(5 * SLICE)]


def looks(machine: Machine) -> list[str]:
    """Names of what was looked at, in order."""
    return [line.removeprefix("check ") for line in machine.log if line.startswith("check ")]


async def test_a_recheck_marks_a_slice_in_each_callback(bench: Bench, machine: Machine) -> None:
    """When it returns, one slice is to be looked at; all of them are looked at once, in order, in one pass."""
    async with bench.running(*map(state, NAMES)) as engine:
        bench.forget()
        engine.recheck("recheck")
        assert len(engine.view.scheduler.unsettled) == SLICE
        await engine.settle()

        assert looks(machine) == NAMES
        assert [len(record.outcomes) for record in bench.passes()] == [len(NAMES)]


async def test_a_pass_does_not_end_between_two_slices(bench: Bench) -> None:
    """What was marked may have settled before the rest is marked."""
    async with bench.running(*map(state, NAMES), workers=2 * SLICE) as engine:
        bench.forget()
        engine.recheck()
        ended = await bench.until(lambda event: isinstance(event, PassEnded))

        assert isinstance(ended, PassEnded)
        assert len({outcome.identity for outcome in ended.record.outcomes}) == len(NAMES)


async def test_a_second_recheck_looks_at_everything_again(bench: Bench, machine: Machine) -> None:
    """Also at what the first has looked at already."""
    async with bench.running(*map(state, NAMES)) as engine:
        engine.recheck()
        while "s0000" not in looks(machine)[len(NAMES) :]:
            await asyncio.sleep(0)
        bench.forget()
        engine.recheck()
        await engine.settle()

        assert set(looks(machine)) == set(NAMES)


async def test_new_states_in_the_middle_of_a_recheck(bench: Bench, machine: Machine) -> None:
    """What stays is looked at once; what has left is not looked at any more."""
    async with bench.running(*map(state, NAMES)) as engine:
        bench.forget()
        engine.recheck()
        await engine.swap(compilation(*map(state, NAMES[:-1])))
        await engine.settle()

        assert sorted(looks(machine)) == NAMES[:-1]


async def test_a_stop_in_the_middle_of_a_recheck(bench: Bench, machine: Machine) -> None:
    """Nothing more is marked."""
    async with bench.running(*map(state, NAMES)) as engine:
        bench.forget()
        engine.recheck()
    await bench.elapse(1)

    assert len(looks(machine)) < SLICE

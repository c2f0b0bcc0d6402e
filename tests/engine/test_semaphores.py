"""A semaphore limits how many of its states run at once, besides the limits of the graph and the workers."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from engine_bench import Bench, compilation, state
from fake_machine import Machine
from holdfast.agent.engine.model.events import Ran
from holdfast.resources.meta import Meta


def limited(*names: str, sema: object) -> tuple:
    """Return states that name the semaphore, in order."""
    return tuple(state(name, meta={"sema": sema, "parallel": True}) for name in names)


async def most(bench: Bench, machine: Machine, states: tuple, expected: int) -> None:
    """Let the states run one after the other; assert how many of them have run at once."""
    for name, *_ in states:
        machine.hold(name)
    async with bench.starting(*states, workers=10, watch=False) as engine:
        for name, *_ in states:
            await bench.elapse()
            assert machine.now <= expected
            machine.free(name)
        await engine.settle()
        assert machine.most == expected
        assert machine.settings == {name: "right" for name, *_ in states}


@pytest.mark.parametrize(("sema", "expected"), [("disk", 1), ("disk:2", 2), (["disk:3", "net:2"], 2), ([], 5)])
async def test_a_semaphore_limits_the_number_of_runs(
    bench: Bench, machine: Machine, sema: object, expected: int
) -> None:
    """A semaphore without a number permits one run; of several semaphores, the smallest number counts."""
    await most(bench, machine, limited("a", "b", "c", "d", "e", sema=sema), expected)


async def test_a_state_that_waits_for_a_semaphore_does_not_delay_others(bench: Bench, machine: Machine) -> None:
    """After the first pass, states without the semaphore run."""
    async with bench.running(*limited("a", "b", sema="disk"), state("c", meta={"parallel": True}), workers=4) as engine:
        bench.forget()
        machine.hold("a")

        machine.drift("a")
        await bench.elapse()
        machine.drift("b")
        machine.drift("c")
        await bench.until(lambda event: isinstance(event, Ran) and event.outcome.identity == "zsetting.present[c]")
        assert "check b" not in machine.log
        machine.free("a")
        await engine.settle()

        assert machine.settings == dict.fromkeys("abc", "right")


async def test_a_cancelled_run_releases_its_semaphore(bench: Bench, machine: Machine) -> None:
    """A swap cancels the run."""
    machine.hold("a")
    async with bench.starting(*limited("a", "b", sema="disk"), workers=4, stop_timeout=1) as engine:
        await bench.elapse()

        await engine.swap(compilation(*limited("b", sema="disk")))
        await engine.settle()

        assert machine.settings == {"b": "right"}


async def test_a_stop_does_not_wait_for_a_semaphore(bench: Bench, machine: Machine) -> None:
    """The run that needs it has not started."""
    machine.hold("a")
    async with bench.starting(*limited("a", "b", sema="disk"), workers=4, stop_timeout=1):
        await bench.elapse()

    assert machine.log == ["check a"]


@pytest.mark.parametrize("name", ["4", "4:2", "", "a:0", "a:b", "a b", ":2", 4])
def test_a_semaphore_needs_a_name(name: object) -> None:
    """A number alone would look like a limit."""
    with pytest.raises(ValidationError, match="not a semaphore"):
        Meta(sema=[name])


async def test_members_of_a_batch_take_a_semaphore_once(bench: Bench, machine: Machine) -> None:
    """The members are one run. Other states wait until the last member has ended."""
    meta = {"sema": ["disk"]}
    machine.hold("together")
    async with bench.starting(
        *(state(name, "zbundled.present", meta=meta) for name in "abc"),
        state("other", meta=meta),
        workers=4,
        ordering="requisites",
    ) as engine:
        await bench.elapse()
        assert machine.log.count("together a b c") == 1
        assert "check other" not in machine.log

        machine.free("together")
        await engine.settle()
        assert machine.settings == dict.fromkeys(("a", "b", "c", "other"), "right")
        for name in ("a", "other", "c"):
            machine.drift(name)
        await bench.elapse()
        await engine.settle()
        assert machine.log.count("together a c") == 1
        assert machine.settings == dict.fromkeys(("a", "b", "c", "other"), "right")

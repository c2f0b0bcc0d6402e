"""Runs that hang do not use up the workers, and each dirty vertex runs in bounded time."""

from __future__ import annotations

import asyncio

import pytest

from engine_bench import Bench, compilation, state
from fake_machine import Machine
from holdfast.agent.engine.model.outcome import Cause
from holdfast.agent.engine.schedule.workers import LONG, MOST_LONG


async def test_runs_that_hang_do_not_use_up_the_workers(bench: Bench, machine: Machine) -> None:
    """Ten runs hang on a host with two CPUs.

    Other drift is repaired within seconds, and a batch that hangs counts as one run.
    """
    names = [f"s{n}" for n in range(10)]
    bundle = [state(name, "zbundled.present") for name in ("x", "y")]
    async with bench.running(*map(state, names), *bundle, state("last"), workers=2) as engine:
        for name in names:
            machine.hold(name)
            machine.drift(name)
        machine.hold("together")
        for name in ("x", "y", "last"):
            machine.drift(name)
        await bench.elapse(6 * LONG)
        assert machine.settings["last"] == "right"

        machine.drift("last")
        await bench.elapse(LONG + 0.1)
        assert machine.settings["last"] == "right"
        machine.free()
        await engine.settle()
        assert set(machine.settings.values()) == {"right"}
        assert not engine.view.scheduler.workers.at_work


async def test_runs_that_are_expected_to_take_long_delay_no_repair(bench: Bench, machine: Machine) -> None:
    """Users decide how long a walk through their directories takes: other repairs do not wait for it."""
    names = [f"s{n}" for n in range(10)]
    async with bench.running(*map(state, names), state("last"), workers=2) as engine:
        machine.long_calls.update(names)
        for name in names:
            machine.hold(name)
            machine.drift(name)
        machine.drift("last")
        await bench.elapse(1)

        assert machine.settings["last"] == "right"
        assert len([row for row in engine.status() if row["running"]]) == 10
        machine.free()
        await engine.settle()
        assert set(machine.settings.values()) == {"right"}
        assert not engine.view.scheduler.workers.runs


@pytest.mark.parametrize("expected", [False, True])
async def test_the_number_of_extra_workers_is_limited(bench: Bench, machine: Machine, *, expected: bool) -> None:
    """Hundreds of runs that hang do not start hundreds of commands."""
    names = [f"s{n}" for n in range(200)]
    machine.long_calls.update(names if expected else ())
    for name in names:
        machine.hold(name)
    async with bench.starting(*map(state, names), workers=2, ordering="requisites") as engine:
        await bench.elapse(10_000)

        assert len([row for row in engine.status() if row["running"]]) == MOST_LONG + 2
        machine.free()
        await engine.settle()
        assert set(machine.settings.values()) == {"right"}


@pytest.mark.parametrize("cause", ["drift", "recheck", "first pass"])
async def test_a_vertex_with_constant_events_does_not_delay_others(bench: Bench, machine: Machine, cause: str) -> None:
    """A user keeps changing a directory, which is the first vertex of the only worker."""
    names = [f"s{n}" for n in range(10)]
    later = [] if cause == "first pass" else [state(name) for name in names]
    async with bench.running(state("restless"), *later, workers=1, flap_limit=10_000) as engine:

        async def meddle() -> None:
            """Change the setting again during each check, which takes a moment."""
            for _ in range(100):
                machine.hold("restless")
                machine.touch("restless")
                await bench.elapse(0.05)
                machine.touch("restless")
                await bench.elapse(0.05)
                machine.free("restless")

        user = asyncio.create_task(meddle())
        await bench.elapse(1)
        bench.forget()
        if cause == "recheck":
            engine.recheck("recheck")
        elif cause == "drift":
            for name in names:
                machine.drift(name)
        else:
            await engine.swap(compilation(state("restless"), *map(state, names)))
        await bench.elapse(3)

        assert {line.removeprefix("check ") for line in machine.log if line.startswith("check")} == {"restless", *names}
        await user


@pytest.mark.parametrize("cause", ["recheck", "command"])
async def test_drift_does_not_wait_for_a_recheck(bench: Bench, machine: Machine, cause: Cause) -> None:
    """Drift is repaired after two or three other checks, even if the recheck includes the resource."""
    names = [f"s{n:03}" for n in range(300)]
    async with bench.running(*map(state, names), workers=1) as engine:
        bench.forget()
        engine.recheck(cause)
        for name in ("s001", "s299"):
            machine.drift(name)
        await bench.until(lambda _: machine.settings["s299"] == machine.settings["s001"] == "right")

        assert len([line for line in machine.log if line.startswith("check")]) < 15
        await engine.settle()
        assert {line for line in machine.log if line.startswith("check")} == {f"check {name}" for name in names}


async def test_a_trigger_does_not_wait_for_a_recheck(bench: Bench, machine: Machine) -> None:
    """The recheck may include the resource."""
    names = [f"s{n:03}" for n in range(90)]
    async with bench.running(*map(state, names), workers=1) as engine:
        bench.forget()
        engine.recheck()
        engine.trigger("zsetting.present[s080]")
        await bench.until(lambda _: "check s080" in machine.log)

        assert len(machine.log) < 15
        await engine.settle()

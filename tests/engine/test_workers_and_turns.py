"""Workers are not used up by what hangs, and everybody that is dirty has its turn in bounded time."""

from __future__ import annotations

import asyncio

import pytest

from engine_bench import Bench, Machine, compilation, in_virtual_time, state
from holdfast.agent.engine.model.events import Cause
from holdfast.agent.engine.schedule.workers import LONG, MOST_LONG


@in_virtual_time
async def test_what_hangs_does_not_use_up_the_workers(bench: Bench, machine: Machine) -> None:
    """Ten hang on a host with two CPUs; a drift of another is repaired within seconds, and a batch that hangs is no more than one."""
    names = [f"s{n}" for n in range(10)]
    engine = bench.engine(workers=2)
    bundle = [state(name, "zbundled.present") for name in ("x", "y")]
    await engine.swap(compilation(*map(state, names), *bundle, state("last")))
    await engine.settle()
    for name in names:
        machine.hold(name)
        machine.drift(name)
    machine.hold("together")
    for name in ("x", "y", "last"):
        machine.drift(name)
    await asyncio.sleep(6 * LONG)
    assert machine.settings["last"] == "right"

    machine.drift("last")
    await asyncio.sleep(LONG + 0.1)
    assert machine.settings["last"] == "right"
    machine.free()
    await engine.settle()
    assert set(machine.settings.values()) == {"right"}
    assert not engine.view.scheduler.workers.at_work
    await engine.stop()


@in_virtual_time
async def test_no_more_run_at_once_than_a_host_can_bear(bench: Bench, machine: Machine) -> None:
    """Hundreds that hang are not hundreds of commands."""
    names = [f"s{n}" for n in range(200)]
    engine = bench.engine(workers=2, ordering="requisites")
    for name in names:
        machine.hold(name)
    await engine.swap(compilation(*map(state, names)))
    await asyncio.sleep(10_000)

    assert len([row for row in engine.status() if row["running"]]) == MOST_LONG + 2
    machine.free()
    await engine.settle()
    assert set(machine.settings.values()) == {"right"}
    await engine.stop()


@pytest.mark.parametrize("cause", ["drift", "recheck", "first pass"])
@in_virtual_time
async def test_one_that_is_marked_again_and_again_does_not_keep_others_from_their_turn(
    bench: Bench, machine: Machine, cause: str
) -> None:
    """With one worker, and though it stands first: a user who keeps changing a tree."""
    engine = bench.engine(workers=1, flap_limit=10_000)
    names = [f"s{n}" for n in range(10)]
    later = [] if cause == "first pass" else [state(name) for name in names]
    await engine.swap(compilation(state("restless"), *later))
    await engine.settle()

    async def meddle() -> None:
        """Each look at it takes a moment, in which it is changed again."""
        for _ in range(100):
            machine.hold("restless")
            machine.touch("restless")
            await asyncio.sleep(0.05)
            machine.touch("restless")
            await asyncio.sleep(0.05)
            machine.free("restless")

    user = asyncio.create_task(meddle())
    await asyncio.sleep(1)
    bench.forget()
    if cause == "recheck":
        engine.recheck("recheck")
    elif cause == "drift":
        for name in names:
            machine.drift(name)
    else:
        await engine.swap(compilation(state("restless"), *map(state, names)))
    await asyncio.sleep(3)

    assert {line.removeprefix("check ") for line in machine.log if line.startswith("check")} == {"restless", *names}
    await user
    await engine.stop()


@pytest.mark.parametrize("cause", ["recheck", "command"])
@in_virtual_time
async def test_a_drift_does_not_wait_for_a_recheck_of_everything(bench: Bench, machine: Machine, cause: Cause) -> None:
    """It is repaired after two or three others, not after hundreds; also one that was to be looked at anyway."""
    engine = bench.engine(workers=1)
    names = [f"s{n:03}" for n in range(300)]
    await engine.swap(compilation(*map(state, names)))
    await engine.settle()
    bench.forget()
    engine.recheck(cause)
    for name in ("s001", "s299"):
        machine.drift(name)
    await bench.until(lambda _: machine.settings["s299"] == machine.settings["s001"] == "right")

    assert len([line for line in machine.log if line.startswith("check")]) < 15
    await engine.settle()
    assert {line for line in machine.log if line.startswith("check")} == {f"check {name}" for name in names}
    await engine.stop()


@in_virtual_time
async def test_what_an_operator_triggers_does_not_wait_for_a_recheck_of_everything(
    bench: Bench, machine: Machine
) -> None:
    """Also when the recheck has it to be looked at already."""
    engine = bench.engine(workers=1)
    names = [f"s{n:03}" for n in range(90)]
    await engine.swap(compilation(*map(state, names)))
    await engine.settle()
    bench.forget()
    engine.recheck()
    engine.trigger("zsetting.present[s080]")
    await bench.until(lambda _: "check s080" in machine.log)

    assert len(machine.log) < 15
    await engine.settle()
    await engine.stop()

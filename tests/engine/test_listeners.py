"""Listeners run at the end of a pass, and resources that wait or hang do not delay that."""

from __future__ import annotations

import pytest

from engine_bench import Bench, compilation, pending, state, use
from fake_machine import Machine
from holdfast import Permanent, Temporary
from holdfast.agent.engine.model.events import Ran

RETRY = {"retry": {"attempts": 1000, "interval": 3600, "splay": 0}}


@pytest.mark.parametrize("how", ["rests", "hangs"])
async def test_a_listener_waits_only_for_its_targets(bench: Bench, machine: Machine, how: str) -> None:
    """A resource that waits an hour for its next attempt, or whose run hangs, delays no other refresh.

    Each change refreshes once.
    """
    engine = bench.engine()
    await engine.swap(compilation(state("conf"), state("svc", listen=["conf"]), state("stuck", meta=RETRY)))
    await engine.settle()
    bench.forget()
    if how == "rests":
        machine.broken["stuck"] = Permanent("not yet")
    else:
        machine.hold("apply stuck")
    machine.drift("stuck")
    await bench.elapse(1)
    for number in (1, 2):
        machine.drift("conf")
        await bench.elapse(70)
        assert machine.log.count("refresh svc") == number
    machine.broken.clear()
    machine.free()
    await engine.stop(0)


async def test_a_listener_waits_for_all_its_targets(bench: Bench, machine: Machine) -> None:
    """One of two targets waits for its next attempt. The listener is refreshed once, when both are settled."""
    async with bench.running(
        state("conf"), state("flaky", meta=RETRY), state("svc", listen=["conf", "flaky"])
    ) as engine:
        bench.forget()
        machine.broken["flaky"] = Permanent("not yet")
        machine.drift("flaky")
        machine.drift("conf")
        await bench.elapse(100)
        assert "refresh svc" not in machine.log

        machine.broken.clear()
        await engine.settle()
        assert machine.log.count("refresh svc") == 1


async def test_a_pass_that_does_not_end_stays_small(bench: Bench, machine: Machine) -> None:
    """The pass does not record thousands of drifts one by one while a resource waits for its next attempt."""
    async with bench.running(state("a"), state("stuck", meta=RETRY)) as engine:
        machine.broken["stuck"] = Permanent("not yet")
        machine.drift("stuck")
        await bench.elapse(1)
        for _ in range(300):
            machine.drift("a")
            await bench.elapse(100)
        assert engine.view.passes.running
        assert len(engine.view.passes._outcomes) <= 100


async def test_outcomes_of_a_pass_are_stored_once(bench: Bench, machine: Machine) -> None:
    """The record has them; an idle agent stores nothing else."""
    async with bench.starting(state("a"), state("b")) as engine:
        record = await engine.settle()
        assert [outcome.identity for outcome in record.outcomes] == ["zsetting.present[a]", "zsetting.present[b]"]
        assert not engine.view.passes._outcomes


async def test_a_listener_that_ran_in_noop_runs_again_when_noop_ends_in_the_same_pass(bench: Bench) -> None:
    """A slow run keeps the pass from ending."""
    machine = bench.machine
    machine.settings.update(a="right", b="right", slow="right")
    async with bench.running(state("a"), state("b", listen=["a"]), state("slow", listen=["a"]), workers=3) as engine:
        machine.hold("apply a")
        machine.drift("a")
        await bench.elapse(1)
        await use(engine, noop=True)
        machine.hold("refresh slow")
        machine.free("apply a")
        await bench.elapse(1)
        assert "would refresh b" in machine.log
        await use(engine, noop=False)
        machine.free()
        await bench.elapse(10)

        assert "refresh b" in machine.log
        assert pending(engine) == []


async def test_a_listener_is_refreshed_for_a_second_change_in_the_same_pass(bench: Bench) -> None:
    """Its target changed again during the refresh."""
    machine = bench.machine
    machine.settings.update(a="right", b="right")
    async with bench.running(state("a"), state("b", listen=["a"]), workers=2) as engine:
        bench.forget()
        machine.hold("refresh b")
        for _ in range(2):
            machine.drift("a")
            await bench.elapse(1)
        machine.free()
        await bench.elapse(10)

        assert machine.log.count("refresh b") == 2
        assert pending(engine) == []


async def test_a_failed_listener_is_retried_in_the_same_pass(bench: Bench) -> None:
    """Another run keeps the pass from ending."""
    machine = bench.machine
    machine.settings.update(a="right", b="right", slow="right")
    async with bench.running(state("slow"), state("a"), state("b", listen=["a"]), workers=2) as engine:
        machine.broken["refresh b"] = Temporary("busy", delay=2)
        machine.hold("refresh b")
        machine.drift("a")
        await bench.elapse(0.1)
        machine.hold("slow")
        machine.touch("slow")
        machine.free("refresh b")
        await bench.elapse(1)
        machine.broken.clear()
        await bench.elapse(10)
        machine.free()
        await bench.elapse(1)

        assert pending(engine) == []


async def test_a_listener_whose_watch_fails_before_its_refresh_is_checked_and_refreshed(bench: Bench) -> None:
    """Neither the check for the new watch nor the refresh is lost."""
    machine = bench.machine
    machine.settings.update(a="right", b="right")
    async with bench.running(state("a"), state("b", listen=["a"]), workers=2) as engine:
        bench.forget()
        machine.unwatchable.add("b")
        machine.touch("b")
        await bench.elapse(0.1)
        machine.drift("a")
        await bench.elapse(20)
        machine.unwatchable.clear()
        machine.settings["b"] = "drifted"
        await bench.elapse(100)

        assert machine.settings["b"] == "right"
        assert "refresh b" in machine.log
        assert pending(engine) == []
        assert engine.converged


async def test_a_refresh_after_a_failed_run_wakes_no_vertex_that_the_failure_blocks(
    bench: Bench, machine: Machine
) -> None:
    """The refresh does not show that the resource is as declared."""
    machine.broken["conf"] = Permanent("no")
    engine = bench.engine(watch=False)

    await engine.swap(
        compilation(
            state("conf", "zsetting.present", listen=["rescue"]),
            state("rescue", "zaction.run", onfail=["conf"]),
            state("user", "zsetting.present", require=["conf"]),
        ),
        "start",
    )
    await engine.settle()

    ran = [(event.outcome.identity, event.outcome.result) for event in bench.events if isinstance(event, Ran)]
    assert ran.count(("zsetting.present[conf]", True)) == 1
    assert [result for identity, result in ran if identity == "zsetting.present[user]"] == [False]

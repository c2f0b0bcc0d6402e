"""Listeners run at the end of a pass, and resources that wait or hang do not delay that."""

from __future__ import annotations

import pytest

from engine_bench import Bench, compilation, state
from fake_machine import Machine
from holdfast import Permanent

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
    """It does not remember thousands of drifts one by one while a resource waits for its next attempt."""
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

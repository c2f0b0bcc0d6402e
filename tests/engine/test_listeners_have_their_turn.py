"""A listener has its turn at the end of a pass, and what only waits, or hangs, does not keep a pass from that."""

from __future__ import annotations

import pytest

from engine_bench import Bench, compilation, state
from fake_machine import Machine
from holdfast import Permanent

RETRY = {"retry": {"attempts": 1000, "interval": 3600, "splay": 0}}


@pytest.mark.parametrize("how", ["rests", "hangs"])
async def test_a_listener_does_not_wait_for_what_it_does_not_listen_to(
    bench: Bench, machine: Machine, how: str
) -> None:
    """A resource that waits an hour for its next attempt, or whose run hangs, delays no refresh of others; each change refreshes once."""
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


async def test_a_listener_waits_for_all_that_it_listens_to(bench: Bench, machine: Machine) -> None:
    """One that listens to two of which one waits for its next attempt is refreshed once, when both are right."""
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


async def test_a_pass_that_does_not_end_keeps_no_more_than_one_that_does(bench: Bench, machine: Machine) -> None:
    """Thousands of drifts while one resource waits for its next attempt are not remembered one by one."""
    async with bench.running(state("a"), state("stuck", meta=RETRY)) as engine:
        machine.broken["stuck"] = Permanent("not yet")
        machine.drift("stuck")
        await bench.elapse(1)
        for _ in range(300):
            machine.drift("a")
            await bench.elapse(100)
        assert engine.view.passes.running
        assert len(engine.view.passes._outcomes) <= 100


async def test_what_a_pass_has_gathered_is_kept_once(bench: Bench, machine: Machine) -> None:
    """In its record; an idle agent keeps nothing besides."""
    async with bench.starting(state("a"), state("b")) as engine:
        record = await engine.settle()
        assert [outcome.identity for outcome in record.outcomes] == ["zsetting.present[a]", "zsetting.present[b]"]
        assert not engine.view.passes._outcomes

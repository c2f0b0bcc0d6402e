"""While the system goes down, the engine repairs nothing, and failures do not count."""

from __future__ import annotations

import asyncio

from engine_bench import Bench, state
from fake_machine import Machine
from holdfast import Permanent


async def test_nothing_is_repaired_until_the_shutdown_is_cancelled(bench: Bench, machine: Machine) -> None:
    """Drift is repaired afterwards. A pause of an operator outlasts the shutdown."""
    async with bench.running(state("a")) as engine:
        engine.pause("going-down")
        machine.drift("a")
        await bench.elapse(100)
        assert machine.settings == {"a": "drifted"}

        engine.pause()
        engine.resume("going-down")
        await bench.elapse(100)
        assert machine.settings == {"a": "drifted"}
        engine.resume()
        await engine.settle()

        assert machine.settings == {"a": "right"}
        assert [notice.text.partition(":")[0] for notice in bench.notices("paused")] == [
            "the system is shutting down",
            "paused",
        ]


async def test_runs_that_fail_while_the_system_goes_down_are_interrupted(bench: Bench, machine: Machine) -> None:
    """A job that the shutdown cancels says nothing about the resource. It is checked again if the system stays up."""
    async with bench.running(state("a")) as engine:
        machine.hold("a")
        machine.drift("a")
        await bench.elapse(1)
        engine.pause("going-down")
        machine.broken["a"] = Permanent("the job was cancelled")
        machine.free()
        await bench.elapse(1)

        assert False not in [outcome.result for outcome in bench.outcomes("a")]
        assert len(bench.notices("interrupted")) == 1
        machine.broken.clear()
        engine.resume("going-down")
        await engine.settle()
        assert machine.settings == {"a": "right"}


async def test_no_retry_starts_while_the_system_goes_down(bench: Bench, machine: Machine) -> None:
    """A waiting retry does not delay the stop."""
    machine.broken["a"] = Permanent("not yet")
    async with bench.starting(
        state("a", meta={"retry": {"attempts": 3, "interval": 20, "splay": 0}}), stop_timeout=60
    ) as engine:
        await bench.elapse(1)
        engine.pause("going-down")
        await bench.elapse(100)
        began = asyncio.get_running_loop().time()

    assert machine.log.count("apply a") == 1
    assert asyncio.get_running_loop().time() - began < 1

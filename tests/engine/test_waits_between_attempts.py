"""Between two attempts a run only waits: it occupies no worker, and nothing waits for it."""

from __future__ import annotations

import asyncio

from engine_bench import Bench, compilation, state
from fake_machine import Machine
from holdfast import Permanent

RETRY = {"retry": {"attempts": 3, "interval": 20, "splay": 0}, "parallel": True}


def times(machine: Machine, what: str) -> int:
    """Return how often this change was made."""
    return machine.log.count(what)


async def test_drift_is_repaired_while_many_runs_wait_for_a_retry(bench: Bench, machine: Machine) -> None:
    """One unreliable resource does not stop all repairs on a host with one worker."""
    machine.broken["flaky"] = Permanent("not yet")
    async with bench.starting(state("flaky", meta=RETRY), state("b"), workers=1) as engine:
        await bench.elapse(1)
        assert machine.settings == {"b": "right"}

        machine.drift("b")
        await bench.elapse(1)

        assert machine.settings == {"b": "right"}
        assert times(machine, "apply flaky") == 1
        del machine.broken["flaky"]
        await engine.settle()
        assert (times(machine, "apply flaky"), machine.settings["flaky"]) == (2, "right")


async def test_a_batch_that_waits_for_a_retry_occupies_no_worker(bench: Bench, machine: Machine) -> None:
    """All members wait, and they continue as one batch."""
    machine.broken |= {"one": Permanent("not yet"), "two": Permanent("not yet")}
    async with bench.starting(
        *(state(name, "zbundled.present", meta=RETRY) for name in ("one", "two")),
        state("b"),
        workers=1,
        ordering="requisites",
    ) as engine:
        await bench.elapse(1)
        machine.drift("b")
        await bench.elapse(1)
        assert machine.settings == {"b": "right"}

        machine.broken.clear()
        await engine.settle()
        assert machine.settings == {"b": "right", "one": "right", "two": "right"}
        assert not engine.view.scheduler.workers.at_work


async def test_a_retry_waits_for_a_free_worker(bench: Bench, machine: Machine) -> None:
    """A retry waits like any other run."""
    machine.broken["flaky"] = Permanent("not yet")
    async with bench.starting(state("flaky", meta=RETRY), state("b"), workers=1) as engine:
        await bench.elapse(15)
        machine.hold("apply b")
        machine.drift("b")
        await bench.elapse(7)
        assert times(machine, "apply flaky") == 1

        machine.broken.clear()
        machine.free()
        await engine.settle()
        assert asyncio.get_running_loop().time() == 22
        assert machine.settings == {"flaky": "right", "b": "right"}


async def test_a_resource_that_leaves_between_attempts_leaves_at_once(bench: Bench, machine: Machine) -> None:
    """Its successor does not wait for `stop_timeout`, and no worker is lost."""
    machine.broken["flaky"] = Permanent("not yet")
    async with bench.starting(state("flaky", meta=RETRY), state("b"), workers=1, stop_timeout=60) as engine:
        await bench.elapse(4)
        machine.gates["apply b"] = asyncio.Event()
        machine.drift("b")
        await bench.elapse(1)

        machine.broken.clear()
        await engine.swap(compilation(state("flaky", meta=RETRY, value="new"), state("b")))
        machine.gates.pop("apply b").set()
        await bench.elapse(0.1)

        assert machine.settings == {"flaky": "new", "b": "right"}
        assert not engine.view.scheduler.workers.at_work


async def test_a_stop_does_not_wait_for_a_future_attempt(bench: Bench, machine: Machine) -> None:
    """The stop ends at once, although `stop_timeout` permits a minute."""
    machine.broken["flaky"] = Permanent("not yet")
    async with bench.starting(state("flaky", meta=RETRY), stop_timeout=60):
        await bench.elapse(1)
        began = asyncio.get_running_loop().time()

    assert asyncio.get_running_loop().time() - began < 1
    assert times(machine, "apply flaky") == 1


async def test_no_attempt_starts_during_a_pause(bench: Bench, machine: Machine) -> None:
    """A retry whose time comes during the pause starts after it."""
    machine.broken["flaky"] = Permanent("not yet")
    async with bench.starting(state("flaky", meta=RETRY), workers=1) as engine:
        await bench.elapse(1)
        engine.pause()
        await bench.elapse(100)
        assert times(machine, "apply flaky") == 1

        machine.broken.clear()
        engine.resume()
        await engine.settle()

        assert machine.settings == {"flaky": "right"}


async def test_a_host_has_not_converged_while_a_retry_waits(bench: Bench, machine: Machine) -> None:
    """The host has not converged even if a recheck, which is no activity, has found the drift."""
    async with bench.running(state("flaky", meta=RETRY)) as engine:
        assert engine.converged

        machine.settings["flaky"] = "drifted where no watch reaches"
        machine.broken["flaky"] = Permanent("not yet")
        engine.recheck("recheck")
        await bench.elapse(1)
        assert not engine.converged

        machine.broken.clear()
        await engine.settle()
        assert engine.converged


async def test_a_removed_resource_leaves_no_timer(bench: Bench, machine: Machine) -> None:
    """It drifted during its last run, and failed. Nothing is reported about it."""
    async with bench.running(state("flaky"), state("b"), stop_timeout=60) as engine:
        machine.hold("flaky")
        machine.broken["flaky"] = Permanent("no")
        machine.drift("flaky")
        await bench.elapse(1)
        machine.touch("flaky")
        await bench.elapse(1)
        (leaving,) = [vertex for vertex in engine.view.graph if vertex.resource.name == "flaky"]
        await engine.swap(compilation(state("b")))
        machine.free()
        await bench.elapse(1)

        assert leaving.timer is None
        assert not bench.notices("held-off")

"""Between two attempts a run only waits: nobody else is kept from working, and nothing that ends has to wait for it."""

from __future__ import annotations

import asyncio

from engine_bench import Bench, compilation, state
from fake_machine import Machine
from holdfast import Permanent

RETRY = {"retry": {"attempts": 3, "interval": 20, "splay": 0}, "parallel": True}


def times(machine: Machine, what: str) -> int:
    """How often this has been done."""
    return machine.log.count(what)


async def test_drift_is_repaired_while_all_workers_rest(bench: Bench, machine: Machine) -> None:
    """One flaky resource on a host with one CPU does not switch off the repair of all others."""
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


async def test_a_batch_that_rests_takes_up_no_worker_either(bench: Bench, machine: Machine) -> None:
    """All of its members rest; when they go on, they are one again."""
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


async def test_who_has_rested_waits_for_a_worker_like_all_others(bench: Bench, machine: Machine) -> None:
    """Its next attempt begins when there is room."""
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


async def test_one_that_leaves_while_it_rests_is_gone_at_once(bench: Bench, machine: Machine) -> None:
    """Its successor need not wait for `stop_timeout`, and no worker is lost."""
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


async def test_stopping_does_not_wait_for_an_attempt_that_has_not_begun(bench: Bench, machine: Machine) -> None:
    """However long what is at work may take."""
    machine.broken["flaky"] = Permanent("not yet")
    async with bench.starting(state("flaky", meta=RETRY), stop_timeout=60):
        await bench.elapse(1)
        began = asyncio.get_running_loop().time()

    assert asyncio.get_running_loop().time() - began < 1
    assert times(machine, "apply flaky") == 1


async def test_nothing_goes_on_while_paused(bench: Bench, machine: Machine) -> None:
    """A rest that ends in a pause goes on after it."""
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


async def test_a_host_has_not_converged_while_one_waits_for_its_next_attempt(bench: Bench, machine: Machine) -> None:
    """Also when a look at everything, which is no event, has found what could not be put right."""
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


async def test_what_has_left_is_not_waited_for(bench: Bench, machine: Machine) -> None:
    """It drifted in its last run, and failed: no timer, and no word of it."""
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

"""A retry waits only while its reason lasts, a limit builds up no debt, and the agent shows one time."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from engine_bench import Bench, compilation, ended, state
from fake_machine import Machine
from holdfast import Permanent, Temporary
from holdfast.agent.engine.engine import Engine
from holdfast.agent.engine.inspect.explain import explain
from holdfast.agent.engine.schedule import limits

RETRIES = {"with attempts left": {"attempts": 5, "interval": 500}, "without end": {"attempts": -1, "interval": 500}}


def why(engine: Engine) -> dict[str, Any]:
    """Return the explanation of the state `a`."""
    return explain(engine.view.graph.by_identity["zsetting.present[a]"], engine.view)


def wait(told: dict[str, Any]) -> float:
    """Return the seconds of its only wait, from its text."""
    (found,) = told["waits"]
    return float(found["text"].split("; ")[1].split()[0])


@pytest.mark.parametrize("retry", RETRIES.values(), ids=RETRIES)
@pytest.mark.parametrize("what", ["drift", "upstream", "trigger", "recheck", "reload"])
async def test_a_retry_starts_at_once_when_something_has_changed(
    bench: Bench, machine: Machine, retry: dict[str, Any], what: str
) -> None:
    """Drift of the resource, a repair of its target, a trigger, or new states start it."""
    meta = {"retry": retry}
    async with bench.running(state("up"), state("a", meta=meta, require=["up"])) as engine:
        machine.broken["a"] = Permanent("no")
        bench.forget()
        machine.drift("a")
        await bench.elapse(5)
        assert machine.log.count("apply a") == 1

        machine.broken.clear()
        match what:
            case "drift":
                machine.touch("a")
            case "upstream":
                machine.drift("up")
            case "trigger":
                engine.trigger("zsetting.present[a]")
            case "recheck":
                engine.recheck()
            case "reload":
                await engine.swap(compilation(state("up"), state("new"), state("a", meta=meta, require=["up", "new"])))
        await bench.elapse(0.1)
        assert machine.settings["a"] == "right"
        assert not [row for row in engine.status() if row["next"] is not None], "no timer is left of it"


async def test_an_early_retry_waits_for_its_targets(bench: Bench, machine: Machine) -> None:
    """Both have drifted: the target is repaired first, and a pause holds for both."""
    async with bench.running(
        state("up"), state("a", meta={"retry": {"attempts": 5, "interval": 500}}, require=["up"])
    ) as engine:
        machine.broken["a"] = Permanent("no")
        machine.drift("a")
        await bench.elapse(5)
        machine.broken.clear()
        bench.forget()
        engine.pause()
        machine.drift("a")
        machine.drift("up")
        await bench.elapse(600)
        assert machine.log == []

        engine.resume()
        await engine.settle()
        assert [line for line in machine.log if line.startswith("apply")] == ["apply up", "apply a"]


async def test_early_attempts_are_counted(bench: Bench, machine: Machine) -> None:
    """The attempts therefore end, and a flood of events does not cause an attempt for each event."""
    async with bench.running(state("a", meta={"retry": {"attempts": 3, "interval": 500}})):
        machine.broken["a"] = Permanent("no")
        for _ in range(3):
            machine.drift("a")
            await bench.elapse(limits.ECHO + 1)

        assert bench.outcomes("a")[-1].attempts == 3
        for _ in range(1000):
            machine.drift("a")
            await bench.elapse(limits.ECHO + 1)
        assert len(bench.notices("flapping")) == 1
        assert machine.log.count("apply a") < 120


async def test_a_waiting_retry_holds_no_semaphore(bench: Bench, machine: Machine) -> None:
    """Others that share the semaphore run meanwhile."""
    machine.broken["a"] = Permanent("no")
    meta = {"sema": ["disk"]}
    async with bench.starting(
        state("a", meta={**meta, "retry": {"attempts": 5, "interval": 500}}), state("b", meta=meta)
    ):
        await bench.elapse(1)

        assert machine.settings == {"b": "right"}


@pytest.mark.parametrize("pause", [0.0, 0.012])
async def test_a_limit_builds_up_no_debt(bench: Bench, machine: Machine, pause: float) -> None:
    """Four hundred events cost no more than one, and the reported time is correct."""
    async with bench.running(state("a", meta={"limit": 0.5, "burst": 1})) as engine:
        for _ in range(400):
            machine.drift("a")
            await bench.elapse(pause)
        await bench.elapse(0.01)
        told = why(engine)

        assert wait(told) == told["next"][0]["in"] == engine.status()[0]["next"] <= 2
        await bench.elapse(wait(told) + 0.1)
        assert machine.settings == {"a": "right"}
        said = [
            float(notice.text.removeprefix("may have drifted; checked in ").removesuffix(" s"))
            for notice in bench.notices("held-off")
        ]
        assert max(said) <= 2


async def test_events_during_a_run_cause_one_check(bench: Bench, machine: Machine) -> None:
    """The number of events has no effect."""
    async with bench.running(state("a", meta={"limit": 0.1, "burst": 3})) as engine:
        machine.hold("a")
        for _ in range(100):
            machine.touch("a")
            await bench.elapse(0.01)
        machine.free()
        await engine.settle()
        machine.drift("a")
        await bench.elapse(0.1)

        assert machine.settings == {"a": "right"}, "two of three turns were taken"


async def test_a_trigger_during_a_limit_leaves_no_debt(bench: Bench, machine: Machine) -> None:
    """The next drift waits for one period at most."""
    async with bench.running(state("a", meta={"limit": 0.01, "burst": 1})) as engine:
        for _ in range(3):
            machine.drift("a")
            await bench.elapse(0.1)
            engine.trigger("zsetting.present[a]")
            await bench.elapse(0.1)
        machine.drift("a")
        await bench.elapse(101)

        assert machine.settings == {"a": "right"}


async def test_a_retry_does_not_start_before_the_reported_time(bench: Bench, machine: Machine) -> None:
    """A limit and a retry delay it, and the agent reports one time."""
    async with bench.running(
        state("a", meta={"limit": 0.01, "burst": 1, "retry": {"attempts": -1, "interval": 20}})
    ) as engine:
        machine.broken["a"] = Temporary("busy")
        machine.drift("a")
        await bench.elapse(5)
        bench.forget()
        machine.touch("a")
        await bench.elapse(0.1)
        told = why(engine)
        assert wait(told) == told["next"][0]["in"]

        await bench.elapse(wait(told) - 0.2)
        assert machine.log == []
        await bench.elapse(0.4)
        assert machine.log == ["check a", "apply a", "check a"]  # the last one finds changes of the failed attempt


async def test_a_rate_limit_is_reported_once_for_each_flood(bench: Bench) -> None:
    """Ten events a second must not flood the log, even during a pause."""
    async with bench.running(state("a"), flap_limit=3, flap_window=60) as engine:
        bench.forget()
        for _ in range(600):
            bench.machine.drift("a")
            await bench.elapse(0.1)
        told, looks = len(bench.notices("held-off")), len(bench.outcomes("a"))

        assert 3 <= told <= looks <= 20
        engine.pause()
        for _ in range(20):
            bench.machine.drift("a")
            await bench.elapse(0.1)
        assert len(bench.notices("held-off")) + len(bench.notices("noticed")) <= told + 2


async def test_flapping_is_reported_once_and_repaired_at_growing_intervals(bench: Bench) -> None:
    """Something undoes each repair at once."""
    async with bench.running(state("a"), flap_limit=3, flap_window=60) as engine:
        bench.forget()
        times = []
        for _ in range(9):
            bench.machine.drift("a")
            before = len(bench.outcomes("a"))
            await bench.until(lambda _, before=before: any(o.changed for o in bench.outcomes("a")[before:]))
            times.append(asyncio.get_running_loop().time())

        assert len(bench.notices("flapping")) == 1
        assert engine.status()[0]["flapping"]
        assert [round(b - a) for a, b in itertools.pairwise(times)] == [0, 0, 0, 1, 2, 4, 8, 16]
        await bench.elapse(300)
        bench.forget()
        bench.machine.drift("a")
        await bench.until(ended("drift"))
        await engine.settle()
        assert not engine.status()[0]["flapping"]


async def test_a_resource_that_its_own_failure_wakes_is_tried_at_growing_intervals(bench: Bench) -> None:
    """A service ends as soon as it starts, and systemd reports each start to its watch."""
    async with bench.running(state("a"), flap_limit=3, flap_window=60) as engine:
        bench.forget()
        bench.machine.broken["a"] = Permanent("ended at once")
        times = []
        for _ in range(9):
            bench.machine.drift("a")
            before = len(bench.outcomes("a"))
            await bench.until(lambda _, before=before: len(bench.outcomes("a")) > before)
            times.append(asyncio.get_running_loop().time())

        assert [b - a for a, b in itertools.pairwise(times)] == [
            pytest.approx(wait, rel=0.21) for wait in (1, 2, 4, 8, 16, 32, 54, 54)
        ]
        assert [notice.text for notice in bench.notices("flapping")] == [
            (
                "flapping: failed more than 3 times in a row, each time after an event of its watch. "
                "From now on repairs are spaced, up to 60 s apart"
            )
        ]
        bench.machine.broken.clear()
        engine.trigger("zsetting.present[a]")
        await engine.settle()
        assert bench.machine.settings == {"a": "right"}, "who does not want to wait says so"


async def test_a_rate_limit_builds_up_no_debt(bench: Bench) -> None:
    """A thousand events cost one wait."""
    async with bench.running(state("a", meta={"limit": 0.1, "burst": 1})):
        bench.forget()
        for _ in range(1000):
            bench.machine.touch("a")
            await asyncio.sleep(0)
        await bench.elapse(100)

        assert len(bench.outcomes("a")) == 2

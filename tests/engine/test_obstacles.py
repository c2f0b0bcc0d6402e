"""Resources with an obstacle outside the agent wait until it ends; all others are repaired meanwhile."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from engine_bench import Bench, compilation, state
from fake_machine import Machine
from holdfast.agent.engine.inspect.explain import explain
from holdfast.agent.engine.model.waits import Obstacle
from holdfast.resources.contract import Resource
from power import DurableBench


class Others:
    """Another program that works on resources, by name."""

    def __init__(self) -> None:
        self.busy: set[str] = set()
        self.over = asyncio.Event()
        self.until = 600.0

    async def obstacle(self, resource: Resource) -> Obstacle | None:
        """Return an obstacle if another program works on this resource."""
        return Obstacle("somebody has it", self.until, self.over) if resource.name in self.busy else None

    def done(self) -> None:
        """End all work."""
        self.busy.clear()
        self.over.set()


async def test_a_resource_is_repaired_when_its_obstacle_ends(bench: Bench, machine: Machine) -> None:
    """The repair comes at that moment, and not before, whatever the watch reports.

    Resources that do not require it are repaired meanwhile; `why` and `status` name the obstacle.
    """
    others = Others()
    async with bench.running(
        state("a"), state("b", require=["a"]), state("c"), obstacle=others.obstacle, workers=1
    ) as engine:
        others.busy.add("a")
        for name in "abc":
            machine.drift(name)
        await bench.elapse(1)
        machine.touch("a")
        await bench.elapse(100)

        assert machine.settings == {"a": "drifted", "b": "drifted", "c": "right"}
        assert [
            wait["code"] for wait in explain(engine.view.graph.by_identity["zsetting.present[a]"], engine.view)["waits"]
        ] == ["obstacle"]
        assert engine.status()[0]["comment"] == "left alone for now: somebody has it"
        assert not engine.converged
        assert len(bench.notices("held-off")) == 1
        others.done()
        await bench.elapse(0.1)
        assert machine.settings == {"a": "right", "b": "right", "c": "right"}
        assert [outcome.changed for outcome in bench.outcomes("a")] == [True, True]


async def test_a_new_resource_with_an_obstacle_does_not_delay_later_ones(bench: Bench, machine: Machine) -> None:
    """Definition order does not hold then; only its dependents wait."""
    others = Others()
    others.busy.add("a")
    async with bench.starting(
        state("a"), state("b"), state("c", require=["a"]), obstacle=others.obstacle, workers=1
    ) as engine:
        await bench.elapse(100)
        assert machine.settings == {"b": "right"}

        others.done()
        await engine.settle()
        assert machine.settings == {"a": "right", "b": "right", "c": "right"}


async def test_an_obstacle_without_an_end_event_is_asked_again_at_its_time(bench: Bench, machine: Machine) -> None:
    """The obstacle does not last for ever."""
    others = Others()
    others.busy.add("a")
    async with bench.starting(state("a"), obstacle=others.obstacle, workers=1):
        await bench.elapse(1)
        others.busy.clear()
        await bench.elapse(598)
        assert machine.settings == {}

        await bench.elapse(2)
        assert machine.settings == {"a": "right"}


async def test_a_stop_does_not_wait_for_an_obstacle(bench: Bench, machine: Machine) -> None:
    """A removed resource is not woken when the obstacle ends."""
    others = Others()
    others.busy.add("a")
    async with bench.starting(state("a"), state("b"), obstacle=others.obstacle, workers=1) as engine:
        await bench.elapse(1)
        await engine.swap(compilation(state("b")))
        others.done()
        await bench.elapse(1)
        assert machine.settings == {"b": "right"}

        others.busy.add("b")
        others.over = asyncio.Event()
        machine.drift("b")
        await bench.elapse(1)
        began = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() == began


async def test_a_pending_refresh_outlasts_an_obstacle(bench: Bench, machine: Machine) -> None:
    """A service whose configuration has changed is restarted once, afterwards; a listener runs then."""
    for kind in ("watch", "listen"):
        bench.forget()
        machine.settings.clear()
        others = Others()
        async with bench.running(
            state("config"), state("service", **{kind: ["config"]}), obstacle=others.obstacle, workers=1
        ) as engine:
            bench.forget()
            others.busy.add("service")
            machine.drift("config")
            await bench.elapse(1)
            assert "refresh service" not in machine.log

            others.done()
            await engine.settle()
            assert machine.log.count("refresh service") == 1


async def test_an_error_while_asking_for_obstacles_is_retried_with_growing_delays(
    bench: Bench, machine: Machine
) -> None:
    """A bug there fails the run, which is tried again later and not in a tight loop."""
    asked = []

    async def obstacle(_: Resource) -> Obstacle | None:
        asked.append(asyncio.get_running_loop().time())
        if len(asked) > 50:
            return None
        if len(asked) > 1:
            raise RuntimeError("a bug")
        return Obstacle("somebody has it", 10.0, asyncio.Event())

    async with bench.starting(state("a"), obstacle=obstacle):
        await bench.elapse(30)
        assert 3 < len(asked) < 10


async def test_a_host_has_not_converged_while_a_resource_has_an_obstacle(bench: Bench, machine: Machine) -> None:
    """The host has not converged even if only a recheck was due, which is no activity unless it finds drift."""
    others = Others()
    async with bench.running(state("a"), obstacle=others.obstacle, workers=1) as engine:
        assert engine.converged

        others.busy.add("a")
        machine.settings["a"] = "drifted where no watch reaches"
        engine.recheck("recheck")
        await bench.elapse(1)
        assert not engine.converged
        others.done()
        await engine.settle()
        assert machine.settings == {"a": "right"}
        assert engine.converged


@pytest.mark.parametrize("declared", [{"watch": ["a"]}, {"onchanges": ["a"]}, {"onfail": ["a"]}])
async def test_a_journal_that_cannot_be_written_is_an_obstacle(
    machine: Machine, tmp_path: Path, declared: dict[str, list[str]]
) -> None:
    """Nothing fails and no requisite is decided; `status` and `why` name the obstacle.

    The repair comes as soon as the journal can be written, and counts then.
    """
    bench = DurableBench(machine, tmp_path / "journal")
    async with bench.running(state("a"), state("b", **declared), state("alone")) as engine:
        bench.forget()
        bench.disk.error = OSError(28, "No space left on device")
        for name in ("a", "alone"):
            machine.drift(name)
        await bench.elapse(10)
        machine.touch("a")
        await bench.elapse(1000)

        assert (machine.settings["a"], machine.settings["alone"]) == ("drifted", "right")
        assert not [line for line in machine.log if line.endswith(" b")]
        assert not bench.outcomes("a")
        row = engine.status()[0]
        assert (row["state"], row["comment"]) == (
            "waiting",
            "left alone for now: the journal cannot be written ([Errno 28] No space left on device)",
        )
        told = explain(engine.view.graph.by_identity["zsetting.present[a]"], engine.view)
        assert [wait["code"] for wait in told["waits"]] == ["obstacle"]
        assert not engine.converged
        assert len(bench.notices("held-off")) == 1
        bench.disk.error = None
        await engine.settle()
        assert machine.settings["a"] == "right"
        assert [(each.result, each.changed) for each in bench.outcomes("a")] == [(True, True)]
        assert any(line.endswith(" b") for line in machine.log) is ("onfail" not in declared)


async def test_a_state_with_reverse_waits_for_the_journal(machine: Machine, tmp_path: Path) -> None:
    """Its previous content is recorded before it is changed, even if nothing watches it."""
    bench = DurableBench(machine, tmp_path / "journal")
    bench.disk.error = OSError(28, "No space left on device")
    async with bench.starting(state("a", "zborrowed.present", meta={"reverse": True}), state("b")) as engine:
        await bench.elapse(1000)
        assert machine.settings == {"b": "right"}
        assert not bench.outcomes("a")

        bench.disk.error = None
        await engine.settle()
        assert machine.settings["a"] == "right"

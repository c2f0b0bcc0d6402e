"""What something outside is in the way of is left alone until that is over; everything else is repaired meanwhile."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from engine_bench import Bench, FakeHost, Machine, compilation, in_virtual_time, state
from holdfast.agent.engine.engine import Engine
from holdfast.agent.engine.inspect.explain import explain
from holdfast.agent.engine.model.events import Obstacle
from holdfast.agent.engine.model.options import EngineOptions
from holdfast.resources.contract import Resource
from power import DurableBench


class Others:
    """Somebody who has things in his hands, by name."""

    def __init__(self) -> None:
        self.busy: set[str] = set()
        self.over = asyncio.Event()
        self.until = 600.0

    async def obstacle(self, resource: Resource) -> Obstacle | None:
        """He is in the way of what he has in his hands."""
        return Obstacle("somebody has it", self.until, self.over) if resource.name in self.busy else None

    def done(self) -> None:
        """He is not any more."""
        self.busy.clear()
        self.over.set()


def engine(bench: Bench, others: Others) -> Engine:
    """An engine that asks him."""
    bench.journal = bench.open_journal()
    return Engine(FakeHost(), EngineOptions(recheck=0, workers=1), bench.journal, bench._emit, obstacle=others.obstacle)


@in_virtual_time
async def test_what_is_in_other_hands_is_repaired_when_they_are_done(bench: Bench, machine: Machine) -> None:
    """At once, and not before, whatever its watch tells; what does not require it is repaired meanwhile. `why` and `status` tell."""
    others = Others()
    one = engine(bench, others)
    await one.swap(compilation(state("a"), state("b", require=["a"]), state("c")))
    await one.settle()
    others.busy.add("a")
    for name in "abc":
        machine.drift(name)
    await asyncio.sleep(1)
    machine.touch("a")
    await asyncio.sleep(100)

    assert machine.settings == {"a": "drifted", "b": "drifted", "c": "right"}
    assert [wait["code"] for wait in explain(one.view.graph.by_identity["zsetting.present[a]"], one.view)["waits"]] == [
        "obstacle"
    ]
    assert one.status()[0]["comment"] == "left alone for now: somebody has it"
    assert not one.converged
    assert len(bench.notices("held-off")) == 1
    others.done()
    await asyncio.sleep(0.1)
    assert machine.settings == {"a": "right", "b": "right", "c": "right"}
    assert [outcome.changed for outcome in bench.outcomes("a")] == [True, True]
    await one.stop()


@in_virtual_time
async def test_a_new_resource_in_other_hands_does_not_hold_back_those_after_it(bench: Bench, machine: Machine) -> None:
    """Though definition order would: only what requires it waits."""
    others = Others()
    others.busy.add("a")
    one = engine(bench, others)
    await one.swap(compilation(state("a"), state("b"), state("c", require=["a"])))
    await asyncio.sleep(100)
    assert machine.settings == {"b": "right"}

    others.done()
    await one.settle()
    assert machine.settings == {"a": "right", "b": "right", "c": "right"}
    await one.stop()


@in_virtual_time
async def test_an_obstacle_whose_end_nobody_tells_is_not_for_ever(bench: Bench, machine: Machine) -> None:
    """It is asked about again at the time that was given."""
    others = Others()
    others.busy.add("a")
    one = engine(bench, others)
    await one.swap(compilation(state("a")))
    await asyncio.sleep(1)
    others.busy.clear()
    await asyncio.sleep(598)
    assert machine.settings == {}

    await asyncio.sleep(2)
    assert machine.settings == {"a": "right"}
    await one.stop()


@in_virtual_time
async def test_the_end_comes_while_something_is_left_alone(bench: Bench, machine: Machine) -> None:
    """The engine stops at once; what has left is not woken when the obstacle is over."""
    others = Others()
    others.busy.add("a")
    one = engine(bench, others)
    await one.swap(compilation(state("a"), state("b")))
    await asyncio.sleep(1)
    await one.swap(compilation(state("b")))
    others.done()
    await asyncio.sleep(1)
    assert machine.settings == {"b": "right"}

    others.busy.add("b")
    others.over = asyncio.Event()
    machine.drift("b")
    await asyncio.sleep(1)
    began = asyncio.get_running_loop().time()
    await one.stop()
    assert asyncio.get_running_loop().time() == began


@in_virtual_time
async def test_a_refresh_that_is_owed_outlasts_an_obstacle(bench: Bench, machine: Machine) -> None:
    """A service whose configuration has changed meanwhile is restarted once, afterwards; a listener has its turn then."""
    for kind in ("watch", "listen"):
        bench.forget()
        machine.settings.clear()
        others = Others()
        one = engine(bench, others)
        await one.swap(compilation(state("config"), state("service", **{kind: ["config"]})))
        await one.settle()
        bench.forget()
        others.busy.add("service")
        machine.drift("config")
        await asyncio.sleep(1)
        assert "refresh service" not in machine.log

        others.done()
        await one.settle()
        assert machine.log.count("refresh service") == 1
        await one.stop()


@in_virtual_time
async def test_who_cannot_say_any_more_what_is_in_the_way_is_asked_with_growing_delays(
    bench: Bench, machine: Machine
) -> None:
    """A bug of whoever finds obstacles fails the run, which is tried again later, and not in a tight loop."""
    asked = []

    async def obstacle(_: Resource) -> Obstacle | None:
        asked.append(asyncio.get_running_loop().time())
        if len(asked) > 50:
            return None
        if len(asked) > 1:
            raise RuntimeError("a bug")
        return Obstacle("somebody has it", 10.0, asyncio.Event())

    bench.journal = bench.open_journal()
    one = Engine(FakeHost(), EngineOptions(recheck=0), bench.journal, bench._emit, obstacle=obstacle)
    await one.swap(compilation(state("a")))
    await asyncio.sleep(30)
    assert 3 < len(asked) < 10
    await one.stop()


@in_virtual_time
async def test_a_host_has_not_converged_while_something_cannot_be_looked_at(bench: Bench, machine: Machine) -> None:
    """Though nothing but a look at everything was due, which counts for nothing while it finds no drift."""
    others = Others()
    one = engine(bench, others)
    await one.swap(compilation(state("a")))
    await one.settle()
    assert one.converged

    others.busy.add("a")
    machine.settings["a"] = "drifted where no watch reaches"
    one.recheck("recheck")
    await asyncio.sleep(1)
    assert not one.converged
    others.done()
    await one.settle()
    assert machine.settings == {"a": "right"}
    assert one.converged
    await one.stop()


@pytest.mark.parametrize("declared", [{"watch": ["a"]}, {"onchanges": ["a"]}, {"onfail": ["a"]}])
@in_virtual_time
async def test_a_journal_that_cannot_be_written_is_an_obstacle(
    machine: Machine, tmp_path: Path, declared: dict[str, list[str]]
) -> None:
    """Nothing fails, no requisite is answered, `status` and `why` tell; the repair comes as soon as the journal can be written, and counts then."""
    bench = DurableBench(machine, tmp_path / "journal")
    one = bench.engine()
    await one.swap(compilation(state("a"), state("b", **declared), state("alone")))
    await one.settle()
    bench.forget()
    bench.disk.error = OSError(28, "No space left on device")
    for name in ("a", "alone"):
        machine.drift(name)
    await asyncio.sleep(10)
    machine.touch("a")
    await asyncio.sleep(1000)

    assert (machine.settings["a"], machine.settings["alone"]) == ("drifted", "right")
    assert not [line for line in machine.log if line.endswith(" b")]
    assert not bench.outcomes("a")
    row = one.status()[0]
    assert (row["state"], row["comment"]) == (
        "waiting",
        "left alone for now: the journal cannot be written ([Errno 28] No space left on device)",
    )
    told = explain(one.view.graph.by_identity["zsetting.present[a]"], one.view)
    assert [wait["code"] for wait in told["waits"]] == ["obstacle"]
    assert not one.converged
    assert len(bench.notices("held-off")) == 1
    bench.disk.error = None
    await one.settle()
    assert machine.settings["a"] == "right"
    assert [(each.result, each.changed) for each in bench.outcomes("a")] == [(True, True)]
    assert any(line.endswith(" b") for line in machine.log) is ("onfail" not in declared)
    await one.stop()


@in_virtual_time
async def test_what_was_before_is_written_down_before_it_is_changed(machine: Machine, tmp_path: Path) -> None:
    """A state with `reverse` waits for the journal as well, also when nothing watches it."""
    bench = DurableBench(machine, tmp_path / "journal")
    one = bench.engine()
    bench.disk.error = OSError(28, "No space left on device")
    await one.swap(compilation(state("a", "zborrowed.present", meta={"reverse": True}), state("b")))
    await asyncio.sleep(1000)
    assert machine.settings == {"b": "right"}
    assert not bench.outcomes("a")

    bench.disk.error = None
    await one.settle()
    assert machine.settings["a"] == "right"
    await one.stop()

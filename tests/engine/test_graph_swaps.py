"""New states replace old ones without disturbing what is the same in both."""

from __future__ import annotations

import asyncio

from engine_bench import Bench, compilation, state
from holdfast import Permanent
from holdfast.agent.engine.inspect.status import rows


async def test_an_identical_graph_is_not_looked_at_again(bench: Bench) -> None:
    """Same watch, same past."""
    async with bench.running(state("a"), state("b", require=["a"])) as engine:
        watchers = dict(bench.machine.watchers)
        bench.forget()
        await engine.swap(compilation(state("a"), state("b", require=["a"])))
        await engine.settle()

        assert bench.machine.log == []
        assert bench.machine.watchers == watchers


async def test_only_what_is_new_or_different_runs(bench: Bench) -> None:
    """In definition order among themselves."""
    async with bench.running(state("a"), state("b"), state("c")) as engine:
        bench.forget()
        await engine.swap(compilation(state("new"), state("a"), state("b", value="other"), state("d")))
        await engine.settle()

        applied = [line for line in bench.machine.log if line.startswith("apply")]
        assert applied == ["apply new", "apply b", "apply d"]
        assert bench.machine.settings == {"a": "right", "b": "other", "c": "right", "d": "right", "new": "right"}
        assert [row["id"] for row in engine.status()] == ["new", "a", "b", "d"]


async def test_rows_that_are_taken_slowly(bench: Bench) -> None:
    """States that are swapped meanwhile: what has left is left out, what is there is told as it is now."""
    async with bench.running(state("a"), state("b"), state("c")) as engine:
        taken = rows(lambda: engine.view)
        assert next(taken)["id"] == "a"
        await engine.swap(compilation(state("c", value="other")))
        assert [(row["id"], row["dirty"]) for row in taken] == [("c", True)]


async def test_a_removed_resource_is_watched_no_more(bench: Bench) -> None:
    """What left the graph may drift."""
    async with bench.running(state("a"), state("b")) as engine:
        await engine.swap(compilation(state("a")))
        bench.forget()
        bench.machine.drift("b")
        await bench.elapse(10)

        assert bench.machine.log == []


async def test_a_failed_resource_gets_another_chance_from_a_new_graph(bench: Bench) -> None:
    """Even an identical one."""
    bench.machine.broken["a"] = Permanent("no")
    async with bench.running(state("a")) as engine:
        bench.machine.broken.clear()
        await engine.swap(compilation(state("a")))
        await engine.settle()

        assert bench.machine.settings == {"a": "right"}


async def test_a_failed_resource_is_left_alone_when_only_grains_have_changed(bench: Bench) -> None:
    """Unless it has read them: nothing else says that it would succeed now."""
    bench.machine.broken |= {"a": Permanent("no"), "b": Permanent("no")}
    async with bench.running(state("a"), state("b")) as engine:
        bench.machine.broken.clear()
        await engine.swap(compilation(state("a"), state("b")), "grains changed", outdated={"zsetting.present[b]"})
        await engine.settle()

        assert bench.machine.settings == {"b": "right"}


async def test_a_running_resource_may_finish_before_its_successor_starts(bench: Bench) -> None:
    """Within stop_timeout."""
    gate = bench.machine.gates["a"] = asyncio.Event()
    async with bench.starting(state("a"), stop_timeout=5) as engine:
        await bench.turns(lambda: bench.machine.log)
        asyncio.get_running_loop().call_later(3, gate.set)
        await engine.swap(compilation(state("a", value="new")))
        await engine.settle()

        assert bench.machine.log == ["check a", "apply a", "check a", "check a", "apply a", "check a"]
        assert bench.machine.settings == {"a": "new"}


async def test_a_running_resource_that_does_not_finish_is_cancelled(bench: Bench) -> None:
    """After stop_timeout; the new one runs."""
    bench.machine.gates["a"] = asyncio.Event()
    async with bench.starting(state("a"), stop_timeout=5) as engine:
        await bench.turns(lambda: bench.machine.log)
        swap = asyncio.create_task(engine.swap(compilation(state("a", value="new"))))
        await bench.elapse(6)
        await swap
        bench.machine.gates["a"].set()
        await engine.settle()

        assert asyncio.get_running_loop().time() == 6
        assert bench.machine.settings == {"a": "new"}


async def test_a_changed_requisite_makes_its_owner_run_again(bench: Bench) -> None:
    """A hook that waited for a change runs when the requisite is taken away."""
    bench.machine.settings["a"] = "right"
    async with bench.running(state("a"), state("b", onchanges=["a"])) as engine:
        assert "b" not in bench.machine.settings
        await engine.swap(compilation(state("a"), state("b")))
        await engine.settle()

        assert bench.machine.settings["b"] == "right"


async def test_stop_waits_for_what_runs_and_cancels_the_rest(bench: Bench) -> None:
    """Within its timeout, and nothing starts any more."""
    bench.machine.gates["a"] = asyncio.Event()
    engine = bench.engine()
    await engine.swap(compilation(state("a"), state("b")), "start")
    await bench.turns(lambda: bench.machine.log)
    await engine.stop(4)

    assert asyncio.get_running_loop().time() == 4
    assert bench.machine.log == ["check a"]
    assert len(asyncio.all_tasks()) == 1


async def test_one_swap_marks_each_resource_once(bench: Bench) -> None:
    """A new command that fails runs once, though something that another resource has read changes with the states; who has read nothing is left alone."""
    async with bench.running(state("page"), state("other")) as engine:
        bench.forget()
        bench.machine.broken["new"] = Permanent("no")
        outdated = {"zsetting.present[page]", "zaction.run[new]", "zsetting.present[gone]"}
        await engine.swap(compilation(state("page"), state("other"), state("new", "zaction.run")), outdated=outdated)
        await engine.settle()

        assert bench.machine.log == ["check page", "run new"]
        assert bench.outcomes("page")[-1].cause == "states changed"


async def test_a_failed_resource_that_runs_again_already_gets_no_second_run_from_a_new_graph(bench: Bench) -> None:
    """Its present run is the other chance."""
    bench.machine.broken["a"] = Permanent("no")
    async with bench.running(state("a", "zaction.run")) as engine:
        bench.forget()
        bench.machine.hold("apply a")
        engine.recheck()
        await bench.elapse(1)
        await engine.swap(compilation(state("a", "zaction.run"), state("b")))
        bench.machine.free()
        await engine.settle()

        assert [line for line in bench.machine.log if line == "run a"] == ["run a"]

"""A swap replaces states without disturbing those that are the same."""

from __future__ import annotations

import asyncio

from engine_bench import Bench, compilation, state
from holdfast import Permanent
from holdfast.agent.engine.inspect.status import rows


async def test_an_identical_graph_is_not_checked_again(bench: Bench) -> None:
    """The engine keeps watches and history."""
    async with bench.running(state("a"), state("b", require=["a"])) as engine:
        watchers = dict(bench.machine.watchers)
        bench.forget()
        await engine.swap(compilation(state("a"), state("b", require=["a"])))
        await engine.settle()

        assert bench.machine.log == []
        assert bench.machine.watchers == watchers


async def test_only_new_and_changed_states_run(bench: Bench) -> None:
    """The states run in definition order."""
    async with bench.running(state("a"), state("b"), state("c")) as engine:
        bench.forget()
        await engine.swap(compilation(state("new"), state("a"), state("b", value="other"), state("d")))
        await engine.settle()

        applied = [line for line in bench.machine.log if line.startswith("apply")]
        assert applied == ["apply new", "apply b", "apply d"]
        assert bench.machine.settings == {"a": "right", "b": "other", "c": "right", "d": "right", "new": "right"}
        assert [row["id"] for row in engine.status()] == ["new", "a", "b", "d"]


async def test_status_rows_that_are_read_during_a_swap(bench: Bench) -> None:
    """Removed resources are left out, and the others are reported as they are now."""
    async with bench.running(state("a"), state("b"), state("c")) as engine:
        taken = rows(lambda: engine.view)
        assert next(taken)["id"] == "a"
        await engine.swap(compilation(state("c", value="other")))
        assert [(row["id"], row["dirty"]) for row in taken] == [("c", True)]


async def test_a_removed_resource_is_no_longer_watched(bench: Bench) -> None:
    """The engine ignores its drift."""
    async with bench.running(state("a"), state("b")) as engine:
        await engine.swap(compilation(state("a")))
        bench.forget()
        bench.machine.drift("b")
        await bench.elapse(10)

        assert bench.machine.log == []


async def test_a_swap_runs_failed_resources_again(bench: Bench) -> None:
    """They run again even if no state has changed."""
    bench.machine.broken["a"] = Permanent("no")
    async with bench.running(state("a")) as engine:
        bench.machine.broken.clear()
        await engine.swap(compilation(state("a")))
        await engine.settle()

        assert bench.machine.settings == {"a": "right"}


async def test_a_swap_for_changed_grains_runs_only_failed_resources_that_read_them(bench: Bench) -> None:
    """Nothing suggests that the others would succeed now."""
    bench.machine.broken |= {"a": Permanent("no"), "b": Permanent("no")}
    async with bench.running(state("a"), state("b")) as engine:
        bench.machine.broken.clear()
        await engine.swap(compilation(state("a"), state("b")), "grains changed", outdated={"zsetting.present[b]"})
        await engine.settle()

        assert bench.machine.settings == {"b": "right"}


async def test_a_running_resource_may_finish_before_its_successor_starts(bench: Bench) -> None:
    """It has stop_timeout seconds."""
    gate = bench.machine.gates["a"] = asyncio.Event()
    async with bench.starting(state("a"), stop_timeout=5) as engine:
        await bench.turns(lambda: bench.machine.log)
        asyncio.get_running_loop().call_later(3, gate.set)
        await engine.swap(compilation(state("a", value="new")))
        await engine.settle()

        assert bench.machine.log == ["check a", "apply a", "check a", "check a", "apply a", "check a"]
        assert bench.machine.settings == {"a": "new"}


async def test_a_running_resource_that_does_not_finish_is_cancelled(bench: Bench) -> None:
    """After stop_timeout seconds its successor runs."""
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
    """A hook that waited for a change runs after its requisite is removed."""
    bench.machine.settings["a"] = "right"
    async with bench.running(state("a"), state("b", onchanges=["a"])) as engine:
        assert "b" not in bench.machine.settings
        await engine.swap(compilation(state("a"), state("b")))
        await engine.settle()

        assert bench.machine.settings["b"] == "right"


async def test_stop_waits_for_runs_within_its_timeout_then_cancels_them(bench: Bench) -> None:
    """The engine starts no further run."""
    bench.machine.gates["a"] = asyncio.Event()
    engine = bench.engine()
    await engine.swap(compilation(state("a"), state("b")), "start")
    await bench.turns(lambda: bench.machine.log)
    await engine.stop(4)

    assert asyncio.get_running_loop().time() == 4
    assert bench.machine.log == ["check a"]
    assert len(asyncio.all_tasks()) == 1


async def test_a_swap_marks_each_resource_once(bench: Bench) -> None:
    """A new command that fails runs once, although a file that another resource has read changes, too.

    Resources that have read nothing are not checked.
    """
    async with bench.running(state("page"), state("other")) as engine:
        bench.forget()
        bench.machine.broken["new"] = Permanent("no")
        outdated = {"zsetting.present[page]", "zaction.run[new]", "zsetting.present[gone]"}
        await engine.swap(compilation(state("page"), state("other"), state("new", "zaction.run")), outdated=outdated)
        await engine.settle()

        assert bench.machine.log == ["check page", "run new"]
        assert bench.outcomes("page")[-1].cause == "states changed"


async def test_a_swap_does_not_repeat_the_current_run_of_a_failed_resource(bench: Bench) -> None:
    """The current run is the second chance."""
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

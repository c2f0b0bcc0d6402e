"""Swaps, stops, failures and settings that arrive during other work."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from engine_bench import Bench, compilation, pending, state, use
from fake_machine import Machine
from holdfast import Permanent, Temporary
from holdfast.agent.engine.model.vertex import Vertex
from power import DurableBench

# -- swaps ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("between", [state("a", value="second"), state("other")])
async def test_the_second_of_two_swaps_waits_for_a_run_from_before_both(bench: Bench, between: tuple) -> None:
    """The state in between, which may not exist, has not started."""
    machine = bench.machine
    machine.hold("apply a")
    async with bench.starting(state("a"), stop_timeout=50, workers=4) as engine:
        await bench.elapse(1)
        await engine.swap(compilation(between))
        await bench.elapse(1)
        await engine.swap(compilation(state("a", value="third")))
        await bench.elapse(1)
        assert machine.log.count("apply a") == 1
        machine.free()
        await bench.elapse(10)

        assert machine.settings["a"] == "third"
        assert machine.overlaps == []


async def test_a_probe_of_a_new_target_waits_for_the_old_one(bench: Bench) -> None:
    """Its prereq is new, too, and has no run to wait for."""
    machine = bench.machine
    machine.hold("apply a")
    async with bench.starting(state("a"), stop_timeout=50, workers=4) as engine:
        await bench.elapse(1)
        await engine.swap(compilation(state("owner", "zaction.run", prereq=["a"]), state("a", value="second")))
        await bench.elapse(1)
        machine.free()
        await bench.elapse(10)

        assert machine.settings["a"] == "second"
        assert machine.overlaps == []


async def test_a_removed_resource_makes_no_further_attempt(bench: Bench) -> None:
    """It waited for its next attempt when the swap removed it."""
    machine = bench.machine
    machine.broken["a"] = Temporary("busy")
    async with bench.starting(state("a", meta={"retry": {"attempts": 5, "interval": 3}}), stop_timeout=50) as engine:
        await bench.elapse(1)
        machine.broken.clear()
        await engine.swap(compilation(state("b")))
        await bench.elapse(60)

        assert "a" not in machine.settings


async def test_a_swap_works_while_the_journal_cannot_be_written(machine: Machine, tmp_path: Path) -> None:
    """The memory counts. The file is written later, and an agent that dies afterwards has lost nothing."""
    bench = DurableBench(machine, tmp_path / "journal")
    async with bench.running(state("a")) as engine:
        bench.disk.error = OSError(28, "No space left on device")
        second = state("a", value="second"), state("b"), state("c", watch=["b"])
        await engine.swap(compilation(*second))
        await bench.elapse(10)  # states wait for the journal, so the pass does not end
        assert machine.settings == {"a": "second"}
        machine.settings["c"] = "right"
        machine.hold("refresh c")
        bench.disk.error = None
        await bench.elapse(10)
        assert (machine.settings["b"], machine.log[-1]) == ("right", "refresh c")
        bench.cut_power()
        machine.free()
        async with bench.running(*second):
            assert machine.log.count("refresh c") == 2


async def test_a_run_that_ends_after_its_edge_is_removed_acknowledges_nothing(bench: Bench) -> None:
    """An acknowledgement would prevent the delivery of later changes after the edge returns."""
    machine = bench.machine
    machine.settings.update(a="right", b="right")
    with_edge, without = (state("a"), state("b", watch=["a"])), (state("a"), state("b"))
    async with bench.running(*with_edge, workers=2) as engine:
        for _ in range(3):
            machine.drift("a")
            await bench.elapse(5)
        machine.hold("refresh b")
        machine.drift("a")
        await bench.elapse(5)
        await engine.swap(compilation(*without))
        machine.free()
        await bench.elapse(5)
        await engine.swap(compilation(*with_edge))
        await engine.settle()
        bench.forget()
        machine.drift("a")
        await bench.elapse(10)

        assert "refresh b" in machine.log


# -- stopping ------------------------------------------------------------------------------------------------------


async def test_a_stop_during_a_swap_leaves_no_watch_behind(bench: Bench) -> None:
    """Either the stop or the swap may end first."""
    for turns in range(6):
        async with bench.running(state("a")) as engine:
            swap = asyncio.create_task(engine.swap(compilation(state("b"), state("c"))))
            for _ in range(turns):
                await asyncio.sleep(0)
        await swap

        assert len(asyncio.all_tasks()) == 1, turns


async def test_a_swap_after_a_stop_does_nothing(bench: Bench) -> None:
    """The swap was requested before the stop."""
    engine = bench.engine()
    await engine.stop()
    await engine.swap(compilation(state("a")))

    assert engine.status() == []


async def test_settle_returns_when_the_engine_stops(bench: Bench) -> None:
    """The pass has ended without converging."""
    bench.machine.hold("a")
    engine = bench.engine()
    await engine.swap(compilation(state("a")), "start")
    await bench.elapse(1)
    waiting = asyncio.create_task(engine.settle())
    await engine.stop(1)

    assert not (await waiting).converged


# -- settings ------------------------------------------------------------------------------------------------------


async def test_noop_turned_on_during_a_run_loses_no_refresh(bench: Bench) -> None:
    """The run changes the machine. Its change is delivered, and subscribers are refreshed when noop ends."""
    machine = bench.machine
    machine.settings.update(a="right", b="right")
    async with bench.running(state("a"), state("b", watch=["a"]), workers=2) as engine:
        machine.hold("apply a")
        machine.drift("a")
        await bench.elapse(1)
        await use(engine, noop=True)
        machine.free()
        await bench.elapse(1)
        assert "refresh b" not in machine.log
        assert pending(engine) == ["b"]
        await use(engine, noop=False)
        await bench.elapse(10)

        assert "refresh b" in machine.log
        assert pending(engine) == []


async def test_noop_turned_off_during_a_run_loses_no_refresh(bench: Bench) -> None:
    """The run only checks, so it acknowledges no change."""
    machine = bench.machine
    machine.settings.update(a="right", b="right")
    async with bench.running(state("a"), state("b", watch=["a"]), workers=2) as engine:
        machine.broken["refresh b"] = Permanent("no")
        machine.drift("a")
        await bench.elapse(0.1)
        assert pending(engine) == ["b"]
        machine.broken.clear()
        machine.hold("refresh b")
        await use(engine, noop=True)
        await bench.elapse(0.1)
        await use(engine, noop=False)
        bench.forget()
        machine.free()
        await bench.elapse(10)

        assert "refresh b" in machine.log
        assert pending(engine) == []


# -- failures and convergence --------------------------------------------------------------------------------------


async def test_a_failure_repaired_within_its_pass_does_not_prevent_convergence(bench: Bench) -> None:
    """The present state counts."""
    machine = bench.machine
    machine.settings.update(a="right", slow="right")
    async with bench.running(state("a"), state("slow"), workers=2) as engine:
        machine.hold("slow")
        machine.touch("slow")
        machine.broken["a"] = Temporary("busy", delay=2)
        machine.drift("a")
        await bench.elapse(1)
        machine.broken.clear()
        await bench.elapse(10)
        machine.free()
        await bench.elapse(10)

        assert engine.converged


async def test_a_failed_and_removed_resource_does_not_prevent_convergence(bench: Bench) -> None:
    """It fails before the swap, or during the first pass after it."""
    machine = bench.machine
    machine.broken["a"] = Permanent("no")
    async with bench.running(state("a"), state("b"), workers=3, stop_timeout=50) as engine:
        assert not engine.converged
        await engine.swap(compilation(state("b")))
        await bench.elapse(10)
        assert engine.converged

        machine.hold("a")
        await engine.swap(compilation(state("a"), state("b")))
        await bench.elapse(1)
        machine.hold("b")
        await engine.swap(compilation(state("b", value="second")))
        await bench.elapse(1)
        machine.free("a")
        await bench.elapse(1)
        machine.free()
        await bench.elapse(10)

        assert engine.converged


async def test_a_resource_whose_refresh_replaced_a_failed_run_is_checked_again(bench: Bench) -> None:
    """As in Salt, the refresh decides the result. The agent checks again, and repairs what the run could not."""
    machine = bench.machine
    machine.settings.update(a="right", b="right")
    async with bench.running(state("a"), state("b", watch=["a"]), workers=2):
        machine.broken["b"] = Permanent("no")
        machine.settings["b"] = "drifted"
        machine.drift("a")
        await bench.elapse(0.1)
        assert "refresh b" in machine.log
        machine.broken.clear()
        await bench.elapse(10)

        assert machine.settings["b"] == "right"


async def test_a_journal_error_when_a_watch_fails_does_not_end_watching(machine: Machine, tmp_path: Path) -> None:
    """The watch is started again."""
    bench = DurableBench(machine, tmp_path / "journal")
    machine.settings.update(a="right")
    async with bench.running(state("a"), state("b", watch=["a"])) as engine:
        engine.pause()
        machine.drift("a")
        await bench.elapse(1)
        bench.disk.error = OSError(28, "No space left on device")
        machine.unwatchable.add("a")
        machine.touch("a")
        await bench.elapse(0.1)
        assert bench.notices("watch-failed")
        bench.disk.error = None
        machine.unwatchable.clear()
        engine.resume()
        await bench.elapse(100)
        machine.drift("a", "again")
        await bench.elapse(1)

        assert machine.settings["a"] == "right"


# -- marks ---------------------------------------------------------------------------------------------------------


async def test_a_trigger_during_a_run_of_an_action_runs_it_again(bench: Bench) -> None:
    """The current run may have read what the operator has changed since."""
    machine = bench.machine
    machine.hold("apply x")
    async with bench.starting(state("x", "zaction.run"), workers=2) as engine:
        await bench.elapse(1)
        engine.trigger("zaction.run[x]")
        machine.free()
        await bench.elapse(10)

        assert machine.log.count("run x") == 2


async def test_a_trigger_between_the_start_and_the_first_step_of_a_run_runs_an_action_once(bench: Bench) -> None:
    """The run that has started leaves the action to the run of the trigger."""
    async with bench.running(state("x", "zaction.run")) as engine:
        bench.forget()
        vertex = engine.view.graph.by_identity["zaction.run[x]"]
        engine.recheck()
        await bench.turns(lambda: vertex.run.task)
        assert vertex.queue.noticed_at is not None  # the run has not taken its first step
        engine.trigger("zaction.run[x]")
        await engine.settle()

        assert [(outcome.cause, outcome.reason) for outcome in bench.outcomes("x")] == [
            ("command", "action"),
            ("command", ""),
        ]
        assert bench.machine.log.count("run x") == 1


async def test_a_trigger_during_a_run_keeps_its_cause(bench: Bench) -> None:
    """A trigger is no drift, so impatient operators cause no flapping."""
    machine = bench.machine
    machine.settings.update(a="right")
    async with bench.running(state("a"), workers=2) as engine:
        bench.forget()
        machine.hold("a")
        machine.touch("a")
        await bench.elapse(1)
        engine.trigger("zsetting.present[a]")
        machine.free()
        await bench.elapse(1)

        assert [outcome.cause for outcome in bench.outcomes("a")] == ["drift", "command"]


async def test_a_recheck_during_a_run_searches_each_vertex_a_few_times(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a long chain below the running vertex, the search for what blocks visits each vertex only a few times."""
    machine, size = bench.machine, 400
    chain = [state("early")] + [state(f"n{i}", **({"require": [f"n{i - 1}"]} if i else {})) for i in range(size)]
    async with bench.running(*chain, workers=4) as engine:
        bench.forget()
        machine.hold("early")
        machine.touch("early")
        await bench.elapse(1)
        looks = 0
        plain = Vertex.settled.fget

        def counted(vertex: Vertex) -> bool:
            nonlocal looks
            looks += 1
            return plain(vertex)

        monkeypatch.setattr(Vertex, "settled", property(counted))
        engine.recheck()
        await bench.elapse(1)

        assert machine.log.count(f"check n{size - 1}") == 1
        assert looks < 20 * size
        machine.free()


async def test_a_run_cancelled_before_any_work_delivers_nothing(bench: Bench) -> None:
    """Changes of the run before it were delivered and are not repeated."""
    machine = bench.machine
    async with bench.running(state("a", prereq=["c"]), state("b", watch=["a"]), state("c")):
        bench.forget()
        machine.hold("c")
        machine.touch("a")  # its check needs a probe of its prereq's target, which hangs
        await bench.elapse(1)
        machine.unwatchable.add("a")
        machine.touch("a")
        await bench.elapse(0.1)
        machine.unwatchable.clear()
        machine.free()
        await bench.elapse(10)

        assert bench.notices("watch-failed")
        assert "refresh b" not in machine.log

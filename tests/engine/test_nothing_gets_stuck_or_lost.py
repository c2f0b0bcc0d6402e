"""Where events, refreshes and workers could be lost: each case here once was."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

import engine_bench
from engine_bench import Bench, Machine, Setting, compilation, in_virtual_time, simulate, state
from holdfast import Context, Permanent, Refreshable, Resource, Temporary, Watch
from holdfast.agent.engine.engine import Engine
from holdfast.agent.engine.model.events import Event, Notice, PassEnded, Ran
from power import DurableBench


class Stepwise(Refreshable, Resource, kind="zsetting.stepwise"):
    """Changes the machine, waits for its gate, then perhaps fails: a run that can be interrupted half-way."""

    machine: ClassVar[Machine]

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Change first, wait and fail later."""
        machine = Setting.machine
        if machine.settings.get(self.name) == "right":
            return True
        ctx.report.touched = True
        machine.settings[self.name] = "right"
        machine.log.append(f"changed {self.name}")
        if self.name in machine.gates:
            await machine.gates[self.name].wait()
        if self.name in machine.broken:
            raise machine.broken.pop(self.name)
        ctx.report.changes = {"value": "right"}
        return False

    async def refresh(self, ctx: Context, apply: bool) -> bool:
        """Nothing to do."""
        return True

    async def watch(self, ctx: Context) -> Watch:
        """Tell of each touch; break when told to."""
        machine = Setting.machine
        queue = machine.watchers[self.name] = asyncio.Queue()
        yield None
        while True:
            await queue.get()
            if self.name in machine.unwatchable:
                machine.unwatchable.discard(self.name)
                raise Permanent("the watch broke")
            yield None


class ShortLived(Resource, kind="zsetting.shortlived"):
    """Its watch dies at once, again and again."""

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Always right."""
        await asyncio.sleep(0)
        return True

    async def watch(self, ctx: Context) -> Watch:
        """Armed, and dead."""
        yield None
        raise Permanent("dies at once")


class NeverArmed(Resource, kind="zsetting.neverarmed"):
    """Its watch hangs before it is armed."""

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Always right."""
        return True

    async def watch(self, ctx: Context) -> Watch:
        """Hang."""
        await asyncio.Event().wait()
        yield None


for _cls in (Stepwise, ShortLived, NeverArmed):
    engine_bench.KINDS[_cls.kind] = _cls


async def running(bench: Bench, *states: tuple, **options: Any) -> Engine:
    """An engine that has converged on these states."""
    engine = bench.engine(**options)
    await engine.swap(compilation(*states), "start")
    await engine.settle()
    bench.forget()
    return engine


async def turns(condition: Callable[[], object]) -> None:
    """Let the loop turn until something holds."""
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came to be")


def ended(cause: str) -> Callable[[Event], bool]:
    """The end of a pass with this cause."""
    return lambda event: isinstance(event, PassEnded) and event.record.cause == cause


def test_a_refresh_that_comes_while_a_rate_limit_holds_is_run_when_it_ends(bench: Bench) -> None:
    """Dirty and held, it is offered again when its time has come."""

    async def scenario() -> None:
        engine = await running(bench, state("up"), state("down", watch=["up"]), limit=0.01, burst=1, workers=2)
        bench.machine.touch("down")
        await asyncio.sleep(1)
        bench.machine.touch("down")
        await asyncio.sleep(1)
        bench.machine.drift("up")
        await asyncio.sleep(1000)

        assert "refresh down" in bench.machine.log
        assert not [row for row in engine.status() if row["dirty"]]
        await engine.stop()

    simulate(scenario)


def test_a_trigger_does_not_wait_for_a_rate_limit(bench: Bench) -> None:
    """An operator's word counts."""

    async def scenario() -> None:
        engine = await running(bench, state("a"), limit=0.0001, burst=1)
        bench.machine.touch("a")
        await asyncio.sleep(1)
        bench.machine.drift("a")
        await asyncio.sleep(1)
        engine.trigger("zsetting.present[a]")
        await asyncio.sleep(1)

        assert bench.machine.settings == {"a": "right"}
        await engine.stop()

    simulate(scenario)


def test_a_watch_that_dies_at_once_takes_no_worker_with_it(bench: Bench) -> None:
    """Its run is cancelled before its first step; the only worker is free again."""

    async def scenario() -> None:
        engine = bench.engine(workers=1)
        await engine.swap(compilation(state("dies", "zsetting.shortlived"), state("a")), "start")
        await asyncio.sleep(500)

        assert bench.machine.settings == {"a": "right"}
        await engine.stop()

    simulate(scenario)


def test_a_watch_that_is_never_armed_fails_and_lets_the_others_go_on(bench: Bench) -> None:
    """After a minute."""

    async def scenario() -> None:
        engine = bench.engine()
        await engine.swap(compilation(state("hangs", "zsetting.neverarmed"), state("a")), "start")
        await asyncio.sleep(61)

        assert bench.outcomes("hangs")[0].comment == "cannot watch: it was not armed within 60 s"
        assert bench.machine.settings == {"a": "right"}
        await engine.stop()

    simulate(scenario)


def test_a_change_made_by_a_run_that_is_cancelled_is_still_told(bench: Bench) -> None:
    """The watch failed in the middle of the run; the next run finds all right."""

    async def scenario() -> None:
        bench.machine.settings["conf"] = "right"
        engine = await running(bench, state("conf", "zsetting.stepwise"), state("svc", watch=["conf"]))
        bench.machine.gates["conf"] = asyncio.Event()
        bench.machine.drift("conf")
        await turns(lambda: "changed conf" in bench.machine.log)
        bench.machine.unwatchable.add("conf")
        bench.machine.touch("conf")
        await asyncio.sleep(100)

        assert bench.machine.log.count("changed conf") == 1
        assert bench.machine.log.count("refresh svc") == 1
        await engine.stop()

    simulate(scenario)


def test_a_change_made_by_a_run_that_a_swap_cuts_short_is_still_told(bench: Bench) -> None:
    """The successor finds all right, and who watches is refreshed."""

    async def scenario() -> None:
        bench.machine.settings["conf"] = "right"
        engine = await running(bench, state("conf", "zsetting.stepwise"), state("svc", watch=["conf"]))
        bench.machine.gates["conf"] = asyncio.Event()
        bench.machine.drift("conf")
        await turns(lambda: "changed conf" in bench.machine.log)
        await engine.swap(
            compilation(state("conf", "zsetting.stepwise", meta={"delay": 2.0}), state("svc", watch=["conf"]))
        )
        await engine.settle()

        assert bench.machine.log.count("refresh svc") == 1
        await engine.stop()

    simulate(scenario)


def test_a_change_made_by_an_attempt_that_failed_is_still_told(bench: Bench) -> None:
    """The second attempt finds all right."""

    async def scenario() -> None:
        bench.machine.settings["conf"] = "right"
        engine = await running(
            bench,
            state("conf", "zsetting.stepwise", meta={"retry": {"attempts": 3, "interval": 1}}),
            state("svc", watch=["conf"]),
        )
        bench.machine.broken["conf"] = Temporary("half done")
        bench.machine.drift("conf")
        await bench.until(ended("drift"))

        assert bench.machine.log.count("refresh svc") == 1
        await engine.stop()

    simulate(scenario)


def test_onchanges_of_something_that_changed_and_failed_runs_when_it_recovers(bench: Bench) -> None:
    """A failure delivers no change; the change waits."""

    async def scenario() -> None:
        bench.machine.settings["conf"] = "right"
        engine = await running(
            bench, state("conf", "zsetting.stepwise"), state("hook", "zaction.run", onchanges=["conf"])
        )
        bench.machine.broken["conf"] = Temporary("half done", delay=5)
        bench.machine.drift("conf")
        await bench.until(ended("drift"))
        assert "run hook" not in bench.machine.log
        await bench.until(ended("retry"))

        assert bench.machine.log.count("run hook") == 1
        await engine.stop()

    simulate(scenario)


def test_the_target_of_a_prereq_that_failed_is_put_right_when_that_recovers(bench: Bench) -> None:
    """And until then the host is not converged."""

    async def scenario() -> None:
        bench.machine.broken["before"] = Temporary("not now", delay=5)
        engine = await running(bench, state("before", "zaction.run", prereq=["a"]), state("a"))
        assert not engine.converged
        assert bench.machine.settings == {}
        bench.machine.broken.clear()
        await asyncio.sleep(100)

        assert bench.machine.settings == {"a": "right"}
        assert engine.converged
        await engine.stop()

    simulate(scenario)


def test_a_drift_while_its_prereq_runs_has_the_prereq_run_again(bench: Bench) -> None:
    """Before the repair."""

    async def scenario() -> None:
        bench.machine.settings["a"] = "right"
        engine = await running(bench, state("before", prereq=["a"]), state("a"), workers=2)
        bench.machine.settings.pop("before", None)
        bench.machine.drift("a")
        bench.machine.gates["before"] = asyncio.Event()
        await turns(lambda: "check before" in bench.machine.log)
        bench.machine.touch("a")
        await asyncio.sleep(1)
        bench.machine.gates.pop("before").set()
        await engine.settle()

        assert bench.machine.settings["a"] == "right"
        assert bench.machine.log.index("apply before") < bench.machine.log.index("apply a")
        await engine.stop()

    simulate(scenario)


@pytest.mark.parametrize(
    "error",
    [OSError(28, "No space left on device"), sqlite3.OperationalError("database is locked"), RuntimeError("no thread")],
)
def test_an_error_of_the_journal_is_an_obstacle_until_it_can_be_written(
    machine: Machine, tmp_path: Path, error: Exception
) -> None:
    """Never a silent success, and no failure."""
    bench = DurableBench(machine, tmp_path / "journal")

    async def scenario() -> None:
        engine = await running(bench, state("conf"), state("svc", watch=["conf"]))
        bench.disk.error = error
        bench.machine.drift("conf")
        notice = await bench.until(lambda event: isinstance(event, Notice) and event.code == "held-off")
        assert notice.text == f"left alone for now: the journal cannot be written ({error})"
        assert not engine.converged
        bench.disk.error = None
        await asyncio.sleep(100)

        assert bench.machine.settings["conf"] == "right"
        assert engine.converged
        await engine.stop()

    simulate(scenario)


def test_a_rerun_goes_on_after_a_failure_and_after_a_restart(machine: Machine, tmp_path: Path) -> None:
    """`rerun: SECONDS` is a period, whatever happens in between."""
    bench = Bench(machine, tmp_path / "j")

    async def scenario() -> None:
        engine = await running(bench, state("hook", "zaction.run", meta={"rerun": 100.0}))
        machine.broken["hook"] = Permanent("once")
        await asyncio.sleep(110)
        machine.broken.clear()
        await asyncio.sleep(300)
        assert machine.log.count("run hook") >= 3
        await engine.stop()
        engine = await running(bench, state("hook", "zaction.run", meta={"rerun": 100.0}))
        await asyncio.sleep(550)
        assert 5 <= machine.log.count("run hook") <= 6
        await engine.stop()

    simulate(scenario)


def test_a_triggered_action_that_fails_for_now_is_really_retried(bench: Bench) -> None:
    """Not taken for done already."""

    async def scenario() -> None:
        engine = await running(bench, state("hook", "zaction.run"))
        bench.machine.broken["hook"] = Temporary("busy", delay=5)
        engine.trigger("zaction.run[hook]")
        await engine.settle()
        bench.machine.broken.clear()
        await bench.until(ended("retry"))

        assert bench.machine.log == ["run hook", "run hook"]
        await engine.stop()

    simulate(scenario)


def test_a_listener_that_failed_is_retried_and_shown(bench: Bench) -> None:
    """Its refresh is pending until it works."""

    async def scenario() -> None:
        engine = await running(bench, state("conf"), state("svc", listen=["conf"]))
        bench.machine.broken["refresh svc"] = Temporary("busy", delay=5)
        bench.machine.drift("conf")
        await bench.until(ended("drift"))
        assert (engine.status()[1]["pending_refresh"], engine.status()[1]["failed"]) == (True, True)
        bench.machine.broken.clear()
        await asyncio.sleep(100)

        assert (engine.status()[1]["pending_refresh"], engine.status()[1]["failed"]) == (False, False)
        assert bench.machine.log.count("refresh svc") == 2
        await engine.stop()

    simulate(scenario)


def test_a_listener_waits_while_paused_and_may_finish_when_stopping(bench: Bench) -> None:
    """It is a run like any other."""

    async def scenario() -> None:
        engine = await running(bench, state("conf"), state("svc", listen=["conf"]))
        gate = bench.machine.gates["conf"] = asyncio.Event()
        bench.machine.drift("conf")
        await turns(lambda: "check conf" in bench.machine.log)
        engine.pause()
        del bench.machine.gates["conf"]
        gate.set()
        await asyncio.sleep(10)
        assert "refresh svc" not in bench.machine.log
        engine.resume()
        await engine.settle()

        assert bench.machine.log.count("refresh svc") == 1
        await engine.stop()

    simulate(scenario)


def test_a_failed_watch_counts_as_a_failure_for_onfail(bench: Bench) -> None:
    """Its handlers run."""

    async def scenario() -> None:
        bench.machine.unwatchable.add("a")
        engine = bench.engine()
        await engine.swap(compilation(state("a"), state("handler", "zaction.run", onfail=["a"])), "start")
        await engine.settle()

        assert bench.machine.log == ["run handler"]
        await engine.stop()

    simulate(scenario)


def test_stopping_while_paused_repairs_nothing(bench: Bench) -> None:
    """A retry that waits for the resume is ended."""

    async def scenario() -> None:
        engine = bench.engine()
        bench.machine.broken["a"] = Temporary("busy")
        await engine.swap(compilation(state("a", meta={"retry": {"attempts": 5, "interval": 10}})), "start")
        await bench.until(lambda _: bool(bench.notices("attempt-failed")))
        engine.pause()
        await asyncio.sleep(60)
        bench.machine.broken.clear()
        bench.forget()
        await engine.stop()

        assert bench.machine.log == []

    simulate(scenario)


def test_a_swap_waits_for_nobody_but_successors(bench: Bench) -> None:
    """What is new and unrelated starts at once, though something that leaves still runs."""

    async def scenario() -> None:
        gate = bench.machine.gates["slow"] = asyncio.Event()
        engine = bench.engine(stop_timeout=50, workers=3)
        await engine.swap(compilation(state("slow")), "start")
        await turns(lambda: "check slow" in bench.machine.log)
        await engine.swap(compilation(state("a"), state("slow", value="new")))
        await bench.until(lambda e: isinstance(e, Ran) and e.outcome.identity == "zsetting.present[a]")
        assert asyncio.get_running_loop().time() == 0
        gate.set()
        await engine.settle()

        assert bench.machine.settings == {"slow": "new", "a": "right"}
        await engine.stop()

    simulate(scenario)


def test_new_states_and_an_end_of_noop_in_one_swap_never_apply_the_old_ones(bench: Bench) -> None:
    """Settings take effect with the graph."""

    async def scenario() -> None:
        engine = await running(bench, state("a", value="old"), noop=True)
        await engine.swap(
            compilation(state("a", value="new")), options=engine.options.model_copy(update={"noop": False})
        )
        await engine.settle()

        assert bench.machine.settings == {"a": "new"}
        assert bench.machine.log.count("apply a") == 1
        await engine.stop()

    simulate(scenario)


def test_what_a_command_creates_is_watched(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """`creates` names a path: when it is gone the command is due again."""
    gone = asyncio.Event()

    async def watch_path(self: object, *paths: str) -> Watch:
        assert paths == ("/no/such/path",)
        yield None
        await gone.wait()
        yield None
        await asyncio.Event().wait()

    monkeypatch.setattr(engine_bench.FakeContext, "watch_path", watch_path, raising=False)

    async def scenario() -> None:
        engine = await running(bench, state("hook", "zaction.run", meta={"creates": "/no/such/path"}))
        gone.set()
        await bench.until(ended("drift"))

        assert bench.machine.log == ["run hook"]
        await engine.stop()

    simulate(scenario)


@pytest.mark.parametrize("moments", range(6))
def test_haste_at_any_moment_of_a_stop_is_heard(bench: Bench, machine: Machine, moments: int) -> None:
    """Before it, while watches end, and while what runs is waited for."""

    @in_virtual_time
    async def scenario() -> None:
        engine = bench.engine()
        machine.hold("a")
        await engine.swap(compilation(state("a")))
        await asyncio.sleep(1)
        began = asyncio.get_running_loop().time()
        stopping = asyncio.create_task(engine.stop(60))
        for _ in range(moments):
            await asyncio.sleep(0)

        engine.hurry()
        await stopping

        assert asyncio.get_running_loop().time() - began < 1

    scenario()

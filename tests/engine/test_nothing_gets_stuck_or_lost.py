"""Where events, refreshes and workers could be lost: each case here once was."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any, ClassVar

import pytest

from engine_bench import Bench, compilation, ended, state
from fake_machine import FakeContext, Machine, Setting
from holdfast import Context, Permanent, Refreshable, Resource, Temporary, Watch
from holdfast.agent.engine.engine import Engine
from holdfast.agent.engine.model.events import Notice, Ran
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


async def running(bench: Bench, *states: tuple, **options: Any) -> Engine:
    """An engine that has converged on these states."""
    engine = bench.engine(**options)
    await engine.swap(compilation(*states), "start")
    await engine.settle()
    bench.forget()
    return engine


async def test_a_refresh_that_comes_while_a_rate_limit_holds_is_run_when_it_ends(bench: Bench) -> None:
    """Dirty and held, it is offered again when its time has come."""
    async with bench.running(state("up"), state("down", watch=["up"]), limit=0.01, burst=1, workers=2) as engine:
        bench.forget()
        bench.machine.touch("down")
        await bench.elapse(1)
        bench.machine.touch("down")
        await bench.elapse(1)
        bench.machine.drift("up")
        await bench.elapse(1000)

        assert "refresh down" in bench.machine.log
        assert not [row for row in engine.status() if row["dirty"]]


async def test_a_trigger_does_not_wait_for_a_rate_limit(bench: Bench) -> None:
    """An operator's word counts."""
    async with bench.running(state("a"), limit=0.0001, burst=1) as engine:
        bench.forget()
        bench.machine.touch("a")
        await bench.elapse(1)
        bench.machine.drift("a")
        await bench.elapse(1)
        engine.trigger("zsetting.present[a]")
        await bench.elapse(1)

        assert bench.machine.settings == {"a": "right"}


async def test_a_watch_that_dies_at_once_takes_no_worker_with_it(bench: Bench) -> None:
    """Its run is cancelled before its first step; the only worker is free again."""
    async with bench.starting(state("dies", "zsetting.shortlived"), state("a"), workers=1):
        await bench.elapse(500)

        assert bench.machine.settings == {"a": "right"}


async def test_a_watch_that_is_never_armed_fails_and_lets_the_others_go_on(bench: Bench) -> None:
    """After a minute."""
    async with bench.starting(state("hangs", "zsetting.neverarmed"), state("a")):
        await bench.elapse(61)

        assert bench.outcomes("hangs")[0].comment == "cannot watch: it was not armed within 60 s"
        assert bench.machine.settings == {"a": "right"}


async def test_a_change_made_by_a_run_that_is_cancelled_is_still_told(bench: Bench) -> None:
    """The watch failed in the middle of the run; the next run finds all right."""
    bench.machine.settings["conf"] = "right"
    async with bench.running(state("conf", "zsetting.stepwise"), state("svc", watch=["conf"])):
        bench.forget()
        bench.machine.gates["conf"] = asyncio.Event()
        bench.machine.drift("conf")
        await bench.turns(lambda: "changed conf" in bench.machine.log)
        bench.machine.unwatchable.add("conf")
        bench.machine.touch("conf")
        await bench.elapse(100)

        assert bench.machine.log.count("changed conf") == 1
        assert bench.machine.log.count("refresh svc") == 1


async def test_a_change_made_by_a_run_that_a_swap_cuts_short_is_still_told(bench: Bench) -> None:
    """The successor finds all right, and who watches is refreshed."""
    bench.machine.settings["conf"] = "right"
    async with bench.running(state("conf", "zsetting.stepwise"), state("svc", watch=["conf"])) as engine:
        bench.forget()
        bench.machine.gates["conf"] = asyncio.Event()
        bench.machine.drift("conf")
        await bench.turns(lambda: "changed conf" in bench.machine.log)
        await engine.swap(
            compilation(state("conf", "zsetting.stepwise", meta={"delay": 2.0}), state("svc", watch=["conf"]))
        )
        await engine.settle()

        assert bench.machine.log.count("refresh svc") == 1


async def test_a_change_made_by_an_attempt_that_failed_is_still_told(bench: Bench) -> None:
    """The second attempt finds all right."""
    bench.machine.settings["conf"] = "right"
    async with bench.running(
        state("conf", "zsetting.stepwise", meta={"retry": {"attempts": 3, "interval": 1}}), state("svc", watch=["conf"])
    ):
        bench.forget()
        bench.machine.broken["conf"] = Temporary("half done")
        bench.machine.drift("conf")
        await bench.until(ended("drift"))

        assert bench.machine.log.count("refresh svc") == 1


async def test_onchanges_of_something_that_changed_and_failed_runs_when_it_recovers(bench: Bench) -> None:
    """A failure delivers no change; the change waits."""
    bench.machine.settings["conf"] = "right"
    async with bench.running(state("conf", "zsetting.stepwise"), state("hook", "zaction.run", onchanges=["conf"])):
        bench.forget()
        bench.machine.broken["conf"] = Temporary("half done", delay=5)
        bench.machine.drift("conf")
        await bench.until(ended("drift"))
        assert "run hook" not in bench.machine.log
        await bench.until(ended("retry"))

        assert bench.machine.log.count("run hook") == 1


async def test_the_target_of_a_prereq_that_failed_is_put_right_when_that_recovers(bench: Bench) -> None:
    """And until then the host is not converged."""
    bench.machine.broken["before"] = Temporary("not now", delay=5)
    async with bench.running(state("before", "zaction.run", prereq=["a"]), state("a")) as engine:
        bench.forget()
        assert not engine.converged
        assert bench.machine.settings == {}
        bench.machine.broken.clear()
        await bench.elapse(100)

        assert bench.machine.settings == {"a": "right"}
        assert engine.converged


async def test_a_drift_while_its_prereq_runs_has_the_prereq_run_again(bench: Bench) -> None:
    """Before the repair."""
    bench.machine.settings["a"] = "right"
    async with bench.running(state("before", prereq=["a"]), state("a"), workers=2) as engine:
        bench.forget()
        bench.machine.settings.pop("before", None)
        bench.machine.drift("a")
        bench.machine.gates["before"] = asyncio.Event()
        await bench.turns(lambda: "check before" in bench.machine.log)
        bench.machine.touch("a")
        await bench.elapse(1)
        bench.machine.gates.pop("before").set()
        await engine.settle()

        assert bench.machine.settings["a"] == "right"
        assert bench.machine.log.index("apply before") < bench.machine.log.index("apply a")


@pytest.mark.parametrize(
    "error",
    [OSError(28, "No space left on device"), sqlite3.OperationalError("database is locked"), RuntimeError("no thread")],
)
async def test_an_error_of_the_journal_is_an_obstacle_until_it_can_be_written(
    machine: Machine, tmp_path: Path, error: Exception
) -> None:
    """Never a silent success, and no failure."""
    bench = DurableBench(machine, tmp_path / "journal")
    async with bench.running(state("conf"), state("svc", watch=["conf"])) as engine:
        bench.forget()
        bench.disk.error = error
        bench.machine.drift("conf")
        notice = await bench.until(lambda event: isinstance(event, Notice) and event.code == "held-off")
        assert notice.text == f"left alone for now: the journal cannot be written ({error})"
        assert not engine.converged
        bench.disk.error = None
        await bench.elapse(100)

        assert bench.machine.settings["conf"] == "right"
        assert engine.converged


async def test_a_rerun_goes_on_after_a_failure_and_after_a_restart(machine: Machine, tmp_path: Path) -> None:
    """`rerun: SECONDS` is a period, whatever happens in between."""
    bench = Bench(machine, tmp_path / "j")
    async with bench.running(state("hook", "zaction.run", meta={"rerun": 100.0})):
        bench.forget()
        machine.broken["hook"] = Permanent("once")
        await bench.elapse(110)
        machine.broken.clear()
        await bench.elapse(300)
        assert machine.log.count("run hook") >= 3
    async with bench.running(state("hook", "zaction.run", meta={"rerun": 100.0})):
        bench.forget()
        await bench.elapse(550)
        assert 5 <= machine.log.count("run hook") <= 6


async def test_a_triggered_action_that_fails_for_now_is_really_retried(bench: Bench) -> None:
    """Not taken for done already."""
    async with bench.running(state("hook", "zaction.run")) as engine:
        bench.forget()
        bench.machine.broken["hook"] = Temporary("busy", delay=5)
        engine.trigger("zaction.run[hook]")
        await engine.settle()
        bench.machine.broken.clear()
        await bench.until(ended("retry"))

        assert bench.machine.log == ["run hook", "run hook"]


async def test_a_listener_that_failed_is_retried_and_shown(bench: Bench) -> None:
    """Its refresh is pending until it works."""
    async with bench.running(state("conf"), state("svc", listen=["conf"])) as engine:
        bench.forget()
        bench.machine.broken["refresh svc"] = Temporary("busy", delay=5)
        bench.machine.drift("conf")
        await bench.until(ended("drift"))
        assert (engine.status()[1]["pending_refresh"], engine.status()[1]["failed"]) == (True, True)
        bench.machine.broken.clear()
        await bench.elapse(100)

        assert (engine.status()[1]["pending_refresh"], engine.status()[1]["failed"]) == (False, False)
        assert bench.machine.log.count("refresh svc") == 2


async def test_a_listener_waits_while_paused_and_may_finish_when_stopping(bench: Bench) -> None:
    """It is a run like any other."""
    async with bench.running(state("conf"), state("svc", listen=["conf"])) as engine:
        bench.forget()
        gate = bench.machine.gates["conf"] = asyncio.Event()
        bench.machine.drift("conf")
        await bench.turns(lambda: "check conf" in bench.machine.log)
        engine.pause()
        del bench.machine.gates["conf"]
        gate.set()
        await bench.elapse(10)
        assert "refresh svc" not in bench.machine.log
        engine.resume()
        await engine.settle()

        assert bench.machine.log.count("refresh svc") == 1


async def test_a_failed_watch_counts_as_a_failure_for_onfail(bench: Bench) -> None:
    """Its handlers run."""
    bench.machine.unwatchable.add("a")
    async with bench.running(state("a"), state("handler", "zaction.run", onfail=["a"])):
        assert bench.machine.log == ["run handler"]


async def test_stopping_while_paused_repairs_nothing(bench: Bench) -> None:
    """A retry that waits for the resume is ended."""
    bench.machine.broken["a"] = Temporary("busy")
    async with bench.starting(state("a", meta={"retry": {"attempts": 5, "interval": 10}})) as engine:
        await bench.until(lambda _: bool(bench.notices("attempt-failed")))
        engine.pause()
        await bench.elapse(60)
        bench.machine.broken.clear()
        bench.forget()

    assert bench.machine.log == []


async def test_a_swap_waits_for_nobody_but_successors(bench: Bench) -> None:
    """What is new and unrelated starts at once, though something that leaves still runs."""
    gate = bench.machine.gates["slow"] = asyncio.Event()
    async with bench.starting(state("slow"), stop_timeout=50, workers=3) as engine:
        await bench.turns(lambda: "check slow" in bench.machine.log)
        await engine.swap(compilation(state("a"), state("slow", value="new")))
        await bench.until(lambda e: isinstance(e, Ran) and e.outcome.identity == "zsetting.present[a]")
        assert asyncio.get_running_loop().time() == 0
        gate.set()
        await engine.settle()

        assert bench.machine.settings == {"slow": "new", "a": "right"}


async def test_new_states_and_an_end_of_noop_in_one_swap_never_apply_the_old_ones(bench: Bench) -> None:
    """Settings take effect with the graph."""
    async with bench.running(state("a", value="old"), noop=True) as engine:
        bench.forget()
        await engine.swap(
            compilation(state("a", value="new")), options=engine.options.model_copy(update={"noop": False})
        )
        await engine.settle()

        assert bench.machine.settings == {"a": "new"}
        assert bench.machine.log.count("apply a") == 1


async def test_what_a_command_creates_is_watched(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """`creates` names a path: when it is gone the command is due again."""
    gone = asyncio.Event()

    async def watch_path(self: object, *paths: str) -> Watch:
        assert paths == ("/no/such/path",)
        yield None
        await gone.wait()
        yield None
        await asyncio.Event().wait()

    monkeypatch.setattr(FakeContext, "watch_path", watch_path, raising=False)

    async with bench.running(state("hook", "zaction.run", meta={"creates": "/no/such/path"})):
        bench.forget()
        gone.set()
        await bench.until(ended("drift"))

        assert bench.machine.log == ["run hook"]


@pytest.mark.parametrize("moments", range(6))
async def test_haste_at_any_moment_of_a_stop_is_heard(bench: Bench, machine: Machine, moments: int) -> None:
    """Before it, while watches end, and while what runs is waited for."""
    engine = bench.engine()
    machine.hold("a")
    await engine.swap(compilation(state("a")))
    await bench.elapse(1)
    began = asyncio.get_running_loop().time()
    stopping = asyncio.create_task(engine.stop(60))
    for _ in range(moments):
        await asyncio.sleep(0)

    engine.hurry()
    await stopping

    assert asyncio.get_running_loop().time() - began < 1

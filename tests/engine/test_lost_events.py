"""Situations in which events, refreshes or workers were once lost."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import ClassVar

import pytest

from engine_bench import Bench, compilation, ended, state
from fake_machine import FakeContext, Machine, Setting
from holdfast import Context, Permanent, Refreshable, Resource, Temporary, Watch
from holdfast.agent.engine.model.events import Interrupted, Notice, Ran
from power import DurableBench


class Stepwise(Refreshable, Resource, kind="zsetting.stepwise"):
    """A setting whose run changes the machine, waits at its gate, then may fail.

    So a run can be interrupted half-way.
    """

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
        """Do nothing."""
        return True

    async def watch(self, ctx: Context) -> Watch:
        """Report each touch; fail if the test wants it."""
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
    """A setting whose watch fails as soon as it is armed."""

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Report that nothing differs."""
        await asyncio.sleep(0)
        return True

    async def watch(self, ctx: Context) -> Watch:
        """Report that the watch is armed, then fail."""
        yield None
        raise Permanent("dies at once")


class NeverArmed(Resource, kind="zsetting.neverarmed"):
    """A setting whose watch hangs before it is armed."""

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Report that nothing differs."""
        return True

    async def watch(self, ctx: Context) -> Watch:
        """Wait forever."""
        await asyncio.Event().wait()
        yield None


async def test_a_refresh_during_a_rate_limit_runs_when_the_limit_ends(bench: Bench) -> None:
    """The vertex stays dirty meanwhile."""
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
    """An operator overrides the limit."""
    async with bench.running(state("a"), limit=0.0001, burst=1) as engine:
        bench.forget()
        bench.machine.touch("a")
        await bench.elapse(1)
        bench.machine.drift("a")
        await bench.elapse(1)
        engine.trigger("zsetting.present[a]")
        await bench.elapse(1)

        assert bench.machine.settings == {"a": "right"}


async def test_a_watch_that_fails_at_once_blocks_no_worker(bench: Bench) -> None:
    """The run is cancelled before its first step, and the only worker is free again."""
    async with bench.starting(state("dies", "zsetting.shortlived"), state("a"), workers=1):
        await bench.elapse(500)

        assert bench.machine.settings == {"a": "right"}


async def test_a_watch_that_is_not_armed_within_a_minute_fails(bench: Bench) -> None:
    """The other resources continue."""
    async with bench.starting(state("hangs", "zsetting.neverarmed"), state("a")):
        await bench.elapse(61)

        assert bench.outcomes("hangs")[0].comment == "cannot watch: it was not armed within 60 s"
        assert bench.machine.settings == {"a": "right"}


async def test_changes_of_a_run_cancelled_by_its_watch_are_delivered(bench: Bench) -> None:
    """The watch failed during the run; the next run finds everything as declared."""
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
        assert interrupted(bench) == [("zsetting.stepwise[conf]", TOUCHED)]


TOUCHED = "its run was interrupted; it may have changed the resource"


def interrupted(bench: Bench) -> list[tuple[str, str]]:
    """Return what the history has of interrupted runs."""
    found = [each.outcome for each in bench.events if isinstance(each, Interrupted)]
    return [(each.identity, each.comment) for each in found]


async def test_changes_of_a_run_cancelled_by_a_swap_are_delivered(bench: Bench) -> None:
    """The successor finds everything as declared, and subscribers are refreshed."""
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
        assert interrupted(bench) == [("zsetting.stepwise[conf]", TOUCHED)]


async def test_a_run_that_is_cancelled_before_it_changes_something_is_not_in_the_history(bench: Bench) -> None:
    """The resource is as it was."""
    async with bench.running(state("conf")) as engine:
        bench.machine.hold("conf")
        bench.machine.drift("conf")
        await bench.turns(lambda: bench.machine.log.count("check conf") == 2)
        await engine.swap(compilation(state("other")))
        await engine.settle()

        assert interrupted(bench) == []


async def test_changes_of_a_failed_attempt_are_delivered(bench: Bench) -> None:
    """The second attempt finds everything as declared."""
    bench.machine.settings["conf"] = "right"
    async with bench.running(
        state("conf", "zsetting.stepwise", meta={"retry": {"attempts": 3, "interval": 1}}), state("svc", watch=["conf"])
    ):
        bench.forget()
        bench.machine.broken["conf"] = Temporary("half done")
        bench.machine.drift("conf")
        await bench.until(ended("drift"))

        assert bench.machine.log.count("refresh svc") == 1


async def test_onchanges_runs_when_a_target_that_changed_and_failed_recovers(bench: Bench) -> None:
    """A failure delivers no change; the change stays pending."""
    bench.machine.settings["conf"] = "right"
    async with bench.running(state("conf", "zsetting.stepwise"), state("hook", "zaction.run", onchanges=["conf"])):
        bench.forget()
        bench.machine.broken["conf"] = Temporary("half done", delay=5)
        bench.machine.drift("conf")
        await bench.until(ended("drift"))
        assert "run hook" not in bench.machine.log
        await bench.until(ended("retry"))

        assert bench.machine.log.count("run hook") == 1


async def test_the_target_of_a_failed_prereq_is_repaired_when_the_prereq_recovers(bench: Bench) -> None:
    """The host has not converged until the prereq recovers."""
    bench.machine.broken["before"] = Temporary("not now", delay=5)
    async with bench.running(state("before", "zaction.run", prereq=["a"]), state("a")) as engine:
        bench.forget()
        assert not engine.converged
        assert bench.machine.settings == {}
        bench.machine.broken.clear()
        await bench.elapse(100)

        assert bench.machine.settings == {"a": "right"}
        assert engine.converged


async def test_drift_of_a_target_during_its_prereq_runs_the_prereq_again(bench: Bench) -> None:
    """The prereq runs before the repair."""
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
async def test_a_journal_error_is_an_obstacle_until_the_journal_can_be_written(
    machine: Machine, tmp_path: Path, error: Exception
) -> None:
    """The error is neither an unreported success nor a failure."""
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


async def test_rerun_continues_after_a_failure_and_after_a_restart(machine: Machine, tmp_path: Path) -> None:
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


async def test_a_triggered_action_that_fails_temporarily_is_retried(bench: Bench) -> None:
    """It does not count as done."""
    async with bench.running(state("hook", "zaction.run")) as engine:
        bench.forget()
        bench.machine.broken["hook"] = Temporary("busy", delay=5)
        engine.trigger("zaction.run[hook]")
        await engine.settle()
        bench.machine.broken.clear()
        await bench.until(ended("retry"))

        assert bench.machine.log == ["run hook", "run hook"]


async def test_a_failed_listener_is_retried_and_shown(bench: Bench) -> None:
    """Its refresh is pending until it succeeds."""
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


async def test_a_listener_waits_during_a_pause_and_may_finish_during_a_stop(bench: Bench) -> None:
    """Its refresh is a run like any other."""
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
    """States with `onfail` run."""
    bench.machine.unwatchable.add("a")
    async with bench.running(state("a"), state("handler", "zaction.run", onfail=["a"])):
        assert bench.machine.log == ["run handler"]


async def test_a_stop_during_a_pause_repairs_nothing(bench: Bench) -> None:
    """A retry that waits for the resume is cancelled."""
    bench.machine.broken["a"] = Temporary("busy")
    async with bench.starting(state("a", meta={"retry": {"attempts": 5, "interval": 10}})) as engine:
        await bench.until(lambda _: bool(bench.notices("attempt-failed")))
        engine.pause()
        await bench.elapse(60)
        bench.machine.broken.clear()
        bench.forget()

    assert bench.machine.log == []


async def test_only_successors_wait_for_runs_of_a_swap(bench: Bench) -> None:
    """New and unrelated states start at once, although a removed one still runs."""
    gate = bench.machine.gates["slow"] = asyncio.Event()
    async with bench.starting(state("slow"), stop_timeout=50, workers=3) as engine:
        await bench.turns(lambda: "check slow" in bench.machine.log)
        await engine.swap(compilation(state("a"), state("slow", value="new")))
        await bench.until(lambda e: isinstance(e, Ran) and e.outcome.identity == "zsetting.present[a]")
        assert asyncio.get_running_loop().time() == 0
        gate.set()
        await engine.settle()

        assert bench.machine.settings == {"slow": "new", "a": "right"}


async def test_a_swap_that_ends_noop_applies_only_the_new_states(bench: Bench) -> None:
    """Settings take effect together with the graph."""
    async with bench.running(state("a", value="old"), noop=True) as engine:
        bench.forget()
        await engine.swap(
            compilation(state("a", value="new")), options=engine.options.model_copy(update={"noop": False})
        )
        await engine.settle()

        assert bench.machine.settings == {"a": "new"}
        assert bench.machine.log.count("apply a") == 1


async def test_paths_of_creates_are_watched(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the path is removed, the command runs again."""
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
async def test_hurry_works_at_any_moment_of_a_stop(bench: Bench, machine: Machine, moments: int) -> None:
    """The moments are before the stop, while watches end, and while the stop waits for runs."""
    engine = bench.engine()
    machine.hold("a")
    await engine.swap(compilation(state("a")))
    await bench.elapse(1)
    began = asyncio.get_running_loop().time()
    stopping = asyncio.create_task(engine.stop(60))
    for _ in range(moments):
        await asyncio.sleep(0)

    engine.cancel_leaving()
    await stopping

    assert asyncio.get_running_loop().time() - began < 1

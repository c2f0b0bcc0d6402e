"""The engine of an agent repairs drift, in order, and checks only what drifted."""

from __future__ import annotations

import asyncio
import errno
import itertools

import pytest

from engine_bench import Bench, compilation, ended, state, use
from holdfast import Permanent, Temporary
from holdfast.agent.engine.model.events import Ran


async def test_drift_is_repaired_and_nothing_else_is_checked(bench: Bench) -> None:
    """One event causes one run."""
    async with bench.running(state("a"), state("b", require=["a"]), state("c", require=["b"])):
        bench.forget()
        bench.machine.drift("b")
        await bench.until(ended("drift"))

        assert bench.machine.log == ["check b", "apply b", "check b"]
        assert bench.outcomes("b")[0].cause == "drift"


async def test_a_repair_refreshes_its_subscribers(bench: Bench) -> None:
    """The subscribers are refreshed in the same pass."""
    async with bench.running(state("conf"), state("svc", watch=["conf"])):
        bench.forget()
        bench.machine.drift("conf")
        record = (await bench.until(ended("drift"))).record

        assert bench.machine.log[-1] == "refresh svc"
        assert [o.cause for o in record.outcomes] == ["drift", "refresh"]


async def test_two_drifts_are_repaired_in_requisite_order(bench: Bench) -> None:
    """C requires b, which requires a. Although b is as declared, c waits for a."""
    async with bench.running(state("a"), state("b", require=["a"]), state("c", require=["b"]), workers=4):
        bench.forget()
        bench.machine.gates["a"] = asyncio.Event()
        bench.machine.drift("a")
        bench.machine.drift("c")
        await bench.elapse()
        assert bench.machine.log == ["check a"]
        bench.machine.gates["a"].set()
        await bench.until(ended("drift"))

        applied = [line for line in bench.machine.log if line.startswith("apply")]
        assert applied == ["apply a", "apply c"]


async def test_unrelated_drifts_are_repaired_at_once(bench: Bench) -> None:
    """Definition order does not hold after the first pass."""
    async with bench.running(state("a"), state("b"), workers=2):
        bench.forget()
        bench.machine.gates["a"] = asyncio.Event()
        bench.machine.drift("a")
        bench.machine.drift("b")
        await bench.until(lambda e: isinstance(e, Ran) and e.outcome.identity == "zsetting.present[b]")
        assert bench.outcomes("a") == []

        bench.machine.gates["a"].set()
        await bench.until(ended("drift"))


async def test_an_event_during_a_run_is_not_lost(bench: Bench) -> None:
    """The resource is dirty again at the end of the run."""
    async with bench.running(state("a")):
        bench.forget()
        gate = bench.machine.gates["a"] = asyncio.Event()
        bench.machine.drift("a")
        await bench.turns(lambda: bench.machine.log)
        del bench.machine.gates["a"]
        bench.machine.touch("a")
        await bench.elapse()
        gate.set()
        await bench.until(ended("drift"))

        assert len(bench.outcomes("a")) == 2


async def test_a_recovered_target_wakes_all_that_it_blocked(bench: Bench) -> None:
    """The blocked resources depend on it through several requisites."""
    bench.machine.broken["a"] = Permanent("no")
    async with bench.running(state("a"), state("b", require=["a"]), state("c", require=["b"])) as engine:
        bench.forget()
        del bench.machine.broken["a"]
        bench.machine.touch("a")
        await bench.until(ended("drift"))

        assert bench.machine.settings == dict.fromkeys("abc", "right")
        assert engine.converged


async def test_a_temporary_failure_is_tried_again_after_the_delay_it_asks_for(bench: Bench) -> None:
    """The retry needs no event."""
    bench.machine.broken["a"] = Temporary("busy", delay=42)
    async with bench.running(state("a")):
        bench.forget()
        del bench.machine.broken["a"]
        before = asyncio.get_running_loop().time()
        await bench.until(ended("retry"))

        assert asyncio.get_running_loop().time() - before == 42
        assert bench.machine.settings == {"a": "right"}


async def test_endless_retries_are_spaced_with_backoff_up_to_a_minute(bench: Bench) -> None:
    """With `retry: -1`, an agent ends each pass as failed and tries again later."""
    bench.machine.broken["a"] = Permanent("no")
    async with bench.running(state("a", meta={"retry": -1})):
        bench.forget()
        times = []
        for _ in range(9):
            bench.forget()
            await bench.until(ended("retry"))
            times.append(asyncio.get_running_loop().time())
        gaps = [b - a for a, b in itertools.pairwise(times)]

        assert gaps[0] < 6
        assert 40 < gaps[-1] <= 60.01


async def test_a_failed_refresh_stays_pending_and_is_retried(bench: Bench) -> None:
    """It is retried until it succeeds once, and then not repeated."""
    async with bench.running(state("conf"), state("svc", watch=["conf"])) as engine:
        bench.forget()
        bench.machine.broken["refresh svc"] = Permanent("cannot restart")
        bench.machine.drift("conf")
        await bench.until(ended("drift"))
        assert engine.status()[1]["pending_refresh"]
        bench.machine.broken.clear()
        await bench.until(ended("retry"))
        assert not engine.status()[1]["pending_refresh"]
        bench.forget()
        engine.recheck()
        await engine.settle()

        assert "refresh svc" not in bench.machine.log


async def test_drift_of_a_target_runs_its_prereq_first(bench: Bench) -> None:
    """The order is: probe, prereq, repair."""
    async with bench.running(state("before", "zaction.run", prereq=["a"]), state("a")):
        bench.forget()
        bench.machine.drift("a")
        await bench.until(ended("drift"))

        assert bench.machine.log == ["check a", "run before", "check a", "apply a", "check a"]


async def test_a_listener_waits_for_the_end_of_the_pass(bench: Bench) -> None:
    """It is refreshed once, after all other runs."""
    async with bench.running(state("svc", listen=["a", "b"]), state("a"), state("b")):
        bench.forget()
        bench.machine.drift("a")
        bench.machine.drift("b")
        await bench.until(ended("drift"))

        assert [line for line in bench.machine.log if "refresh" in line] == ["refresh svc"]
        assert bench.machine.log[-1] == "refresh svc"


async def test_an_action_runs_once_for_its_declaration_delivery_or_trigger(bench: Bench) -> None:
    """A recheck does not run it."""
    async with bench.running(state("conf"), state("hook", "zaction.run", watch=["conf"])) as engine:
        bench.forget()
        engine.recheck()
        await engine.settle()
        assert bench.machine.log == ["check conf"]
        assert bench.outcomes("hook")[-1].reason == "action"

        bench.machine.drift("conf")
        await bench.until(ended("drift"))
        engine.trigger("zaction.run[hook]")
        await engine.settle()
        await engine.swap(compilation(state("conf"), state("hook", "zaction.run", watch=["conf"], what="more")))
        await engine.settle()

        assert bench.machine.log.count("run hook") == 3


async def test_a_failed_action_runs_again_at_the_next_recheck(bench: Bench) -> None:
    """Only a success is recorded."""
    bench.machine.broken["hook"] = Permanent("no")
    async with bench.running(state("hook", "zaction.run")) as engine:
        bench.forget()
        bench.machine.broken.clear()
        engine.recheck()
        await engine.settle()

        assert bench.machine.log == ["run hook"]


async def test_rerun_gives_an_action_a_period(bench: Bench) -> None:
    """`rerun: 100` runs it every 100 seconds."""
    async with bench.running(state("hook", "zaction.run", meta={"rerun": 100.0})):
        bench.forget()
        await bench.elapse(350)

        assert bench.machine.log == ["run hook"] * 3


async def test_onfail_runs_once_for_each_new_failure(bench: Bench) -> None:
    """It does not run for each retry of the failed state."""
    async with bench.running(state("a"), state("handler", "zaction.run", onfail=["a"])) as engine:
        bench.forget()
        bench.machine.broken["a"] = Permanent("no")
        bench.machine.drift("a")
        await bench.until(ended("drift"))
        engine.recheck()
        await engine.settle()
        assert bench.machine.log.count("run handler") == 1

        bench.machine.broken.clear()
        engine.recheck()
        await engine.settle()
        bench.machine.broken["a"] = Permanent("no")
        bench.forget()
        bench.machine.drift("a")
        await bench.until(ended("drift"))
        assert bench.machine.log.count("run handler") == 1


async def test_poll_replaces_the_watch(bench: Bench) -> None:
    """The next poll finds drift that no watch reports."""
    async with bench.running(state("a", meta={"poll": 30})):
        bench.forget()
        bench.machine.settings["a"] = "drifted"
        await bench.until(lambda e: isinstance(e, Ran) and e.outcome.changed)

        assert asyncio.get_running_loop().time() == 30
        assert bench.machine.watchers == {}


async def test_a_check_that_takes_longer_than_its_poll_interval_ends(bench: Bench) -> None:
    """A poll during the check does not cause another check directly after it, or the host would never converge.

    The next poll does.
    """
    bench.machine.gates["a"] = asyncio.Event()
    async with bench.starting(state("a", meta={"poll": 2})) as engine:
        await bench.elapse(5)
        bench.machine.gates["a"].set()
        async with asyncio.timeout(0.5):
            await engine.settle()
        assert (engine.converged, len(bench.outcomes("a"))) == (True, 1)

        bench.machine.settings["a"] = "drifted"
        await bench.until(lambda e: isinstance(e, Ran) and e.outcome.cause == "poll" and e.outcome.changed)
        assert asyncio.get_running_loop().time() == 6


async def test_a_recheck_finds_what_no_watch_reported(bench: Bench) -> None:
    """The recheck comes `recheck` seconds after the last one."""
    async with bench.running(state("a"), recheck=100.0, recheck_splay=0.0):
        bench.machine.settings["a"] = "drifted"
        await bench.until(ended("recheck"))

        assert bench.machine.settings == {"a": "right"}


async def test_a_paused_engine_notices_drift_and_repairs_it_when_resumed(bench: Bench) -> None:
    """No drift is lost during the pause."""
    async with bench.running(state("a")) as engine:
        bench.forget()
        engine.pause()
        bench.machine.drift("a")
        await bench.elapse(1000)
        assert bench.machine.settings == {"a": "drifted"}
        engine.resume()
        await engine.settle()

        assert bench.machine.settings == {"a": "right"}


async def test_in_noop_the_agent_reports_drift_and_repairs_nothing(bench: Bench) -> None:
    """The host has not converged meanwhile."""
    async with bench.running(state("a"), noop=True) as engine:
        bench.forget()
        bench.machine.drift("a")
        record = (await bench.until(ended("drift"))).record

        assert [o.result for o in record.outcomes] == [None]
        assert not record.converged
        assert bench.machine.settings == {"a": "drifted"}
        await use(engine, noop=False)
        assert (await engine.settle()).converged
        assert bench.machine.settings == {"a": "right"}


@pytest.mark.parametrize(("number", "again"), [(errno.EMFILE, True), (errno.EACCES, False)])
async def test_temporary_errors_of_the_system_are_tried_again(bench: Bench, number: int, *, again: bool) -> None:
    """A kind may let an `OSError` through: a lack of descriptors ends soon, a lack of permissions does not."""
    bench.machine.broken["a"] = OSError(number, "refused")
    async with bench.running(state("a")):
        bench.forget()
        bench.machine.broken.clear()
        await bench.elapse(10)

        assert bench.machine.settings == ({"a": "right"} if again else {})


async def test_a_system_clock_that_steps_back_disturbs_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits and order use the monotonic clock; only displayed times use the system clock."""
    bench.machine.broken["a"] = Temporary("busy", delay=5)
    async with bench.running(state("a"), state("b", watch=["a"])):
        bench.forget()
        with monkeypatch.context() as world:
            world.setattr("holdfast.agent.engine.call.attempt.time.time", lambda: 0.0)
            bench.machine.broken.clear()
            await bench.until(ended("retry"))

        assert bench.machine.settings == {"a": "right", "b": "right"}
        assert bench.outcomes("a")[0].duration >= 0

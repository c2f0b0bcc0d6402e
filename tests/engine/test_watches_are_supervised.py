"""A failed watch is restarted, and a resource runs only while its watch is armed."""

from __future__ import annotations

import asyncio

import pytest

from engine_bench import Bench, compilation, state
from fake_machine import Action, Setting
from holdfast.agent.engine.inspect.explain import explain
from holdfast.agent.engine.model.events import Ran


class Watching(Action, kind="zwatchingaction.run"):
    """An action whose watch may fail."""

    watch = Setting.watch


async def test_a_triggered_run_cancelled_by_a_failing_watch_is_repeated(bench: Bench) -> None:
    """The request of the operator is not lost."""
    async with bench.running(state("a", "zwatchingaction.run")) as engine:
        bench.forget()
        bench.machine.hold("apply a")
        engine.trigger("zwatchingaction.run[a]")
        await bench.turns(lambda: bench.machine.log)
        bench.machine.unwatchable.add("a")
        bench.machine.touch("a")
        await bench.until(lambda _: bool(bench.notices("watch-failed")))
        bench.machine.unwatchable.clear()
        bench.machine.free()
        await bench.until(lambda e: isinstance(e, Ran) and e.outcome.result is True)

        assert bench.machine.log == ["run a", "run a"]


async def test_a_resource_that_cannot_be_watched_fails_until_it_can(bench: Bench) -> None:
    """It is not checked before its watch is armed."""
    bench.machine.unwatchable.add("a")
    async with bench.starting(state("a"), state("b")) as engine:
        record = await engine.settle()

        assert [(o.result, o.comment) for o in record.outcomes] == [
            (False, "cannot watch: no watch here"),
            (True, "created b"),
        ]
        assert bench.machine.log[0] == "check b"
        bench.machine.unwatchable.clear()
        await bench.until(lambda e: isinstance(e, Ran) and e.outcome.changed and "[a]" in e.outcome.identity)
        assert bench.machine.settings["a"] == "right"


async def test_a_reason_that_several_watches_share_is_told_once(bench: Bench) -> None:
    """A server that is down gives all its resources the same reason. Another reason is reported in full."""
    bench.machine.unwatchable |= {"a", "b", "c"}
    async with bench.starting(state("a"), state("b"), state("c")) as engine:
        await engine.settle()

        notices = bench.notices("watch-failed")
        first, *others = [notice.text for notice in notices[:3]]
        assert first.startswith("cannot watch: no watch here; again in ")
        said = f"cannot watch, for the same reason as {notices[0].identity}; again in "
        assert [each.startswith(said) for each in others] == [True, True]


async def test_a_failing_watch_restarts_the_run(bench: Bench) -> None:
    """The old run ends first. The restart does not count as a retry."""
    async with bench.running(state("a")):
        bench.forget()
        bench.machine.gates["a"] = asyncio.Event()
        bench.machine.drift("a")
        await bench.turns(lambda: bench.machine.log)
        bench.machine.unwatchable.add("a")
        bench.machine.touch("a")
        await bench.until(lambda _: bool(bench.notices("watch-failed")))
        assert bench.machine.now == 0
        bench.machine.unwatchable.clear()
        bench.machine.gates["a"].set()
        await bench.until(lambda e: isinstance(e, Ran) and e.outcome.changed)

        assert bench.machine.settings == {"a": "right"}


@pytest.mark.parametrize("end", ["armed again", "left"])
async def test_a_host_with_a_broken_watch_has_not_converged(bench: Bench, end: str) -> None:
    """The host converges when the watch is armed again or its resource leaves."""
    async with bench.running(state("a"), state("b")) as engine:
        assert engine.converged
        bench.machine.unwatchable.add("a")
        bench.machine.touch("a")
        await bench.until(lambda _: bool(bench.notices("watch-failed")))

        row, other = engine.status()
        why = explain(engine.view.graph.by_identity["zsetting.present[a]"], engine.view)
        assert (engine.converged, row["state"], row["comment"]) == (
            False,
            "unwatched",
            "cannot watch: no watch here any more",
        )
        assert [(wait["code"], "no watch here any more" in wait["text"]) for wait in why["waits"]] == [("watch", True)]
        assert other["state"] == "ok"
        await bench.elapse(600)
        assert not engine.converged
        bench.machine.unwatchable.clear()
        if end == "left":
            await engine.swap(compilation(state("b")))
        else:
            await bench.until(lambda _: bool(bench.notices("watched-again")))
        await engine.settle()

        assert engine.converged
        assert not engine.view.unwatched


async def test_watch_restarts_are_spaced_with_backoff(bench: Bench) -> None:
    """The restarts cause no busy loop."""
    bench.machine.unwatchable.add("a")
    async with bench.starting(state("a")):
        await bench.elapse(600)

        assert 10 < len(bench.notices("watch-failed")) < 25

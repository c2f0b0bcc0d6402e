"""All resources of a kind share one background task, from the arrival of the first to the departure of the last."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from typing import Any

from engine_bench import Bench, compilation, state
from fake_machine import Machine, Setting
from holdfast import Backed, Context, Permanent, Watch
from holdfast.agent.engine.model.events import Ran


class Wired(Backed, Setting, kind="zwired.present"):
    """A setting that is watched over a line that all settings of its kind share."""

    @classmethod
    async def background(cls, services: Any) -> AsyncIterator[str]:
        """Run the line."""
        machine = cls.machine
        machine.log.append("line up")
        try:
            await machine.gate("line")
            if "line" in machine.broken:
                raise machine.broken["line"]
            yield "the line"
            if "end" in machine.broken:
                raise machine.broken["end"]
            machine.hold("cut")
            await machine.gate("cut")
            raise Permanent("it was cut")
        finally:
            machine.log.append("line down")

    async def watch(self, ctx: Context) -> Watch:
        """Watch over the line."""
        self.machine.log.append(f"watch {self.name} over {ctx.background}")
        async for _ in super().watch(ctx):
            yield None


class Mirrored(Wired, kind="zmirrored.present"):
    """Another kind that uses the same line."""


def wired(name: str, kind: str = "zwired.present", **spec: Any) -> tuple:
    """Declare a setting on the line."""
    return state(name, kind, **spec)


def line(machine: Machine) -> list[str]:
    """Return the events of the line."""
    return [entry for entry in machine.log if entry.startswith(("line", "watch"))]


async def test_the_task_is_ready_before_the_first_watch_and_is_shared(bench: Bench, machine: Machine) -> None:
    """Kinds that inherit it share it, too."""
    async with bench.running(wired("a"), wired("b", "zmirrored.present"), state("c")) as engine:
        assert line(machine) == ["line up", "watch a over the line", "watch b over the line"]
        assert machine.settings == dict.fromkeys("abc", "right")
        machine.drift("b")
        await bench.elapse(1)
        await engine.settle()
        assert machine.settings["b"] == "right"
    assert machine.log[-1] == "line down"
    assert len(asyncio.all_tasks()) == 1


async def test_the_task_survives_swaps_and_ends_with_its_last_resource(bench: Bench, machine: Machine) -> None:
    """A replaced resource does not restart it."""
    async with bench.running(wired("a")) as engine:
        await engine.swap(compilation(wired("a", value="other"), wired("b")))
        await engine.settle()
        assert machine.log.count("line up") == 1
        assert "line down" not in machine.log

        await engine.swap(compilation(state("c")))
        await engine.settle()

        assert machine.log.count("line down") == 1


async def test_the_task_lives_until_the_last_run_of_a_removed_resource_ends(bench: Bench, machine: Machine) -> None:
    """The run may need it, and a kind that returns meanwhile uses it."""
    async with bench.starting(stop_timeout=60) as engine:
        for back in (False, True):
            machine.hold("apply a")
            await engine.swap(compilation(wired("a", value=f"{back}")))
            await bench.elapse(1)
            await engine.swap(compilation(state("c")))
            await bench.elapse(1)
            assert machine.log[-1] != "line down"
            if back:
                await engine.swap(compilation(wired("b"), state("c")))
            machine.free("apply a")
            await bench.elapse(1)
            assert (line(machine)[-1] == "line down") is not back
        await engine.settle()

        assert machine.log.count("line up") == 2
    assert machine.log.count("line down") == 2
    assert len(asyncio.all_tasks()) == 1


async def test_watches_fail_with_the_task_and_return_with_it(bench: Bench, machine: Machine) -> None:
    """Drift that happened meanwhile is found."""
    async with bench.running(wired("a"), state("b")) as engine:
        machine.hold("line")

        machine.free("cut")
        await bench.elapse(5)
        assert "it was cut" in bench.notices("background-failed")[0].text
        assert [notice.identity for notice in bench.notices("watch-failed")] == ["zwired.present[a]"]
        machine.settings["a"] = "drifted"
        machine.free("line")
        await bench.until(
            lambda event: (
                isinstance(event, Ran)
                and event.outcome.identity == "zwired.present[a]"
                and event.outcome.cause == "recovery"
            )
        )
        await engine.settle()

        assert machine.settings["a"] == "right"


async def test_a_task_that_does_not_get_ready_delays_only_its_own_kind(bench: Bench, machine: Machine) -> None:
    """It is started again with growing delays."""
    machine.broken["line"] = Permanent("no carrier")
    async with bench.starting(wired("a"), state("b")):
        await bench.until(lambda event: isinstance(event, Ran) and event.outcome.identity == "zsetting.present[b]")
        assert bench.outcomes("a")[0].comment == "cannot watch: its background task failed: no carrier"
        assert asyncio.get_running_loop().time() < 1
        machine.broken.clear()
        await bench.elapse(120)

        assert machine.settings == {"a": "right", "b": "right"}


async def test_a_task_that_fails_when_it_gets_ready_is_not_used(bench: Bench, machine: Machine) -> None:
    """No watch relies on it."""
    machine.broken["end"] = Permanent("hung up")
    async with bench.starting(wired("a")):
        await bench.until(lambda event: isinstance(event, Ran) and event.outcome.identity == "zwired.present[a]")

        assert bench.outcomes("a")[0].comment == "cannot watch: its background task failed: hung up"
        assert "watch a over the line" not in machine.log
        machine.broken.clear()
        await bench.elapse(120)
        assert machine.settings == {"a": "right"}


async def test_a_one_shot_run_reports_that_the_task_did_not_get_ready(bench: Bench, machine: Machine) -> None:
    """It waits for the task only as long as for a watch."""
    machine.broken["line"] = Permanent("no carrier")
    async with bench.starting(wired("a"), state("b"), watch=False) as engine:
        await engine.settle()

    assert bench.outcomes("a")[0].comment == "cannot watch: its background task failed: no carrier"
    assert machine.settings == {"b": "right"}


async def test_a_one_shot_run_starts_the_task_and_ends_it(bench: Bench, machine: Machine) -> None:
    """It starts no watch."""
    async with bench.starting(wired("a"), watch=False) as engine:
        await engine.settle()

    assert line(machine) == ["line up", "line down"]
    assert machine.settings == {"a": "right"}


async def test_the_error_of_a_watch_that_fails_while_it_is_cancelled_is_retrieved(
    bench: Bench, machine: Machine
) -> None:
    """The event loop logs no traceback of the error later."""
    unasked: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unasked.append(context))
    async with bench.running(wired("a")) as engine:
        machine.unwatchable.add("a")
        machine.touch("a")
        await engine.swap(compilation())
        gc.collect()

        assert unasked == []

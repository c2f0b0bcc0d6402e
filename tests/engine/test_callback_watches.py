"""Watches that report by a callback need no task, and are closed when their resource leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from engine_bench import Bench, compilation, state
from fake_machine import Machine, Setting
from holdfast import Context, Watch
from holdfast.agent.engine.model.events import Notice
from holdfast.agent.engine.watch.watches import SLICE
from holdfast.resources.author import Author
from holdfast.resources.watches import CallbackWatch

OPEN: dict[str, Callable[[], None]] = {}
"""Name -> what its watch calls, while it is armed."""
CHANGED: dict[str, tuple[float, Author]] = {}
"""Name -> when it was changed (loop time), and by whom."""
VIM = Author(7, "vim", "vim /etc/motd", 0, "root", "deploy")


class Line(CallbackWatch):
    """A watch that calls back."""

    def __init__(self, name: str, refuses: set[str]) -> None:
        self.name, self._refuses = name, refuses

    def listen(self, callback: Callable[[], None]) -> Line:
        """Arm the watch, unless the test refuses it."""
        if self.name in self._refuses:
            raise OSError(28, "no room for a watch")
        OPEN[self.name] = callback
        return self

    async def changed_by(self, since: float) -> Author | None:
        """Return the author that the test has set, if the change is not older than the run's first event."""
        changed = CHANGED.get(self.name)
        return changed[1] if changed and changed[0] >= since else None

    def close(self) -> None:
        """Remove the callback."""
        OPEN.pop(self.name, None)

    def asend(self, value: None, /) -> Any:
        """Fail: the engine must not await the events of this watch."""
        raise AssertionError("the engine awaits this watch")

    def athrow(self, *error: Any) -> Any:
        """Fail: the engine must not await the events of this watch."""
        raise AssertionError("the engine awaits this watch")


class Called(Setting, kind="zcalled.present"):
    """A setting whose watch calls back."""

    def watch(self, ctx: Context) -> Watch:
        """Return the watch of this name."""
        return Line(self.name, self.machine.unwatchable)


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """Forget all lines after each test."""
    yield
    OPEN.clear()
    CHANGED.clear()


def called(name: str, **spec: Any) -> tuple[Any, ...]:
    """Declare such a setting."""
    return state(name, "zcalled.present", **spec)


async def test_a_callback_is_an_event(bench: Bench, machine: Machine) -> None:
    """Drift is repaired, simultaneous callbacks cause one check, and no task is left once the watch is armed."""
    async with bench.running(called("a"), called("b")):
        await asyncio.sleep(0)
        assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("watch ")]
        bench.forget()
        machine.settings["a"] = "drifted"
        for _ in range(5):
            OPEN["a"]()
        await bench.elapse(1)

        assert machine.settings["a"] == "right"
        assert machine.log == ["check a", "apply a", "check a"]
    assert OPEN == {}


def drifts(machine: Machine, name: str, by: Author) -> None:
    """Change the setting of this name, and report the event."""
    machine.settings[name] = "drifted"
    CHANGED[name] = asyncio.get_running_loop().time(), by
    OPEN[name]()


async def test_the_repair_of_a_drift_names_the_process_that_caused_it(bench: Bench, machine: Machine) -> None:
    """A check that finds nothing to repair does not, although there was an event."""
    async with bench.running(called("a"), called("b")) as engine:
        bench.forget()
        drifts(machine, "a", VIM)
        CHANGED["b"] = CHANGED["a"]
        OPEN["b"]()
        await bench.elapse(1)

        assert [(each.repaired, each.by) for each in bench.outcomes("a")] == [(True, VIM)]
        assert [(each.repaired, each.by) for each in bench.outcomes("b")] == [(False, None)]
        assert engine.status()[0]["last_change"]["by"] == VIM.fields()
        await bench.elapse(5)
        machine.settings["a"] = "drifted again"
        OPEN["a"]()
        await bench.elapse(1)

        assert [each.by for each in bench.outcomes("a") if each.repaired] == [VIM, None]


async def test_a_resource_without_log_hides_the_arguments_of_the_process(bench: Bench, machine: Machine) -> None:
    """They may contain what the resource hides."""
    async with bench.running(called("a", meta={"no_log": True})):
        drifts(machine, "a", VIM)
        await bench.elapse(1)

        assert [each.by for each in bench.outcomes("a") if each.by] == [VIM._replace(command="vim ********")]


async def test_many_watches_are_started_in_slices(bench: Bench, machine: Machine) -> None:
    """The slices do not block the event loop. No member of a group runs until all watches are armed."""
    async with bench.starting(*(called(f"s{number:03}") for number in range(2 * SLICE + 1))) as engine:
        armed = []
        while not armed or armed[-1] < len(engine.view.graph):
            assert machine.log == []
            await asyncio.sleep(0)
            armed.append(len(OPEN))

        assert armed == [SLICE, 2 * SLICE, 2 * SLICE + 1]
        await engine.settle()
        assert len(machine.log) >= len(engine.view.graph)


async def test_a_resource_that_leaves_before_its_watch_is_started_is_not_watched(bench: Bench) -> None:
    """A second swap may come between two slices."""
    names = [f"s{number:03}" for number in range(2 * SLICE)]
    async with bench.starting(*map(called, names)) as engine:
        await asyncio.sleep(0)
        assert len(OPEN) == SLICE
        await engine.swap(compilation(called(names[-1])))
        await engine.settle()

        assert OPEN.keys() == {names[-1]}


async def test_callbacks_of_removed_resources_are_ignored(bench: Bench, machine: Machine) -> None:
    """A callback just before the removal is ignored, too."""
    async with bench.running(called("a"), called("b")) as engine:
        bench.forget()
        OPEN["b"]()
        await engine.swap(compilation(called("a")))
        await bench.elapse(1)

        assert OPEN.keys() == {"a"}
        assert machine.log == []


async def test_a_watch_that_cannot_be_armed_is_tried_again(bench: Bench, machine: Machine) -> None:
    """Its resource counts as unwatched until then."""
    machine.unwatchable.add("a")
    async with bench.starting(called("a")) as engine:
        failed = await bench.until(lambda event: isinstance(event, Notice) and event.code == "watch-failed")
        assert isinstance(failed, Notice)
        assert "no room for a watch" in failed.text
        assert [row["state"] for row in engine.status()] == ["failed"]
        machine.unwatchable.clear()
        await bench.elapse(60)

        assert OPEN.keys() == {"a"}
        assert [row["state"] for row in engine.status()] == ["ok"]

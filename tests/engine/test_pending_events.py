"""Events of watches are handled together, in order of execution, and in slices."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from engine_bench import Bench, state
from fake_machine import Machine
from holdfast.agent.engine.model.vertex import Vertex
from holdfast.agent.engine.schedule.pending_events import SLICE
from virtual_time import VirtualLoop

NAMES = [f"s{number:04}" for number in range(3 * SLICE)]


async def test_simultaneous_events_are_handled_in_order_of_execution(bench: Bench, machine: Machine) -> None:
    """A directory comes before the files in it, whatever the order of the events."""
    async with bench.running(*map(state, NAMES), workers=1):
        bench.forget()
        for name in reversed(NAMES):
            machine.drift(name)
        await bench.elapse(1)

        assert [line for line in machine.log if line.startswith("apply ")] == [f"apply {name}" for name in NAMES]


async def test_a_flood_of_events_is_handled_in_slices(
    bench: Bench, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No callback marks more than a slice, and all drift is repaired."""
    loop, marked = asyncio.get_running_loop(), [0]
    assert isinstance(loop, VirtualLoop)
    async with bench.running(*map(state, NAMES)) as engine:

        def take_up(vertex: Vertex) -> None:
            marked[-1] += 1
            watch_event(vertex)

        events = engine._parts.events
        watch_event = events.watch_event
        monkeypatch.setattr(events, "watch_event", take_up)
        for name in NAMES:
            machine.drift(name)
        loop.after_step = lambda: marked.append(0)
        await bench.elapse(1)

        assert (sum(marked), max(marked)) == (len(NAMES), SLICE)
        assert set(machine.settings.values()) == {"right"}


@pytest.mark.parametrize("part", ["news", "rounds"])
async def test_an_exception_for_one_vertex_does_not_stop_the_others(
    bench: Bench, machine: Machine, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """Later events are handled, a recheck ends, and the bug is reported."""
    errors: list[BaseException] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context["exception"]))
    async with bench.running(*map(state, NAMES)) as engine:
        marker, rounds = engine._parts.marker, engine._parts.rechecks._rounds
        mark = marker.mark

        def fail(vertex: Vertex, *more: Any) -> None:
            if vertex.identity == "zsetting.present[s0120]":
                raise ZeroDivisionError
            mark(vertex, *more)

        monkeypatch.setattr(marker, "mark", fail)
        monkeypatch.setattr(rounds, "_visit", fail)
        for name in NAMES:
            machine.settings[name] = "drifted"
            if part == "news":
                machine.touch(name)
        if part == "rounds":
            engine.recheck()
        await bench.elapse(1)

        assert [type(error) for error in errors] == [ZeroDivisionError]
        assert [name for name in NAMES if machine.settings[name] == "drifted"] == ["s0120"]
        assert not rounds.under_way

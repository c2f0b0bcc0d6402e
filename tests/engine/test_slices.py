"""Long work of the event loop is done in slices: other callbacks run in between."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from engine_bench import Bench, Machine, state
from holdfast.agent import slices
from holdfast.agent.slices import Steps, sliced


def steps(done: list[Any]) -> Steps[str]:
    """Work of three steps."""
    for step in range(3):
        done.append(step)
        yield
    return "done"


@pytest.mark.parametrize(("slice_", "order"), [(10.0, [0, 1, 2, "other"]), (-1.0, [0, "other", 1, 2])])
async def test_other_callbacks_run_after_a_slice(
    monkeypatch: pytest.MonkeyPatch, slice_: float, order: list[Any]
) -> None:
    """Work of less than a slice is done at once."""
    monkeypatch.setattr(slices, "SLICE", slice_)
    done: list[Any] = []
    asyncio.get_running_loop().call_soon(done.append, "other")

    assert await sliced(steps(done)) == "done"
    await asyncio.sleep(0)
    assert done == order


async def test_nothing_starts_while_the_scheduler_is_held(bench: Bench, machine: Machine) -> None:
    """A swap holds it while it marks the vertices; a drift that is noticed meanwhile is repaired after that."""
    async with bench.running(state("a")) as engine:
        scheduler = engine._parts.scheduler
        with scheduler.held():
            machine.drift("a")
            await asyncio.sleep(1)
            assert machine.settings["a"] != "right"
        scheduler.pump()
        await engine.settle()
        assert machine.settings["a"] == "right"

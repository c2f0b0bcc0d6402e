"""The cost of views depends on what they show, not on the number of resources."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from effort import effort
from engine_bench import state
from fake_machine import Machine
from holdfast import Permanent
from holdfast.agent.engine.engine import Engine
from holdfast.agent.engine.inspect.status import rows
from holdfast.agent.insight.frames import ROWS
from watched_bench import Watched

FEW, MANY = 2 * ROWS, 20 * ROWS


@asynccontextmanager
async def pair(machine: Machine) -> AsyncIterator[tuple[tuple[Watched, Engine], tuple[Watched, Engine]]]:
    """Yield two engines that have converged, with few and with many resources; stop them at the end."""
    small, large = Watched(machine), Watched(machine)
    async with (
        small.running(*(state(f"s{number} of {FEW}") for number in range(FEW))) as few,
        large.running(*(state(f"s{number} of {MANY}") for number in range(MANY))) as many,
    ):
        yield (small, few), (large, many)


async def test_metrics_frames_and_short_status_cost_the_same_in_a_large_graph(bench: Watched) -> None:
    """With ten times as many resources, all as declared, they take less than twice the time.

    The test takes seconds, because thousands of resources converge first.
    """
    async with pair(bench.machine) as ((small, few), (large, many)):

        def scrapes(bench: Watched, engine: Engine) -> None:
            for _ in range(30):
                bench.insight.text(engine.view)
                bench.insight.frame(engine.view)
                list(rows(lambda: engine.view, ROWS))

        assert effort(lambda: scrapes(large, many), 2, than=lambda: scrapes(small, few)) < 2


async def test_a_frame_costs_the_same_while_everything_is_dirty(bench: Watched) -> None:
    """The engine is paused during a recheck: thousands of resources wait, and the frame shows as many as it can."""
    async with pair(bench.machine) as ((small, few), (large, many)):
        for engine in (few, many):
            engine.pause()
            engine.recheck()
        while len(many.view.scheduler.unsettled) < MANY:
            await asyncio.sleep(0)

        def frames(bench: Watched, engine: Engine) -> None:
            for _ in range(30):
                bench.insight.frame(engine.view)

        assert large.insight.frame(many.view)["counts"]["waiting"] == MANY
        assert effort(lambda: frames(large, many), 2, than=lambda: frames(small, few)) < 2


async def test_a_short_status_shows_the_most_urgent_resources(bench: Watched) -> None:
    """Failed resources come before waiting ones, in order of execution; all of them if they are few."""
    for name in ("s7 of 20", "s3 of 20"):
        bench.machine.broken[name] = Permanent("no")
    async with bench.running(*(state(f"s{number} of 20") for number in range(20))) as engine:
        engine.pause()
        engine.recheck()

        assert [row["id"] for row in rows(lambda: engine.view, 3)] == ["s0 of 20", "s3 of 20", "s7 of 20"]
        assert len(list(rows(lambda: engine.view, 20))) == 20

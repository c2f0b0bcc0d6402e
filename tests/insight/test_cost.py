"""What it costs to look: it follows what is shown, not how many resources there are."""

from __future__ import annotations

import asyncio

from effort import effort
from engine_bench import Machine, in_virtual_time, state
from holdfast.agent.engine.engine import Engine
from holdfast.agent.insight.frames import ROWS
from watched_bench import Watched

FEW, MANY = 2 * ROWS, 20 * ROWS


async def pair(machine: Machine) -> tuple[tuple[Watched, Engine], tuple[Watched, Engine]]:
    """Two engines that have converged, on few and on many resources."""
    found = []
    for size in (FEW, MANY):
        bench = Watched(machine)
        found.append((bench, await bench.converged(*(state(f"s{number} of {size}") for number in range(size)))))
    return found[0], found[1]


@in_virtual_time
async def test_a_scrape_and_a_frame_cost_the_same_in_a_large_graph(bench: Watched) -> None:
    """Ten times as many resources, all of them right: less than twice the time. It takes seconds: thousands of resources converge first."""
    (small, few), (large, many) = await pair(bench.machine)

    def scrapes(bench: Watched, engine: Engine) -> None:
        for _ in range(30):
            bench.insight.text(engine.view)
            bench.insight.frame(engine.view)

    assert effort(lambda: scrapes(large, many), 2, than=lambda: scrapes(small, few)) < 2
    await few.stop()
    await many.stop()


@in_virtual_time
async def test_a_frame_costs_the_same_while_everything_is_to_be_looked_at(bench: Watched) -> None:
    """Paused in the middle of a recheck: thousands wait, and the frame shows as many as it can."""
    (small, few), (large, many) = await pair(bench.machine)
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
    await few.stop()
    await many.stop()

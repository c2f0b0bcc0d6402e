"""A stop ends the engine in time, whatever runs or waits, and leaves nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from engine_bench import compilation, state
from fake_machine import Machine, Setting
from holdfast import Backed
from holdfast.agent.engine.engine import Engine
from power import DurableBench


class Online(Backed, Setting, kind="zonline.present"):
    """A setting with a background task."""

    @classmethod
    async def background(cls, services: Any) -> AsyncIterator[None]:
        """Wait until the machine lets the task get ready."""
        await cls.machine.gate("line")
        yield None
        await asyncio.Event().wait()


STATES = (
    state("p", prereq=["a"]),
    state("a", "zborrowed.present", meta={"reverse": True, "retry": -1}),
    state("w", "zonline.present"),
    state("l", listen=["a"]),
    state("r", watch=["a"]),
    state("g", "zbundled.present", meta={"sema": ["disk:2"]}),
    state("h", "zbundled.present", meta={"sema": ["disk:2"]}),
    state("s", meta={"sema": ["net"]}),
    state("t", meta={"sema": ["net"]}),
)
LINES = [
    "watch a",
    "watch w",
    "line",
    "p",
    "apply p",
    "a",
    "inverse a",
    "apply a",
    "g",
    "together",
    "refresh r",
    "s",
    "refresh l",
]
MOMENTS = ["nothing", "the disk", *LINES]
TIMEOUT = 4


async def plainly(engine: Engine) -> None:
    """Stop with the timeout of the settings."""
    await engine.stop()


async def in_a_hurry(engine: Engine) -> None:
    """Stop without waiting."""
    stopping = asyncio.create_task(engine.stop())
    await asyncio.sleep(0)
    engine.cancel_leaving()
    await stopping


async def when_paused(engine: Engine) -> None:
    """Stop while an operator has paused the engine."""
    engine.pause()
    await engine.stop()


async def after_a_swap(engine: Engine) -> None:
    """Stop after a swap has removed and added states."""
    await engine.swap(compilation(state("a"), state("z")))
    await engine.stop()


async def in_a_swap(engine: Engine) -> None:
    """Stop during a swap, which ends early."""
    swapping = asyncio.create_task(engine.swap(compilation()))
    await asyncio.sleep(0)
    swapping.cancel()
    await engine.stop()


@pytest.mark.parametrize(
    "how", [plainly, in_a_hurry, when_paused, after_a_swap, in_a_swap], ids=lambda how: how.__name__
)
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("seconds", [0, 1])
async def test_a_stop_ends_in_time_and_leaves_nothing(
    machine: Machine, tmp_path: Path, moment: str, how: Any, seconds: float
) -> None:
    """Each resource waits at another point of its run."""
    bench = DurableBench(machine, tmp_path / "journal")
    engine = bench.engine(workers=3, stop_timeout=TIMEOUT)
    if moment == "the disk":
        bench.disk.slow = asyncio.Event()
    elif moment != "nothing":
        machine.hold(moment)
    await engine.swap(compilation(*STATES), "start")
    await bench.elapse(seconds)
    began = asyncio.get_running_loop().time()
    await how(engine)

    assert asyncio.get_running_loop().time() - began <= (0.1 if how is in_a_hurry else TIMEOUT + 0.1)
    bench.journal.close()
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) == 1

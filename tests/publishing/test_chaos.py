"""Connections break and hang by chance, and nothing is lost. Each life takes a second or two; CI tries more of them."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack

import pytest

from broken_line import BrokenLine
from extent import CI
from holdfast.agent.northbound.pubsub import mqtt, mqtt_session
from holdfast.agent.publishing import publisher, session
from publishing_bench import begun, change, publishing

LIVES = range(30 if CI else 3)
STEPS = 40


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Notice and try again soon, so that a life has many faults."""
    for module, name, value in (
        (mqtt, "RETRIES", (0.02,)), (mqtt, "LOSSES", 1_000_000), (mqtt_session, "ACKNOWLEDGED", 0.2),
        (mqtt_session, "ANSWER", 0.2), (session, "RETRY", 0.02), (publisher, "PAUSE", 0.02),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, value)


@pytest.mark.parametrize("life", LIVES)
async def test_nothing_is_lost_in_a_bad_life(desk, broker, prefix, heard, life):
    """Whatever was on its way when the connection broke, or the agent was restarted, arrives; in its order at first."""
    seed = life if CI else random.randrange(1000)
    print(f"seed {seed}")  # noqa: T201 - shown after a failure
    chance, written = random.Random(seed), []
    async with BrokenLine(broker.port) as line, AsyncExitStack() as publishings:

        async def restart() -> None:
            await publishings.aclose()
            await publishings.enter_async_context(publishing(desk, line.port, prefix))

        await restart()
        await begun(desk)
        for _ in range(STEPS):
            match chance.choices(["write", "cut", "refuse", "hang", "restart"], [6, 2, 1, 1, 1])[0]:
                case "write":
                    written += await change(desk, chance.randrange(1, 30))
                case "cut":
                    line.cut()
                case "refuse":
                    line.up = not line.up
                    line.cut()
                case "hang":
                    (line.flows.clear if line.flows.is_set() else line.flows.set)()
                case "restart":
                    await restart()
            await asyncio.sleep(chance.uniform(0, 0.05))
        line.up = True
        line.flows.set()
        await heard.until(lambda: set(heard.ids("changes")) == set(written))
    assert list(dict.fromkeys(heard.ids("changes"))) == written
    assert len({each["id"] for each in heard.of("changes")}) == len(written)
    assert len({each["id"] for each in heard.of("gap")}) == 1

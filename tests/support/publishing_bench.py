"""An agent's publishing for the recorder of a test, with a real broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from deadline import DEADLINE
from holdfast.agent.health import HealthCondition
from holdfast.agent.publishing.mqtt_settings import MqttSettings
from holdfast.agent.publishing.publisher import ID
from holdfast.agent.publishing.publishing import Publishing
from holdfast.agent.records.models import Change, Published
from holdfast.agent.tasks import Tasks
from record_desk import Desk, outcome


def unmasked(value: Any) -> Any:
    """Return the value: there are no secrets."""
    return value


@asynccontextmanager
async def publishing(
    desk: Desk, port: int, prefix: str = "holdfast", *, redact: Callable[[Any], Any] = unmasked, **settings: Any
) -> AsyncIterator[Publishing]:
    """Publish as long as the block runs."""
    tasks = Tasks(desk.health)
    found = Publishing(desk.records, desk.health, tasks, redact)
    await found.use(MqttSettings(**{"url": f"mqtt://127.0.0.1:{port}", "prefix": prefix, **settings}), "web1")
    try:
        yield found
    finally:
        await found.stop()
        await tasks.stop()


async def change(desk: Desk, number: int = 1) -> list[str]:
    """Write changes; return their IDs, oldest first."""
    found = await desk.changes(*(outcome() for _ in range(number)))
    return [each.id for each in reversed(found[:number])]


async def conditions(desk: Desk, *codes: str) -> None:
    """Record that exactly these conditions are present."""
    desk.recorder.state.conditions([HealthCondition(code, "warning", "a text", 1.0) for code in codes])
    await desk.written()


async def position(desk: Desk) -> Published:
    """Return the position up to which records were published."""
    found = await (await desk.records.api()).get(Published, ID)
    assert found
    return found


async def begun(desk: Desk) -> None:
    """Wait until the first message is acknowledged, and this is recorded: from then on nothing is lost."""
    async with asyncio.timeout(DEADLINE):
        while await (await desk.records.api()).get(Published, ID) is None:
            await asyncio.sleep(0.01)


async def caught_up(desk: Desk) -> None:
    """Wait until all changes are acknowledged, and this is recorded."""
    last = max(row.revision for row in await desk.records.driver.scan(Change.table, limit=100_000))
    async with asyncio.timeout(DEADLINE):
        api = await desk.records.api()
        while (found := await api.get(Published, ID)) is None or found.revision < last:
            await asyncio.sleep(0.01)


def told(desk: Desk) -> dict[str, str]:
    """Return the texts of the present conditions of health, by code."""
    return {each.code: each.text for each in desk.health.conditions}

"""One database for several APIs, and what a watch of it reports, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from deadline import DEADLINE
from holdfast.agent.northbound.api import NbApi
from holdfast.agent.northbound.drivers.base import Driver
from holdfast.agent.northbound.events import Event
from holdfast.agent.northbound.store.base import DbStore


class World:
    """One database, and as many APIs on it as a test opens."""

    def __init__(self, connect: Callable[[], Driver], store: Callable[[], DbStore]) -> None:
        self.driver, self._store = connect, store
        """`driver()` returns a new connection to the database."""

    def api(self, **options: Any) -> NbApi:
        """Return an API with a cache of its own."""
        return NbApi(self.driver(), self._store(), **options)


async def caught_up(world: World, *apis: NbApi) -> None:
    """Wait until APIs have seen all that is in the database, and their subscribers, too."""
    driver = world.driver()
    await driver.open()
    revision = (await driver.read()).revision
    await driver.close()
    for each in apis:
        assert await each.shows(revision, DEADLINE)
    await settle()


@asynccontextmanager
async def watching(api: NbApi, *arguments, **options) -> AsyncIterator[list[Event]]:
    """Collect the events of a watch."""
    seen: list[Event] = []

    async def collect() -> None:
        async for event in api.watch(*arguments, **options):
            seen.append(event)  # noqa: PERF401 - the list is read meanwhile

    task = asyncio.create_task(collect())
    await asyncio.sleep(0)
    try:
        yield seen
    finally:
        task.cancel()
        await asyncio.wait([task])


async def settle() -> None:
    """Let all tasks run that can."""
    for _ in range(20):
        await asyncio.sleep(0)

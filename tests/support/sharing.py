"""Hosts that share strings by a real etcd, all in the process of a test."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from deadline import DEADLINE
from holdfast.agent.health import Health
from holdfast.agent.host.host import LocalHost
from holdfast.agent.northbound.drivers.base import TableRow
from holdfast.agent.northbound.drivers.etcd import EtcdDriver
from holdfast.agent.northbound.drivers.etcd_connection import Access
from holdfast.agent.shared.description import Description
from holdfast.agent.shared.etcd_settings import EtcdSettings
from holdfast.agent.shared.world_database import UNAVAILABLE


class SharingHost:
    """The services of one host. Use as an async context manager."""

    def __init__(self, name: str, directory: Path) -> None:
        self.name, self.health = name, Health()
        self._news = asyncio.Event()
        self.health.listen = self._changed
        directory.mkdir(exist_ok=True)
        self.local = LocalHost(
            states=directory, var_dir=directory, facts={"id": name}, durable=False, health=self.health
        )
        self.database, self.world = self.local.world_database, self.local.world

    async def __aenter__(self) -> Self:
        """Return the host, which has no connection yet."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Disconnect."""
        await self.local.__aexit__(None, None, None)

    async def share(self, *endpoints: str, told: bool = False, **settings: Any) -> Self:
        """Use the etcd at these addresses, or without addresses the database of this host.

        `told`: other hosts know this one.
        """
        scheme = "https" if "ca" in settings else "http"
        found = EtcdSettings(endpoints=tuple(f"{scheme}://{each}" for each in endpoints), **settings)
        await self.database.use(found, self.name, self._describe if told else None)
        return self

    @property
    def trouble(self) -> str:
        """The text of the health condition; empty if there is none."""
        return next((each.text for each in self.health.conditions if each.code == UNAVAILABLE), "")

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until the condition holds for the text of `trouble`."""
        async with asyncio.timeout(DEADLINE):
            while not condition():
                self._news.clear()
                await self._news.wait()

    def _describe(self) -> Description:
        return Description({"version": "1", "states": "/srv/states", "facts": {"os": "Debian"}}, self.health.conditions)

    def _changed(self) -> None:
        self._news.set()
        self.database.changed()


async def item(watch: AsyncIterator[None]) -> None:
    """Wait for the next item of a watch."""
    await asyncio.wait_for(anext(watch), DEADLINE)


async def until_string(host: SharingHost, key: str, value: str | None) -> None:
    """Wait, as a kind does, until a host sees this string."""
    async with asyncio.timeout(DEADLINE):
        async for _ in host.world.watch_string(key):
            if await host.world.string(key) == value:
                return


async def stored(endpoints: Sequence[str], prefix: str, table: str) -> dict[str, TableRow]:
    """Return the rows of a table in etcd by ID."""
    driver = EtcdDriver(Access(endpoints), prefix)
    await driver.open()
    try:
        return {row.id: row for row in (await driver.read([table])).rows}
    finally:
        await driver.close()


async def until_rows(
    endpoints: Sequence[str], prefix: str, table: str, condition: Callable[[dict[str, dict[str, Any]]], object]
) -> dict[str, dict[str, Any]]:
    """Wait until the condition holds for the records of a table in etcd (ID -> values); return them."""
    driver = EtcdDriver(Access(endpoints), prefix)
    await driver.open()
    try:
        async with asyncio.timeout(DEADLINE):
            async for _ in driver.watch((await driver.read([])).revision):
                found = {row.id: json.loads(row.data) for row in (await driver.read([table])).rows}
                if condition(found):
                    return found
    finally:
        await driver.close()
    raise AssertionError("the watch has ended")

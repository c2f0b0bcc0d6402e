"""Reads and writes the rows of a driver, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from deadline import DEADLINE
from holdfast.agent.northbound.drivers.base import DbTransaction, Driver, Put


async def put(driver: Driver, key: str, data: bytes = b"", lease: int = 0) -> int:
    """Write a row."""
    return await driver.commit(DbTransaction([Put("t", key, data, lease)]))


async def keys(driver: Driver) -> list[str]:
    """Return the IDs of all rows."""
    return sorted(row.id for row in (await driver.read()).rows)


async def until(holds: Callable[[], object]) -> None:
    """Wait for a condition that no event reports."""
    async with asyncio.timeout(DEADLINE):
        while not holds():
            await asyncio.sleep(0.01)

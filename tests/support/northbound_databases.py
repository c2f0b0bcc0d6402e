"""One database for each driver, for the suite that all of them must pass."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from holdfast.agent.northbound.drivers.base import Driver
from holdfast.agent.northbound.drivers.etcd import EtcdDriver
from holdfast.agent.northbound.drivers.etcd_connection import Access
from holdfast.agent.northbound.drivers.memory import Memory, MemoryDriver
from holdfast.agent.northbound.drivers.sqlite import SqliteDriver


class TestedDatabase(ABC):
    """An empty database, which several drivers can use as several processes do."""

    __test__ = False
    ttl = 0.1
    """Seconds for which the leases of tests last."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._drivers: list[Driver] = []

    @abstractmethod
    def _driver(self) -> Driver:
        """Return a driver that is not open."""

    async def stop(self) -> None:
        """Close all drivers, and stop the database."""
        for driver in self._drivers:
            await driver.close()

    async def driver(self) -> Driver:
        """Return an open driver."""
        driver = self._driver()
        await driver.open()
        self._drivers.append(driver)
        return driver


class MemoryDatabase(TestedDatabase):
    """In this process."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._memory = Memory()

    def _driver(self) -> Driver:
        return MemoryDriver(self._memory)


class SqliteDatabase(TestedDatabase):
    """A file, not flushed."""

    def _driver(self) -> Driver:
        return SqliteDriver(self.directory / "northbound.db", durable=False)


class EtcdDatabase(TestedDatabase):
    """The keys of one test in a cluster that tests share."""

    ttl = 1.0

    def __init__(self, directory: Path, endpoints: Sequence[str]) -> None:
        super().__init__(directory)
        self._access, self._prefix = Access(endpoints), f"/{uuid.uuid4()}/"

    def _driver(self) -> Driver:
        return EtcdDriver(self._access, self._prefix)

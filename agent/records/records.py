"""The database of records of this host, in the directory of the agent's state.

The agent writes most records as rows (`recorder`). All other access goes through `api`, which is loaded for the first
query, because its models take memory.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.agent import disk_room
from holdfast.agent.health import Health
from holdfast.agent.host.blocking import Blocking
from holdfast.agent.northbound.drivers.sqlite import SqliteDriver
from holdfast.agent.northbound.drivers.sqlite_tables import Bounds
from holdfast.agent.paths import RECORDS

if TYPE_CHECKING:
    from holdfast.agent.northbound.api import NbApi

UNWRITABLE, RENEWED = "records-unwritable", "records-renewed"
"""Codes of the health conditions for a database that cannot be written, and for one that was recreated."""
UNWATCHED = ("resource_changes",)
"""Tables that only queries read. A log of their writes for watches would take a tenth of the time of writing a
change."""
PART = 4
"""The history for watches takes at most this fraction of the database."""
TOLD = 3600.0
"""Seconds for which health reports that the database was recreated."""


class Records:
    """The records of one host. `agent`: this process is the agent, which owns the file."""

    def __init__(self, directory: Path, health: Health, *, agent: bool, durable: bool) -> None:
        self.path = directory / RECORDS
        self.most = _share(directory)
        """Most bytes that the database may have on its file system."""
        bounds = Bounds(bytes=min(Bounds().bytes, self.most // PART))
        self.driver = SqliteDriver(self.path, agent=agent, durable=durable, bounds=bounds, unwatched=UNWATCHED)
        self._health = health
        self._stack = AsyncExitStack()
        self._api: NbApi | None = None
        self._opening = asyncio.Lock()
        self.renewed: Callable[[], None] = lambda: None
        """Called after the database was recreated, which may have lost records."""
        self.waits: Callable[[], bool] = lambda: False
        """Whether the recorder has records that are not written yet."""
        self._told = ""
        """The last recreation for which `renewed` was called."""
        self.driver.listen = self._tell
        self.grown = asyncio.Event()
        """Set after each write of the recorder, until `retention` has checked the size."""

    async def open(self) -> None:
        """Open the file. Raises `Unavailable`."""
        async with self._opening:
            await self.driver.open()

    async def close(self) -> None:
        """Close the file, and end everything that reads or watches it."""
        await self._stack.aclose()
        await self.driver.close()

    async def api(self) -> NbApi:
        """Return the store of these records. Raises `Unavailable`."""
        async with self._opening:
            if self._api is None:
                loaded: NbApi = await Blocking(1)(_loaded, self.driver)
                self._api = await self._stack.enter_async_context(loaded)
            return self._api

    def tell_unwritable(self, why: str) -> None:
        """Report that the file cannot be written."""
        self._health.set(UNWRITABLE, f"{why}; repairs continue, and their history is written later")

    def tell_written(self) -> None:
        """End that report, unless there is a new reason for it."""
        if not self.driver.trouble:
            self._health.clear(UNWRITABLE)

    def _tell(self) -> None:
        """Report the problems of the file.

        While records wait, only a successful write shows that the file is writable again.
        """
        if self.driver.renewed != self._told:
            self._told = self.driver.renewed
            self.renewed()
        if self.driver.renewed:
            self._health.set(RENEWED, f"the records in {self.path}: {self.driver.renewed}", lasts=TOLD)
        if self.driver.trouble:
            self.tell_unwritable(f"cannot write the records in {self.path}: {self.driver.trouble}")
        elif not self.waits():
            self.tell_written()


def _share(directory: Path) -> int:
    try:
        return disk_room.share(directory)
    except OSError:  # opening the file says why
        return sys.maxsize


def _loaded(driver: SqliteDriver) -> NbApi:
    """Import the models, and return the store over an open database. Blocks."""
    from holdfast.agent.northbound.api import NbApi  # noqa: PLC0415 - most agents are never asked
    from holdfast.agent.northbound.store.indexed import IndexedStore  # noqa: PLC0415
    from holdfast.agent.records import models, remote_records, world_records  # noqa: F401, PLC0415 - register theirs

    return NbApi(driver, IndexedStore(), uncached=models.UNCACHED)

"""Removes the oldest records in the background: those that are too old, and more if the database is too large.

The limit of the size needs no clock: the size is checked when the agent starts, and after writes. The age depends on
the system time, which may be wrong for a while. So at most `STRETCH` seconds of history are removed in `STRETCH_TIME`
seconds of real time. A step removes few records in one short transaction, so the recorder never waits long.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import TYPE_CHECKING

from holdfast.agent.clocks import boottime
from holdfast.agent.host.blocking import Blocking
from holdfast.agent.northbound.drivers.base import DbTransaction, Delete, TableRow
from holdfast.agent.northbound.errors import NorthboundError
from holdfast.agent.records.ids import first_id_of, time_of
from holdfast.agent.records.records import Records

if TYPE_CHECKING:
    from holdfast.agent.settings import RecordSettings

TABLES = ("passes", "changes", "notes")
"""Tables whose IDs sort by time; only their records are removed."""
STEP = 200
"""Most records that are removed at once."""
PAUSE = 0.05
"""Seconds between two steps, in which others can use the database."""
REST, PERIOD = 60.0, 6 * 3600.0
"""Fewest and most seconds between two checks."""
DAY, MIB = 86_400.0, 1 << 20
STRETCH, STRETCH_TIME = DAY, 3600.0
"""A clock that is months ahead for an hour costs the oldest day of the history."""


class Retention:
    """Keeps the records of one host within the limits that `settings` returns."""

    def __init__(self, records: Records, settings: Callable[[], RecordSettings]) -> None:
        self._records, self._settings = records, settings
        self._blocking = Blocking(1)
        self._stretched = boottime()
        """When the last stretch of old records was removed. The first one is removed `STRETCH_TIME` seconds after the
        start."""

    async def run(self) -> None:
        """Check the limits at the start, after writes and periodically, until cancelled."""
        grown = self._records.grown
        while True:
            grown.clear()
            with suppress(NorthboundError):  # health says why; the next round tries again
                await self._records.open()
                await self.look()
            await asyncio.sleep(REST)
            with suppress(TimeoutError):
                async with asyncio.timeout(PERIOD):
                    await grown.wait()

    async def look(self) -> int:
        """Remove records beyond the limit of the size, and a stretch of those that are too old; return their number.

        Raises `NorthboundError`.
        """
        removed, before = 0, self._too_old()
        if boottime() - self._stretched >= STRETCH_TIME and (oldest := await self._oldest(1)):
            self._stretched = boottime()
            removed = await self._remove(min(before, first_id_of(time_of(oldest[0].id) + STRETCH)))
        return removed + await self._shrink()

    async def apply(self) -> int:
        """Remove all records beyond the limits; return their number. Raises `NorthboundError`."""
        return await self._remove(self._too_old()) + await self._shrink()

    def _too_old(self) -> str:
        """Return the ID before which records are too old."""
        return first_id_of(time.time() - self._settings().days * DAY)

    async def _remove(self, before: str) -> int:
        removed = 0
        while number := await self._step(before):
            removed += number
        return removed

    async def _shrink(self) -> int:
        """Remove the oldest records as long as the database is too large."""
        most, removed = min(self._settings().size * MIB, self._records.most), 0
        while await self._too_large(most) and (number := await self._step("")):
            removed += number
        return removed

    async def _oldest(self, number: int, before: str = "") -> list[TableRow]:
        """Return the oldest records with smaller IDs, or with any."""
        driver = self._records.driver
        found = [row for table in TABLES for row in await driver.scan(table, before=before, limit=number)]
        return sorted(found, key=attrgetter("id"))[:number]

    async def _too_large(self, most: int) -> bool:
        """Return whether the database has too many bytes, also after its log of writes was trimmed."""
        driver = self._records.driver
        if await driver.used() <= most:
            return False
        await driver.trim()
        return await driver.used() > most

    async def _step(self, before: str) -> int:
        """Remove a few of the oldest records with smaller IDs, or with any; return their number."""
        oldest = await self._oldest(STEP, before)
        if oldest:
            await self._records.driver.commit(DbTransaction(await self._blocking(_deletions, oldest)))
            await asyncio.sleep(PAUSE)
        return len(oldest)


def _deletions(rows: Sequence[TableRow]) -> list[Delete]:
    """Return the deletions of records, and of the rows that index changes by resource. Blocks."""
    found = [Delete(row.table, row.id) for row in rows]
    for row in rows:
        if row.table == "changes":
            with suppress(
                ValueError, TypeError, KeyError
            ):  # the record cannot be read; nothing needs the other row then
                found.append(Delete("resource_changes", f"{json.loads(row.data)['resource']} {row.id}"))
    return found

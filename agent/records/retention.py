"""Removes the oldest records in the background: those that are too old, and more if the database is too large.

A step removes few records in one short transaction, so the recorder never waits long. An agent that writes nothing
looks every `PERIOD` seconds.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import TYPE_CHECKING

from holdfast.agent.host.blocking import Blocking
from holdfast.agent.northbound.drivers.base import DbTransaction, Delete, TableRow
from holdfast.agent.northbound.errors import NorthboundError
from holdfast.agent.records.ids import first_id_of
from holdfast.agent.records.records import Records

if TYPE_CHECKING:
    from holdfast.agent.settings import RecordSettings

TABLES = ("passes", "changes", "notes")
"""Tables whose IDs sort by time; only their records are removed."""
STEP = 200
"""Most records that are removed at once."""
PAUSE = 0.05
"""Seconds between two steps, for others that use the database."""
REST, PERIOD = 60.0, 6 * 3600.0
"""Seconds after a write, and most seconds in all, until the records are looked at again."""
DAY, MIB = 86_400.0, 1 << 20


class Retention:
    """Keeps the records of one host within the limits that `settings` returns."""

    def __init__(self, records: Records, settings: Callable[[], RecordSettings]) -> None:
        self._records, self._settings = records, settings
        self._blocking = Blocking(1)

    async def run(self) -> None:
        """Apply the limits after writes and from time to time, until cancelled."""
        grown = self._records.grown
        while True:
            await asyncio.sleep(REST)
            grown.clear()
            with suppress(NorthboundError):  # health says why; the next round tries again
                await self.apply()
            with suppress(TimeoutError):
                async with asyncio.timeout(PERIOD):
                    await grown.wait()

    async def apply(self) -> int:
        """Remove what exceeds the limits; return the number of records. Raises `NorthboundError`."""
        settings, removed = self._settings(), 0
        oldest = first_id_of(time.time() - settings.days * DAY)
        while number := await self._step(oldest):
            removed += number
        while await self._too_large(min(settings.size * MIB, self._records.most)) and (number := await self._step("")):
            removed += number
        return removed

    async def _too_large(self, most: int) -> bool:
        """Return whether the database has too many bytes, also after its log of writes was trimmed."""
        driver = self._records.driver
        if await driver.used() <= most:
            return False
        await driver.trim()
        return await driver.used() > most

    async def _step(self, before: str) -> int:
        """Remove the oldest records with smaller IDs, or with any; return their number."""
        driver = self._records.driver
        found = [row for table in TABLES for row in await driver.scan(table, before=before, limit=STEP)]
        oldest = sorted(found, key=attrgetter("id"))[:STEP]
        if oldest:
            await driver.commit(DbTransaction(await self._blocking(_deletions, oldest)))
            await asyncio.sleep(PAUSE)
        return len(oldest)


def _deletions(rows: Sequence[TableRow]) -> list[Delete]:
    """Return the deletions of records, and of the rows by which resources find their changes. Blocks."""
    found = [Delete(row.table, row.id) for row in rows]
    for row in rows:
        if row.table == "changes":
            with suppress(ValueError, TypeError, KeyError):  # it cannot be read; nothing needs the other row then
                found.append(Delete("resource_changes", f"{json.loads(row.data)['resource']} {row.id}"))
    return found

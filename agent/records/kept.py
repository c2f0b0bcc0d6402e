"""Removes kept content to which no record refers any more: the record was never written, or is too old."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from contextlib import suppress

from holdfast.agent.host.blocking import Blocking
from holdfast.agent.host.kept import KeptFiles
from holdfast.agent.northbound.drivers.base import TableRow
from holdfast.agent.northbound.errors import NorthboundError
from holdfast.agent.records.records import Records

BEGIN, PERIOD = 600.0, 86_400.0
"""Seconds from the start of the agent to the first cleaning, and between two of them."""
SPARED = 3600.0
"""Seconds for which content stays in any case: its record may not be written yet."""
PAGE = 500
"""Records that are read at once."""
PAUSE = 0.05
"""Seconds between two pages, in which others can use the database."""


class KeptCleaner:
    """Removes files that no record needs from the directory of kept content."""

    def __init__(self, records: Records, kept: KeptFiles) -> None:
        self._records, self._kept = records, kept
        self._blocking = Blocking(1)

    async def run(self) -> None:
        """Clean periodically, until cancelled."""
        await asyncio.sleep(BEGIN)
        while True:
            with suppress(NorthboundError):  # health says why; the next round tries again
                await self.clean()
            await asyncio.sleep(PERIOD)

    async def clean(self) -> None:
        """Remove content that no record of a change refers to. Raises `NorthboundError`."""
        before = time.time() - SPARED
        if not await self._blocking(self._kept.names, before):
            return
        needed: set[str] = set()
        after = ""
        while rows := await self._records.driver.scan("changes", after=after, limit=PAGE):
            needed |= await self._blocking(_digests, rows)
            after = rows[-1].id
            await asyncio.sleep(PAUSE)
        await self._blocking(self._kept.remove_all_but, needed, before)


def _digests(rows: Sequence[TableRow]) -> set[str]:
    """Return the names of the content that these records refer to. Blocks."""
    found: set[str] = set()
    for row in rows:
        if b'"replaced"' in row.data:
            with suppress(ValueError, TypeError, AttributeError):  # the record cannot be read; `db check` names it
                found.update(each.get("sha256", "") for each in json.loads(row.data).get("replaced") or ())
    return found

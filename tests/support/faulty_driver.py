"""A database whose watch and commits fail in every way that the contract of drivers allows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from random import Random

from holdfast.agent.northbound.drivers.base import DbTransaction, Snapshot, TableRow, WatchBatch
from holdfast.agent.northbound.drivers.memory import Memory, MemoryDriver
from holdfast.agent.northbound.errors import Compacted, Unavailable


class FaultyDriver(MemoryDriver):
    """A driver of a `Memory` that is slow, repeats batches, loses its connection, and forgets history at any time.

    `calm` ends all faults.
    """

    def __init__(self, memory: Memory, random: Random) -> None:
        super().__init__(memory)
        self._random = random
        self.calm = False

    def happens(self, probability: float) -> bool:
        """Return whether a fault with this probability happens now."""
        return not self.calm and self._random.random() < probability

    async def delay(self) -> None:
        """Take some time, perhaps none."""
        if self.happens(0.5):
            await asyncio.sleep(self._random.random())

    async def read(self, tables: Sequence[str] | None = None) -> Snapshot:
        """Read, or fail."""
        await self._fail("read")
        snapshot = await super().read(tables)
        await self.delay()
        return snapshot

    async def get(self, table: str, id: str) -> TableRow | None:
        """Read, or fail."""
        await self._fail("get")
        return await super().get(table, id)

    async def commit(self, transaction: DbTransaction) -> int:
        """Write, or fail before or after the write.

        After such a failure, the caller does not know whether it was made.
        """
        await self._fail("write")
        revision = await super().commit(transaction)
        await self.delay()
        if self.happens(0.1):
            raise Unavailable("the connection was lost while the answer was awaited", unsure=True)
        return revision

    async def watch(self, after: int, tables: Sequence[str] | None = None) -> AsyncIterator[WatchBatch]:
        """Watch, with repeated and delayed batches, until the connection is lost or the history is gone."""
        await self._fail("watch")
        async for batch in super().watch(after, tables):
            await self.delay()
            if self.happens(0.1):
                raise Unavailable("the connection was lost")
            if self.happens(0.05):
                await self.compact(self.memory.revision)
                raise Compacted(after, self.memory.history.start)
            yield batch
            while self.happens(0.2):
                yield batch

    async def _fail(self, what: str) -> None:
        await self.delay()
        if self.happens(0.15):
            raise Unavailable(f"cannot {what} now")

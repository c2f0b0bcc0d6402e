"""Writes the journal's file behind the engine: in order, in batches, in a thread that ends with its batch.

What waits for the file waits for the next batch, so all who come at the same time share one flush. When a batch cannot be written,
nothing is kept for later: the next try writes everything from memory. So does a file that was removed, replaced or damaged by somebody else.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from holdfast.agent.engine.deliver.database import Database, Foreign, Statement

Blocking = Callable[..., Awaitable[object]]
"""Makes a call in a thread: `await blocking(call, *arguments)`."""

PATIENCE = 5.0
"""Seconds after which a batch that is not written counts as failed."""
RETRIES = (1.0, 2.0, 4.0, 5.0)
"""Seconds between tries while the file cannot be written; the last for ever."""
WAITS = "not changed until the journal can be written"
"""What is said of a resource whose change must be written down before it is made."""


class Unwritable(OSError):
    """The journal cannot be written; the text says why."""


class Store:
    """Writes one database. `everything` gives the statements that make its content from memory; `told` is called when `trouble` or `renewed` changes."""

    def __init__(
        self,
        database: Database,
        everything: Callable[[], list[Statement]],
        blocking: Blocking,
        told: Callable[[], None],
    ) -> None:
        self.trouble = ""
        """Why the file cannot be written now; empty while it can."""
        self.renewed = ""
        """What had happened to the file; empty but when it is told that it was made anew."""
        self._database, self._everything, self._blocking, self._told = database, everything, blocking, told
        self._queue: list[Statement] = []
        """What is to be written, in order."""
        self._whole = False
        """Everything is to be written, not only what is in the queue."""
        self._foreign = ""
        """What has happened to the file, until it is made anew."""
        self._checking = False
        self._added = self._flushed = 0
        """How many statements there were, and how many of them outlive a loss of power."""
        self._waiting: list[asyncio.Future[None]] = []
        """For the next batch."""
        self._waiting_now: list[asyncio.Future[None]] = []
        """For the batch that is being written."""
        self._work: asyncio.Task[None] | None = None
        self._writing = False
        self._again = asyncio.Event()
        """Ends the wait for the next try."""

    def add(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        """Write this soon. What is added in one step of the loop is written in one transaction."""
        self._added += 1
        if not self._whole:
            self._queue.append((statement, rows))
        self._begin()

    async def secure(self) -> None:
        """All that was added until now outlives a crash and a loss of power when this returns. Raises `Unwritable`."""
        if self.trouble:
            raise Unwritable(self.trouble)
        if self._flushed < self._added:
            written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(written)
            self._begin()
            await written

    def check(self) -> None:
        """Look soon whether the file is still what was written; while it cannot be written, try again now."""
        self._checking = True
        self._again.set()
        self._begin()

    def close(self) -> None:
        """Write what is left, and close the file. What cannot be written now is lost: the intents in the file stand for it."""
        if self._work:
            self._work.cancel()
        with suppress(sqlite3.Error, OSError, Foreign):
            if self._whole or self._writing:
                self._write_all()
            elif self._queue:
                self._database.write(self._queue, True)
        self._database.close()

    def _write_all(self) -> None:
        try:
            self._database.write(self._everything(), True)
        except Foreign:
            self._database.renew(self._everything(), True)

    def _begin(self) -> None:
        if self._work is None:
            with suppress(RuntimeError):  # without a loop `close` writes it
                self._work = asyncio.get_running_loop().create_task(self._write(), name="journal")

    def _must_last(self) -> bool:
        return bool(self._waiting_now)

    async def _write(self) -> None:
        """Write until nothing is left to be written."""
        tries = 0
        while self._queue or self._whole or self._waiting or self._checking:
            try:
                await self._write_batch()
            except Foreign as error:
                self._foreign, self._whole = str(error), True
                self._waiting = self._waiting_now + self._waiting
            except Exception as error:  # noqa: BLE001 - who waits for the file must be told, or would wait for ever
                self._fail(f"{self._foreign}; it cannot be made anew: {error}" if self._foreign else str(error))
                await self._rest(RETRIES[min(tries, len(RETRIES) - 1)])
                tries += 1
            else:
                tries = 0
        self._work = None

    async def _write_batch(self) -> None:
        number, foreign, whole = self._added, self._foreign, self._whole
        statements = self._everything() if whole else self._queue
        self._queue, self._whole, self._checking = [], False, False
        self._waiting_now, self._waiting = self._waiting, []
        flush = self._must_last()
        late = asyncio.get_running_loop().call_later(
            PATIENCE, self._fail, f"the disk has not answered for {PATIENCE:g} s"
        )
        self._writing = True
        try:
            await self._blocking(self._database.renew if foreign else self._database.write, statements, flush)
            self._writing = False
        finally:
            late.cancel()
        self._flushed = number if flush else self._flushed
        for written in self._waiting_now:
            if not written.done():
                written.set_result(None)
        if foreign:
            self._foreign, self.renewed = "", foreign
            self._told()
            self.renewed = ""
        if self.trouble and not self._whole:
            self.trouble = ""
            self._told()

    def _fail(self, why: str) -> None:
        """Who waits is told; what is owed is written from memory some day."""
        self._whole, self._queue = True, []
        for written in (*self._waiting_now, *self._waiting):
            if not written.done():
                written.set_exception(Unwritable(why))
        self._waiting = []
        if self.trouble != why:
            self.trouble = why
            self._told()

    async def _rest(self, seconds: float) -> None:
        self._again.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._again.wait()

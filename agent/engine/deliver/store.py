"""Writes the journal file in the background: in order, in batches, in a thread that ends with its batch.

All callers that wait for the file at the same time wait for the next batch, and so share one flush. If a batch cannot
be written, its statements are discarded, and the next try writes everything from memory. The same happens if another
program removed, replaced or damaged the file.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from holdfast.agent.engine.deliver.database import Database, Foreign, Statement

Blocking = Callable[..., Awaitable[object]]
"""Runs a function in a thread: `await blocking(function, *arguments)`."""

TIMEOUT = 5.0
"""Seconds after which an unfinished batch counts as failed."""
RETRIES = (1.0, 2.0, 4.0, 5.0)
"""Seconds between tries while the file cannot be written; the last value repeats."""
WAITS = "not changed until the journal can be written"
"""Comment of a resource whose change must be recorded before it is made."""


class Unwritable(OSError):
    """The journal cannot be written; the text says why."""


class Store:
    """Writes one database.

    `everything` returns the statements that write the whole content from memory. `notify` is called when `trouble` or
    `renewed` changes.
    """

    def __init__(
        self,
        database: Database,
        everything: Callable[[], list[Statement]],
        blocking: Blocking,
        notify: Callable[[], None],
    ) -> None:
        self.trouble = ""
        """Why the file cannot be written now; empty while it can."""
        self.renewed = ""
        """Why the file was recreated; set only while `notify` is called for that."""
        self._database, self._everything, self._blocking, self._notify = database, everything, blocking, notify
        self._queue: list[Statement] = []
        """Statements to be written, in order."""
        self._whole = False
        """The next batch writes everything, not only the queue."""
        self._foreign = ""
        """How another program has changed the file, until it is recreated; empty if none has."""
        self._checking = False
        self._added = self._flushed = 0
        """Number of statements added, and number of those that survive a loss of power."""
        self._waiting: list[asyncio.Future[None]] = []
        """Callers that wait for the next batch."""
        self._waiting_now: list[asyncio.Future[None]] = []
        """Callers that wait for the batch that is being written."""
        self._work: asyncio.Task[None] | None = None
        self._writing = False
        self._again = asyncio.Event()
        """Ends the wait for the next try."""

    def add(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        """Write a statement soon. All statements of one step of the event loop are written in one transaction."""
        self._added += 1
        if not self._whole:
            self._queue.append((statement, rows))
        self._begin()

    async def secure(self) -> None:
        """Return once everything added so far survives a crash and a loss of power.

        Raises `Unwritable` if the file cannot be written.
        """
        if self.trouble:
            raise Unwritable(self.trouble)
        if self._flushed < self._added:
            written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(written)
            self._begin()
            await written

    def check(self) -> None:
        """Check soon whether the file is as last written; if it could not be written, try again now."""
        self._checking = True
        self._again.set()
        self._begin()

    def close(self) -> None:
        """Write the remaining statements and close the file.

        Statements that cannot be written are lost. The intents in the file still count their changes as made.
        """
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
            with suppress(RuntimeError):  # without an event loop, `close` writes the statements
                self._work = asyncio.get_running_loop().create_task(self._write(), name="journal")

    def _must_last(self) -> bool:
        return bool(self._waiting_now)

    async def _write(self) -> None:
        """Write batches until no statement is left."""
        tries = 0
        while self._queue or self._whole or self._waiting or self._checking:
            try:
                await self._write_batch()
            except Foreign as error:
                self._foreign, self._whole = str(error), True
                self._waiting = self._waiting_now + self._waiting
            except Exception as error:  # noqa: BLE001 - callers that wait for the file would otherwise wait forever
                self._fail(f"{self._foreign}; it cannot be recreated: {error}" if self._foreign else str(error))
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
            TIMEOUT, self._fail, f"the disk has not answered for {TIMEOUT:g} s"
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
            self._notify()
            self.renewed = ""
        if self.trouble and not self._whole:
            self.trouble = ""
            self._notify()

    def _fail(self, why: str) -> None:
        """Raise `Unwritable` in all waiting callers; the next batch that succeeds writes everything from memory."""
        self._whole, self._queue = True, []
        for written in (*self._waiting_now, *self._waiting):
            if not written.done():
                written.set_exception(Unwritable(why))
        self._waiting = []
        if self.trouble != why:
            self.trouble = why
            self._notify()

    async def _rest(self, seconds: float) -> None:
        self._again.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._again.wait()

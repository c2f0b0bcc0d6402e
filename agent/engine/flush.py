"""Brings what SQLite has written to its log onto the disk, off the loop: those who ask at the same time share one fsync.

That is what SQLite would do itself after each transaction (`synchronous = full`), but in a thread and only where it matters. The thread also
moves the log into the database before SQLite would, on the loop, which takes three more.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from pathlib import Path

Blocking = Callable[..., Awaitable[object]]
"""Makes a call in a thread: `await blocking(call, *arguments)`."""


EVERY = 50
"""Intents after which the log is moved into the database: each goes with some pages of other news, and SQLite waits for a thousand."""


class Flush:
    """Flushes the log of one database, which is open and has one. Raises `OSError` when that cannot be opened."""

    def __init__(self, path: Path, blocking: Blocking) -> None:
        self._path = path
        self._file = os.open(path.with_name(f"{path.name}-wal"), os.O_RDONLY | os.O_CLOEXEC)
        self._blocking = blocking
        self._turn = asyncio.Lock()
        self._written = 0
        self._flushed = 0
        self._moved = 0

    def written(self) -> int:
        """Something was written; the number to wait for, if that must be on the disk before something else happens."""
        self._written += 1
        return self._written

    async def wait(self, number: int) -> None:
        """What was written up to this number is on the disk. Raises `OSError` when the disk fails, and whatever keeps a thread from starting."""
        if number <= self._flushed:
            return
        async with self._turn:
            if number > self._flushed:  # else the one before has taken it along
                written = self._written
                move = written >= self._moved + EVERY
                await self._blocking(self._sync, move)
                self._flushed = written
                self._moved = written if move else self._moved

    def _sync(self, move: bool) -> None:
        os.fdatasync(self._file)
        if move:
            with suppress(sqlite3.Error), closing(sqlite3.connect(self._path, timeout=0)) as db:  # SQLite does it itself some day
                db.execute("pragma wal_checkpoint(passive)")

    def close(self) -> None:
        """Nobody waits any more."""
        os.close(self._file)

"""Errors of the file of the SQLite database, and how to fix them."""

from __future__ import annotations

import sqlite3

from holdfast.agent.northbound.errors import Unavailable

BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
UNSURE = frozenset({sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC})
"""Errors of a flush: after a crash, the transaction may be in the file."""
CURES = {
    sqlite3.SQLITE_FULL: "free some space on its file system",
    sqlite3.SQLITE_READONLY: "make the file and its file system writable",
    sqlite3.SQLITE_CANTOPEN: "check its directory, the rights of its files, and that the file system is writable",
    sqlite3.SQLITE_IOERR: "check that its disk works and has room, and that its file system is writable",
    sqlite3.SQLITE_BUSY: "end the program that has locked it",
}


class Damaged(Exception):
    """The file was removed, replaced, truncated or damaged; `intact` if the open connection still has the content.

    `opened` is the number of the connection for which this holds.
    """

    def __init__(self, text: str, opened: int, *, intact: bool = False) -> None:
        super().__init__(text)
        self.opened, self.intact = opened, intact


class Busy(Unavailable):
    """Another process is writing at this moment."""


class CallFailed(Exception):
    """One call of a group has a bug, or was given a value that SQLite cannot store. Nothing was written."""

    def __init__(self, number: int, error: Exception) -> None:
        super().__init__(str(error))
        self.number, self.error = number, error

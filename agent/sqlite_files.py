"""Common functions for all SQLite files of the agent: they create files, recognise damage, and set files aside."""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

PRIMARY = 0xFF
"""The bits of an SQLite result code that contain the error; the higher bits contain details."""
DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
"""SQLite errors of a file that is permanently unreadable."""
LOG_PAGES = 200
"""Pages of the log of writes (`-wal`) after which SQLite copies them into the file: it takes less than 1 MiB."""
CACHE = 128
"""KiB of pages of a file that SQLite keeps in memory: the system has the file in its own cache, too."""
BESIDE = ("-wal", "-shm", "-journal")
"""Suffixes of all files that SQLite keeps beside a database."""


def code(error: BaseException) -> int:
    """Return the SQLite result code of an error, without details; 0 if it has none."""
    return getattr(error, "sqlite_errorcode", 0) & PRIMARY


def damaged(error: BaseException) -> bool:
    """Return whether the error means that the file is permanently unreadable."""
    return code(error) in DAMAGED


def beside(path: Path, end: str) -> Path:
    """Return the path of a file beside a database."""
    return path.with_name(path.name + end)


def status(path: Path) -> os.stat_result | None:
    """Return the status of a file, of a link itself; None if it does not exist."""
    try:
        return path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def create(path: Path) -> None:
    """Create a file with mode 0600 if there is none. SQLite uses the same mode for the files beside it."""
    with suppress(OSError):  # SQLite reports the reason when it opens the file
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def sync(directory: Path) -> None:
    """Make the names in a directory survive a loss of power."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def put_in_place(ready: Path, path: Path) -> None:
    """Rename a complete new database to its final name; the old one is set aside.

    The log of the old database is removed first: SQLite would take it for the log of the new one.
    """
    set_aside(path)
    ready.replace(path)
    sync(path.parent)


def set_aside(path: Path) -> Path:
    """Rename the file in place of a database, remove the files of SQLite beside it, and return the new name."""
    for end in BESIDE:
        clear(beside(path, end))
    info, aside = status(path), path.with_suffix(".damaged")
    if info is not None and stat.S_ISDIR(info.st_mode):
        return _rename(path)
    if info is not None:
        clear(aside)
        path.replace(aside)
    return aside


def clear(path: Path) -> None:
    """Remove a file. Rename a directory, because an administrator may have created it."""
    info = status(path)
    if info is not None and stat.S_ISDIR(info.st_mode):
        _rename(path)
    elif info is not None:
        path.unlink()


def extend_shared_memory(path: Path, known: Sequence[int] | None) -> None:
    """Extend the shared memory of a database if it was truncated. `known`: its device, inode and size, and more.

    SQLite has mapped this file, so reading a part that was cut off would kill the process.
    """
    shared = beside(path, "-shm")
    found = status(shared)
    if known and found and [found.st_dev, found.st_ino] == [*known[:2]] and found.st_size < known[2]:
        os.truncate(shared, known[2])


def _rename(path: Path) -> Path:
    return path.rename(path.with_name(f"{path.name}.{time.time_ns()}"))


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Commit the block as one transaction; after an error, roll back."""
    db.execute("begin immediate")
    try:
        yield
        db.execute("commit")
    except BaseException:
        if db.in_transaction:
            db.execute("rollback")
        raise

"""One SQLite file that only this process changes: written in transactions, recreated if something else changed it.

All methods block: `store.py` calls them in a thread. One call runs at a time.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

Statement = tuple[str, Sequence[Sequence[object]]]
"""An SQL statement and the rows with which it is executed."""

ProbeResult = tuple[tuple[int, ...] | None, ...]
"""Identifies the files of a database: device, inode, size and modification time of each of three; None if missing."""

BUSY = 1.0
"""Seconds for which a statement waits if another process has locked the file."""
TURN = 5.0
"""Seconds for which a call waits for the previous call."""
LOG_PAGES = 200
"""Pages after which SQLite moves its write-ahead log into the database."""
PRIMARY = 0xFF
"""The bits of an SQLite result code that contain the error; the higher bits contain details."""
DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
"""SQLite errors of a file that is permanently unreadable."""
FILES = ("", "-wal", "-shm")
"""Suffixes of the database, its log, and the shared memory of the log."""
BESIDE = ("-wal", "-shm", "-journal")
"""Suffixes of all files that SQLite keeps beside a database."""


class Foreign(Exception):
    """The file is not as last written: it was removed, replaced, changed or damaged."""


def damaged(error: sqlite3.Error) -> bool:
    """Return whether the error means that the file is permanently unreadable."""
    return getattr(error, "sqlite_errorcode", 0) & PRIMARY in DAMAGED


class Database:
    """An open database in a directory that only trusted users can write. Raises `sqlite3.Error`.

    `durable`: data written with `flush` survives a loss of power. The directory must exist.
    """

    def __init__(self, path: Path, schema: str, *, durable: bool) -> None:
        self._path = path
        self._files = tuple(path.with_name(path.name + end) for end in FILES)
        self._schema = schema
        self._durable = durable
        self._turn = threading.Lock()
        self._db: sqlite3.Connection | None = None
        self._seen: ProbeResult = (None, None, None)
        self._read_only = False
        """The file could only be opened for reading; the next write opens it again."""
        self._renewing = False
        """A new file is being created, or creating it failed."""
        try:
            if _stat(self._ready) is not None:
                self._put_in_place()
            self._open()
        except (sqlite3.Error, OSError) as error:
            if isinstance(error, sqlite3.Error) and damaged(error):
                raise
            self._open_to_read()

    @property
    def _ready(self) -> Path:
        """Path of a complete new database that only has to be renamed to its final name."""
        return self._path.with_name(f"{self._path.name}.new")

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=BUSY, isolation_level=None, check_same_thread=False)

    def _open(self) -> None:
        """Connect. On a file system without shared memory for a log, SQLite flushes each transaction itself."""
        _create(self._path)
        self._db = db = self._connect()
        try:
            (mode,) = db.execute("pragma journal_mode = wal").fetchone()
            self._log = bool(mode == "wal")
            db.execute(f"pragma wal_autocheckpoint = {LOG_PAGES}")
            db.execute(f"pragma synchronous = {('normal' if self._log else 'full') if self._durable else 'off'}")
            db.executescript(self._schema)
        except BaseException:
            self._disconnect()
            raise
        self._seen = self._probe()

    def _open_to_read(self) -> None:
        """Connect for reading, without the shared memory of SQLite, for which a full disk has no room.

        The first write connects again.
        """
        self._db = db = self._connect()
        try:
            db.execute("pragma locking_mode = exclusive")
            db.execute("select * from sqlite_master").fetchall()
        except BaseException:
            self._disconnect()
            raise
        self._read_only = True
        self._seen = self._probe()

    def _open_again(self) -> None:
        self._disconnect()
        try:
            self._open()
            self._read_only = False
        except sqlite3.Error:
            self._open_to_read()
            raise

    def read(self, query: str) -> list[tuple[Any, ...]]:
        """Return all rows of a query; none if its table does not exist yet."""
        try:
            return self._connection().execute(query).fetchall()
        except sqlite3.OperationalError as error:
            if str(error).startswith("no such table"):
                return []
            raise

    def write(self, statements: Sequence[Statement], flush: bool) -> None:
        """Execute all statements in one transaction; without statements, only check that the file is as last written.

        `flush`: these and all earlier writes survive a loss of power. Raises `Foreign`, `sqlite3.Error` and `OSError`.
        """
        with self._alone():
            if difference := self._difference():
                raise Foreign(difference)
            if self._read_only:
                self._open_again()
            if not statements and not flush:
                return
            db = self._connection()
            try:
                if self._durable and self._log:
                    db.execute(f"pragma synchronous = {'full' if flush else 'normal'}")
                with _transaction(db):
                    for statement, rows in statements:
                        db.executemany(statement, rows)
                    if not statements:  # SQLite flushes its log only after a write
                        db.execute("pragma user_version = 0")
            except sqlite3.Error as error:
                if damaged(error):
                    raise Foreign(f"is damaged: {error}") from error
                raise
            finally:
                self._seen = self._probe()

    def renew(self, statements: Sequence[Statement], flush: bool) -> None:  # noqa: ARG002 - as `write`
        """Create a new file with these rows; an existing file is renamed, not removed.

        If the process dies at any moment, the next process finds the old file or the new one. Raises `sqlite3.Error`
        and `OSError`.
        """
        with self._alone():
            self._renewing = True
            self._disconnect()
            draft = self._path.with_name(f"{self._path.name}.draft")
            for end in ("", *BESIDE):
                clear(draft.with_name(draft.name + end))
            _create(draft)
            db = sqlite3.connect(draft, isolation_level=None)
            try:
                db.execute(f"pragma synchronous = {'full' if self._durable else 'off'}")
                db.executescript(self._schema)
                with _transaction(db):
                    for statement, rows in statements:
                        db.executemany(statement, rows)
            finally:
                db.close()
            clear(self._ready)
            draft.replace(self._ready)
            _sync(self._path.parent)
            self._put_in_place()
            self._open()
            self._read_only = self._renewing = False

    def close(self) -> None:
        """Close the file, unless another call hangs."""
        with suppress(TimeoutError), self._alone():
            self._disconnect()

    # -- parts -------------------------------------------------------------------------------------------------

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if not self._turn.acquire(timeout=TURN):
            raise TimeoutError("the disk does not answer")
        try:
            yield
        finally:
            self._turn.release()

    def _connection(self) -> sqlite3.Connection:
        if self._db is None:
            raise Foreign("is not open")
        return self._db

    def _put_in_place(self) -> None:
        """Rename the new database to its final name.

        The log of the old database is removed first: SQLite would take it for the log of the new one.
        """
        set_aside(self._path)
        self._ready.replace(self._path)
        _sync(self._path.parent)

    def _probe(self) -> ProbeResult:
        """Return the files as they are now; without the time of the last one, which is mapped into memory."""
        found = [_stat(file) for file in self._files]
        probes = [info and (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns) for info in found]
        return (*probes[:-1], probes[-1] and probes[-1][:-1])

    def _difference(self) -> str:
        """Return how the file has changed since the last write; empty if it has not."""
        if self._renewing:
            return f"{self._path} could not be recreated"
        now = self._probe()
        if now == self._seen:
            return ""
        end, before, after = next(each for each in zip(FILES, self._seen, now, strict=True) if each[1] != each[2])
        replaced = before is None or after is None or before[:2] != after[:2]
        how = "removed" if after is None else "replaced" if replaced else "changed by another program"
        return f"{self._path}{end} was {how}"

    def _disconnect(self) -> None:
        """Close the connection.

        SQLite then reads the shared memory. A file that was truncated would kill the process, so it is extended first.
        """
        if self._db is None:
            return
        shared = self._path.with_name(f"{self._path.name}-shm")
        known, found = self._seen[-1], _stat(shared)
        if known and found and (found.st_dev, found.st_ino) == known[:2] and found.st_size < known[2]:
            os.truncate(shared, known[2])
        self._db.close()
        self._db = None


def set_aside(path: Path) -> Path:
    """Rename the file in place of a database, remove the files of SQLite beside it, and return the new name."""
    for end in BESIDE:
        clear(path.with_name(path.name + end))
    info, aside = _stat(path), path.with_suffix(".damaged")
    if info is not None and stat.S_ISDIR(info.st_mode):
        return _rename(path)
    if info is not None:
        clear(aside)
        path.replace(aside)
    return aside


def clear(path: Path) -> None:
    """Remove a file. Rename a directory, because a person may have created it."""
    info = _stat(path)
    if info is not None and stat.S_ISDIR(info.st_mode):
        _rename(path)
    elif info is not None:
        path.unlink()


def _rename(path: Path) -> Path:
    return path.rename(path.with_name(f"{path.name}.{time.time_ns()}"))


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _create(path: Path) -> None:
    """Create a file with mode 0600 if there is none. SQLite uses the same mode for the files beside it."""
    with suppress(OSError):  # SQLite reports the reason when it opens the file
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Commit the block as one transaction; after an error, roll back."""
    db.execute("begin immediate")
    try:
        yield
        db.execute("commit")
    except BaseException:
        if db.in_transaction:
            db.execute("rollback")
        raise

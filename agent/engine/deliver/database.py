"""One SQLite file that only this process changes: written in transactions, recreated if something else changed it.

All methods block: `store.py` calls them in a thread. One call runs at a time.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from holdfast.agent.sqlite_files import (
    BESIDE,
    CACHE,
    LOG_PAGES,
    clear,
    create,
    damaged,
    extend_shared_memory,
    put_in_place,
    status,
    sync,
    transaction,
)

Statement = tuple[str, Sequence[Sequence[object]]]
"""An SQL statement and the rows with which it is executed."""

ProbeResult = tuple[tuple[int, ...] | None, ...]
"""Identifies the files of a database: device, inode, size and modification time of each of three; None if missing."""

BUSY = 1.0
"""Seconds for which a statement waits if another process has locked the file."""
TURN = 5.0
"""Seconds for which a call waits for the previous call."""
FILES = ("", "-wal", "-shm")
"""Suffixes of the database, its log, and the shared memory of the log."""


class Foreign(Exception):
    """The file is not as last written: it was removed, replaced, changed or damaged."""


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
            if status(self._ready) is not None:
                put_in_place(self._ready, self._path)
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
        create(self._path)
        self._db = db = self._connect()
        try:
            (mode,) = db.execute("pragma journal_mode = wal").fetchone()
            self._log = bool(mode == "wal")
            db.execute(f"pragma wal_autocheckpoint = {LOG_PAGES}")
            db.execute(f"pragma cache_size = -{CACHE}")
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
                with transaction(db):
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
            create(draft)
            db = sqlite3.connect(draft, isolation_level=None)
            try:
                db.execute(f"pragma synchronous = {'full' if self._durable else 'off'}")
                db.executescript(self._schema)
                with transaction(db):
                    for statement, rows in statements:
                        db.executemany(statement, rows)
            finally:
                db.close()
            clear(self._ready)
            draft.replace(self._ready)
            sync(self._path.parent)
            put_in_place(self._ready, self._path)
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

    def _probe(self) -> ProbeResult:
        """Return the files as they are now; without the time of the last one, which is mapped into memory."""
        found = [status(file) for file in self._files]
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
        """Close the connection. SQLite then reads the shared memory."""
        if self._db is None:
            return
        extend_shared_memory(self._path, self._seen[-1])
        self._db.close()
        self._db = None

"""One SQLite file that nobody else changes: written in transactions, and made anew when it is no longer what was written.

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
"""What tells the files of a database from others: of each of three its device, inode, size and time, None where it is missing."""

BUSY = 1.0
"""Seconds for which a statement waits for another process that has locked the file."""
TURN = 5.0
"""Seconds for which a call waits for the one before it."""
LOG_PAGES = 200
"""Pages after which SQLite moves its write-ahead log into the database."""
PRIMARY = 0xFF
"""The bits of an SQLite result code that say what is wrong; those above say where."""
DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
"""What SQLite says of a file that will never be readable again."""
FILES = ("", "-wal", "-shm")
"""How the names of a database and of its log end."""
BESIDE = ("-wal", "-shm", "-journal")
"""What SQLite keeps beside a database."""


class Foreign(Exception):
    """The file is not what was last written: it was removed, replaced, changed or damaged."""


def damaged(error: sqlite3.Error) -> bool:
    """Whether the file can never be read again."""
    return getattr(error, "sqlite_errorcode", 0) & PRIMARY in DAMAGED


class Database:
    """An open database in a directory that only trusted users can write. Raises `sqlite3.Error`.

    `durable`: what is written with `flush` outlives a loss of power. The directory must exist.
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
        """It could not be opened to be written, and is to be opened again."""
        self._renewing = False
        """A new file is being made, or could not be."""
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
        """A new database that is complete: it only has to be put in its place."""
        return self._path.with_name(f"{self._path.name}.new")

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=BUSY, isolation_level=None, check_same_thread=False)

    def _open(self) -> None:
        """Connect. Where the file system has no shared memory for a log, SQLite flushes each transaction itself."""
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
        self._seen = self._look()

    def _open_to_read(self) -> None:
        """On a full disk there is no room for the memory that SQLite shares: connect without it, to read. The first write connects again."""
        self._db = db = self._connect()
        try:
            db.execute("pragma locking_mode = exclusive")
            db.execute("select * from sqlite_master").fetchall()
        except BaseException:
            self._disconnect()
            raise
        self._read_only = True
        self._seen = self._look()

    def _open_again(self) -> None:
        self._disconnect()
        try:
            self._open()
            self._read_only = False
        except sqlite3.Error:
            self._open_to_read()
            raise

    def read(self, query: str) -> list[tuple[Any, ...]]:
        """All rows of a query; none where its table is not there yet."""
        try:
            return self._connection().execute(query).fetchall()
        except sqlite3.OperationalError as error:
            if str(error).startswith("no such table"):
                return []
            raise

    def write(self, statements: Sequence[Statement], flush: bool) -> None:
        """Execute all of them or none; without any, only look whether the file is still there.

        `flush`: this and all that was written before outlives a loss of power. Raises `Foreign`, `sqlite3.Error` and `OSError`.
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
                    if not statements:  # SQLite flushes its log after a write only
                        db.execute("pragma user_version = 0")
            except sqlite3.Error as error:
                if damaged(error):
                    raise Foreign(f"is damaged: {error}") from error
                raise
            finally:
                self._seen = self._look()

    def renew(self, statements: Sequence[Statement], flush: bool) -> None:  # noqa: ARG002 - as `write`
        """Put a new file with these rows in the place of whatever is there now, which is kept under another name.

        Whenever the process dies, the next one finds the old file or the new one. Raises `sqlite3.Error` and `OSError`.
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
        """Let go of the file, unless another call hangs."""
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
        """Use the new database that is ready. A log of the old one would be taken for its own: that goes first."""
        set_aside(self._path)
        self._ready.replace(self._path)
        _sync(self._path.parent)

    def _look(self) -> ProbeResult:
        """The files as they are now. The last is mapped into memory, and its time says nothing."""
        found = [_stat(file) for file in self._files]
        looks = [info and (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns) for info in found]
        return (*looks[:-1], looks[-1] and looks[-1][:-1])

    def _difference(self) -> str:
        """What has happened to the file since it was last written; empty if nothing has."""
        if self._renewing:
            return f"{self._path} could not be made anew"
        now = self._look()
        if now == self._seen:
            return ""
        end, before, after = next(each for each in zip(FILES, self._seen, now, strict=True) if each[1] != each[2])
        replaced = before is None or after is None or before[:2] != after[:2]
        how = "removed" if after is None else "replaced" if replaced else "changed by another program"
        return f"{self._path}{end} was {how}"

    def _disconnect(self) -> None:
        """Close. SQLite reads the shared memory then, and one that is too short would kill the process."""
        if self._db is None:
            return
        shared = self._path.with_name(f"{self._path.name}-shm")
        known, found = self._seen[-1], _stat(shared)
        if known and found and (found.st_dev, found.st_ino) == known[:2] and found.st_size < known[2]:
            os.truncate(shared, known[2])
        self._db.close()
        self._db = None


def set_aside(path: Path) -> Path:
    """Keep whatever is in the place of a database under another name, which is returned, and remove what SQLite keeps beside it."""
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
    """Make room: a directory, which some person has put there, is kept under another name."""
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
    """Make a file that nobody else can read, if there is none. SQLite gives its mode to those beside it."""
    with suppress(OSError):  # SQLite says why it cannot open it
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    """All or nothing; an error leaves no transaction open."""
    db.execute("begin immediate")
    try:
        yield
        db.execute("commit")
    except BaseException:
        if db.in_transaction:
            db.execute("rollback")
        raise

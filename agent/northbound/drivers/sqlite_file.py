"""The file of the SQLite database: used by several processes, recreated if it is lost or damaged.

All methods block. A lock file decides which process may create or replace the file: the agent holds the lock all the
time, other processes only for that operation. If another program removes or replaces the file, its content is copied
from the open connection, so nothing is lost. If the file is damaged, it is set aside, and an empty one takes its place.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from holdfast.agent.northbound.drivers import sqlite_tables
from holdfast.agent.northbound.drivers.sqlite_errors import BUSY, CURES, UNSURE, Busy, CallFailed, Damaged
from holdfast.agent.northbound.drivers.sqlite_lock import OwnerLock
from holdfast.agent.northbound.drivers.sqlite_tables import LAYOUT, SCHEMA, Commit, FileWriting
from holdfast.agent.northbound.errors import NorthboundError, Unavailable
from holdfast.agent.sqlite_files import (
    BESIDE,
    CACHE,
    LOG_PAGES,
    beside,
    clear,
    code,
    create,
    damaged,
    extend_shared_memory,
    put_in_place,
    status,
    sync,
    transaction,
)

T = TypeVar("T")

OPENING = 2.0
"""Seconds for which a process waits while another process opens the file."""
OBSERVED = 4
"""Pages of the cache of the connection that only checks for commits; otherwise, SQLite reserves memory for twenty."""
CHECKING = 0.5
"""Most seconds that the check for damage takes at the start of the agent."""

Seen = tuple[tuple[int, int, int] | None, ...]
"""Device, inode and size of the database, its log and the shared memory of the log; None if missing."""


class RecordFile:
    """The open file. Raises `Unavailable`, `Busy` and `Damaged`.

    One call runs at a time, but `moved` and `changed` may be called at any time.
    """

    def __init__(self, path: Path, *, agent: bool, durable: bool, unwatched: Container[str] = ()) -> None:
        self._path, self._agent, self._durable, self._unwatched = path, agent, durable, unwatched
        self._ready, self._draft = beside(path, ".new"), beside(path, ".draft")
        self._lock = OwnerLock(path)
        self._db: sqlite3.Connection | None = None
        self._observer: sqlite3.Connection | None = None
        """Reads only. While it is open, closing the other connection does not remove the log of a newer file."""
        self._opened = 0
        self._version = 0
        """The observer's `data_version`: changes with each commit of any process."""
        self._seen: Seen = (None, None, None)
        self._read_only = False
        """The file could only be opened for reading; the next write opens it again."""
        self._reason: sqlite3.Error | None = None
        """Why the file could not be opened for writing, if SQLite has given a reason."""
        self._revision = 0
        """The last known revision. A database that is recreated empty continues from it."""

    # -- calls -------------------------------------------------------------------------------------------------

    def open(self) -> str:
        """Open or create the file. Return why it was recreated; empty if it was not."""
        try:
            with self._explained("open"):
                if self._agent:
                    self._lock.take()
                if status(self._ready) or not status(self._path):
                    self._complete()
                self._connect(check=self._agent)
        except Damaged as error:
            return self.renew(error)
        finally:
            if self._db is None:
                self._lock.release()
        return ""

    def close(self) -> None:
        """Close the file and release the lock. The agent empties the log first, so that one file has all data."""
        if self._agent and self._db is not None and not self._read_only and not self._difference():
            with suppress(sqlite3.Error):
                self._db.execute("pragma wal_checkpoint(truncate)")
        self._disconnect()
        self._lock.release()

    def read(self, query: Callable[..., T], *arguments: Any) -> T:
        """Return the result of a query. A file that was removed or replaced is still read."""
        with self._explained("read"):
            db = self._db or self._connect(check=False)
            extend_shared_memory(self._path, self._seen[-1])
            return query(db, *arguments)

    def write(self, calls: Sequence[Callable[[FileWriting], Any]]) -> tuple[FileWriting, list[Any]]:
        """Make calls in one transaction, durably; return their results. An error of this package is a result, too."""
        with self._explained("write"):
            db = self._writable()
            with transaction(db):
                writing = FileWriting(db, self._unwatched)
                writing.look_up(call.transaction for call in calls if isinstance(call, Commit))
                results = [_result(number, call, writing) for number, call in enumerate(calls)]
                writing.finish()
            self._seen = self._probe()
        self._revision = max(self._revision, writing.revision)
        return writing, results

    def maintain(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Return the result of `work`, which writes in transactions of its own, or raise its error."""
        with self._explained("write"):
            db = self._writable()
            result = work(db)
            self._revision = max(self._revision, sqlite_tables.newest(db))
            self._seen = self._probe()
        return result

    def shrink(self) -> None:
        """Free the memory in which SQLite keeps pages of the file."""
        with self._explained("read"):
            if self._db is not None:
                self._db.execute("pragma shrink_memory")

    def moved(self) -> bool:
        """Return whether any process has committed since the last call. Takes a few microseconds."""
        observer = self._observer
        if observer is None or self._read_only:
            return False
        try:
            (version,) = observer.execute("pragma data_version").fetchone()
        except sqlite3.Error:
            return True
        before, self._version = self._version, version
        return bool(version != before)

    def changed(self) -> Damaged | None:
        """Return how another program has changed the file; None if it has not. Takes a few microseconds."""
        opened = self._opened
        how = "" if self._read_only else self._difference()
        return Damaged(how, opened, intact=True) if how else None

    def renew(self, error: Damaged) -> str:
        """Put a new file in place, with the content if that is intact. Return what was done; empty if nothing was.

        If the process dies at any moment, the next process finds the old file or the new one. A process that is not
        the agent uses the file that another process has put in place.
        """
        with self._explained("recreate"):
            if self._opened != error.opened:
                return ""  # another process has done that
            if error.intact and self._db is None and not status(self._ready):
                self._connect(check=True)  # another process did all but the last step
                return ""
            info = status(self._path)
            if error.intact and not self._agent and info and stat.S_ISREG(info.st_mode) and info.st_size:
                self._disconnect()
                self._connect(check=True)
                return ""
            with self._lock.held():
                kept = error.intact and self._copy()
                if self._db is not None or not status(self._ready):  # otherwise, only the last step is left to do
                    if not kept:
                        self._draw_up(max(self._revision + 1, time.time_ns() // 1_000_000))
                    clear(self._ready)
                    self._draft.replace(self._ready)
                    sync(self._path.parent)
                self._disconnect()
                put_in_place(self._ready, self._path)
                self._connect(check=False)
        end = "its records were kept" if kept else f"its records were lost; see {self._path.with_suffix('.damaged')}"
        return f"{error}; it was recreated, and {end}"

    def _writable(self) -> sqlite3.Connection:
        """Return the connection for a write. Raises the error of SQLite if there is none, and `Damaged`."""
        if self._read_only:
            self._disconnect()
        db = self._db or self._connect(check=False)
        if self._reason:
            raise self._reason
        if how := self._difference():
            raise Damaged(how, self._opened, intact=True)
        return db

    # -- connections -------------------------------------------------------------------------------------------

    def _connect(self, *, check: bool) -> sqlite3.Connection:
        """Open the file; if it cannot be opened for lack of space or rights, open it for reading."""
        info = status(self._path)
        if info is None or not stat.S_ISREG(info.st_mode) or not info.st_size:
            how = "was removed" if info is None else "is empty" if stat.S_ISREG(info.st_mode) else "is not a file"
            raise Damaged(f"{self._path} {how}", self._opened)
        try:
            try:
                db = self._connect_to_write(check=check)
            except sqlite3.Error as error:
                if damaged(error) or code(error) in BUSY:
                    raise
                db = self._connect_to_read(error)
            self._seen = self._probe()
        except BaseException:
            self._disconnect()
            raise
        self._opened += 1
        return db

    def _connect_to_write(self, *, check: bool) -> sqlite3.Connection:
        self._read_only = bool(os.statvfs(self._path).f_flag & os.ST_RDONLY)
        self._db = db = self._connection("mode=rw")
        if not self._read_only:
            db.execute("pragma journal_mode = wal")
            db.execute(f"pragma wal_autocheckpoint = {LOG_PAGES}")
        db.execute(f"pragma synchronous = {'full' if self._durable else 'off'}")
        self._demand_layout(db)
        if check and (problem := _damage(db)):
            raise Damaged(f"{self._path} is damaged: {problem}", self._opened)
        db.execute(f"pragma cache_size = -{CACHE}")
        db.execute("pragma busy_timeout = 0")  # the driver tries again, and only reads until then
        self._observer = self._connection("mode=ro")
        self._observer.execute("pragma busy_timeout = 0")
        self._observer.execute(f"pragma cache_size = {OBSERVED}")
        self._observer.execute("pragma shrink_memory")  # SQLite has reserved memory for a larger cache
        self._observer.execute("select revision from state").fetchone()
        (self._version,) = self._observer.execute("pragma data_version").fetchone()
        return db

    def _connect_to_read(self, reason: sqlite3.Error) -> sqlite3.Connection:
        """Connect without the shared memory of SQLite, for which a full disk has no room; or without its log."""
        self._disconnect()
        log = status(beside(self._path, "-wal"))
        for mode, lock in (("mode=rw", "exclusive"), ("immutable=1", "normal"))[: 1 if log and log.st_size else 2]:
            self._db = db = self._connection(mode)
            with suppress(sqlite3.OperationalError):
                db.execute(f"pragma locking_mode = {lock}")
                self._demand_layout(db)
                self._read_only, self._reason = True, reason
                return db
            self._disconnect()
        raise reason

    def _connection(self, mode: str) -> sqlite3.Connection:
        name = str(self._path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
        db = sqlite3.connect(
            f"file:{name}?{mode}", uri=True, timeout=OPENING, isolation_level=None, check_same_thread=False
        )
        db.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")  # one bad text must not hide others
        return db

    def _demand_layout(self, db: sqlite3.Connection) -> None:
        (layout,) = db.execute("pragma user_version").fetchone()
        if layout > LAYOUT:
            raise Unavailable(
                f"{self._path} was written by a newer version (layout {layout}; this version knows {LAYOUT}): "
                "install that version, or move the file away"
            )
        if layout < LAYOUT:
            raise Damaged(f"{self._path} is not a database of this program", self._opened)
        db.execute("select 1 from rows, changes, leases limit 0")
        state = db.execute("select revision, compacted from state").fetchall()
        if len(state) != 1 or not all(type(each) is int and each >= 0 for each in state[0]):
            raise Damaged(f"{self._path} does not have one revision", self._opened)
        self._revision = max(self._revision, state[0][0])

    def _disconnect(self) -> None:
        """Close the connections. SQLite then reads the shared memory."""
        extend_shared_memory(self._path, self._seen[-1])
        for each in (self._db, self._observer):
            if each is not None:
                each.close()
        self._db = self._observer = None
        self._seen, self._read_only, self._reason = (None, None, None), False, None

    # -- the state of the file ---------------------------------------------------------------------------------

    def _probe(self) -> Seen:
        found = [status(each) for each in (self._path, beside(self._path, "-wal"), beside(self._path, "-shm"))]
        return tuple(info and (info.st_dev, info.st_ino, info.st_size) for info in found)

    def _difference(self) -> str:
        """Return how another program has changed the file; empty if it has not."""
        if self._read_only:
            return ""
        for end, known, found in zip(("", "-wal", "-shm"), self._seen, self._probe(), strict=True):
            if known and (not found or known[:2] != found[:2] or known[2] > found[2]):
                how = "removed" if not found else "replaced" if known[:2] != found[:2] else "truncated"
                return f"{self._path}{end} was {how}"
        return ""

    @contextmanager
    def _explained(self, verb: str) -> Iterator[None]:
        """Raise the errors of this module instead of those of SQLite and of the system."""
        try:
            yield
        except sqlite3.Error as error:
            if damaged(error) or "no such table" in str(error):
                raise Damaged(f"{self._path} is damaged: {error}", self._opened) from error
            cure = CURES.get(code(error), "check its disk")
            kind = Busy if code(error) in BUSY else Unavailable
            unsure = getattr(error, "sqlite_errorcode", 0) in UNSURE
            raise kind(f"cannot {verb} {self._path}: {error}: {cure}", unsure=unsure) from error
        except OSError as error:
            cure = CURES[sqlite3.SQLITE_IOERR]
            raise Unavailable(f"cannot {verb} {self._path}: {error.strerror or error}: {cure}") from error

    # -- new files ---------------------------------------------------------------------------------------------

    def _complete(self) -> None:
        """Put the file in place that a process had recreated when it died, or create the file."""
        with self._lock.held():
            if status(self._ready):
                put_in_place(self._ready, self._path)
            elif not status(self._path):
                self._draw_up(0)
                self._draft.replace(self._path)
                sync(self._path.parent)

    def _draw_up(self, revision: int) -> None:
        """Write an empty database that continues after a revision, beside the real one."""
        self._clear_draft()
        with closing(sqlite3.connect(self._draft, isolation_level=None)) as db:
            state = f"insert into state values ({revision}, {revision})"  # noqa: S608 - a number
            db.executescript(f"begin; {SCHEMA} {state}; commit")

    def _copy(self) -> bool:
        """Copy the database from the open connection, beside the real one. Return False if it is damaged."""
        if self._db is None:
            return False
        extend_shared_memory(self._path, self._seen[-1])
        self._clear_draft()
        with closing(sqlite3.connect(self._draft, isolation_level=None)) as draft:
            try:
                self._db.backup(draft)
                return not _damage(draft)
            except sqlite3.DatabaseError as error:
                if damaged(error):
                    return False
                raise

    def _clear_draft(self) -> None:
        for end in ("", *BESIDE):
            clear(beside(self._draft, end))
        create(self._draft)


def _result(number: int, call: Callable[[FileWriting], Any], writing: FileWriting) -> Any:
    try:
        return call(writing)
    except NorthboundError as error:
        return error
    except sqlite3.OperationalError:
        raise
    except Exception as error:
        if damaged(error):
            raise
        raise CallFailed(number, error) from error


def _damage(db: sqlite3.Connection) -> str:
    """Return a description of the damage; empty if none was found in a limited time."""
    until = time.monotonic() + CHECKING
    db.set_progress_handler(lambda: time.monotonic() > until, 10_000)
    try:
        (found,) = db.execute("pragma quick_check(1)").fetchone()
    except sqlite3.OperationalError as error:
        if code(error) != sqlite3.SQLITE_INTERRUPT:
            raise
        return ""
    finally:
        db.set_progress_handler(None, 0)
    return "" if found == "ok" else str(found)

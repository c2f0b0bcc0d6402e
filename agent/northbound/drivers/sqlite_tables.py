"""The tables of the SQLite database, and the statements of transactions, watches and leases.

All functions block. `changes` is the history that watches read; it does not contain the tables that are not watched. A
lease ends at a time of the clock that counts from the boot, so setting the system time does not affect it. After a
reboot, its end in Unix time counts, but it never lasts longer than its full time from the moment at which the database
is opened.
"""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from holdfast.agent.northbound.drivers.base import (
    DbTransaction,
    Delete,
    Expect,
    LeaseEnded,
    Put,
    RowChange,
    Snapshot,
    TableRow,
    Unchanged,
    WatchBatch,
    demand_holds,
)
from holdfast.agent.northbound.errors import AlreadyExists, Compacted
from holdfast.agent.sqlite_files import transaction

LAYOUT = 1
"""Number of this layout, in `pragma user_version`."""
SCHEMA = f"""
    create table rows (
        tbl text, id text, data blob not null, revision integer not null, created integer not null,
        lease integer not null, primary key (tbl, id)
    ) without rowid;
    create index leased on rows (lease) where lease > 0;
    create table changes (
        revision integer, number integer, tbl text not null, id text not null, data blob, created integer not null,
        made integer not null, primary key (revision, number)
    ) without rowid;
    create table leases (lease integer primary key, ttl real, boot text, ends real, unix real);
    create table state (revision integer not null, compacted integer not null);
    pragma user_version = {LAYOUT};
"""
PUT = """insert into rows values (?, ?, ?, ?, ?, ?) on conflict do update
    set data = excluded.data, revision = excluded.revision, created = excluded.created, lease = excluded.lease"""
DELETE = "delete from rows where tbl = ? and id = ?"
LOG = "insert into changes values (?, ?, ?, ?, ?, ?, ?)"
KNOWN = "select id, revision, created from rows where tbl = ? and id in ({})"
ASKED = 500
"""Most rows that one statement looks up."""
CHANGES = """select revision, tbl, id, data, created from changes where revision > ? and revision <= ?
    order by revision, number"""


class Bounds(NamedTuple):
    """How much of the history is kept; the first bound that is reached applies."""

    changes: int = 20_000
    bytes: int = 32 << 20
    seconds: float = 7 * 86_400


def boot() -> str:
    """Return the ID of this boot of the system."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def clock() -> float:
    """Return the seconds since the boot, which no program can set."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


Key = tuple[str, str]
Values = tuple[object, ...]


@dataclass(slots=True, eq=False)
class Commit:
    """The call that makes a transaction."""

    transaction: DbTransaction

    def __call__(self, writing: FileWriting) -> int:
        """Make it, and return its revision."""
        return writing.commit(self.transaction)


class FileWriting:
    """Transactions that SQLite commits together. After an error of SQLite, none of them is made.

    Rows are collected and written together, because a statement for each row takes most of the time.
    """

    def __init__(self, db: sqlite3.Connection, unwatched: Container[str] = ()) -> None:
        self._db, self._unwatched = db, unwatched
        self._before = self.revision = newest(db)
        self.batches: list[WatchBatch] = []
        """Their changes; a transaction that changes nothing has none."""
        self._made = int(time.time())
        self._known: dict[Key, tuple[int, int] | None] = {}
        """Revision and first revision of the rows that were read or written here; None: there is no such row."""
        self._rows: dict[Key, Values | None] = {}
        """Rows to be written; None: the row is deleted."""
        self._log: list[Values] = []
        """Changes to be written."""

    def look_up(self, transactions: Iterable[DbTransaction]) -> None:
        """Look up all rows that these transactions write or check: a statement for each row would take longer."""
        wanted: dict[str, dict[str, None]] = {}
        for made in transactions:
            for each in (*made.writes, *made.conditions):
                if not isinstance(each, Unchanged):
                    wanted.setdefault(each.table, {})[each.id] = None
        for table, ids in wanted.items():
            self._look_up(table, list(ids))

    def commit(self, transaction: DbTransaction) -> int:
        """Make a transaction, and return its revision. Raises `ConditionFailed` and `LeaseEnded`."""
        needed = {write.lease for write in transaction.writes if isinstance(write, Put)} | {transaction.require_lease}
        for lease in needed - {0}:
            self._demand_lease(lease)
        for condition in transaction.conditions:
            demand_holds(condition, self._current(condition))
        self._write(transaction.writes)
        return self.revision

    def finish(self) -> None:
        """Write the collected rows, and the revision of the last transaction."""
        self._flush()
        if self.revision > self._before:
            self._db.execute("update state set revision = ?", (self.revision,))

    def forget(self, last: int) -> None:
        """Forget the changes up to a revision."""
        self._flush()
        last = min(last, self.revision)
        self._db.execute("delete from changes where revision <= ?", (last,))
        self._db.execute("update state set compacted = max(compacted, ?)", (last,))

    def trim(self, bounds: Bounds) -> None:
        """Forget the changes that exceed the bounds. A step of the system time may make that too early or too late."""
        self._flush()
        count, size = self._db.execute("select count(*), coalesce(sum(length(data)), 0) from changes").fetchone()
        last = 0
        for revision, made, length in self._db.execute(
            "select revision, made, coalesce(length(data), 0) from changes order by revision, number"
        ):
            if count <= bounds.changes and size <= bounds.bytes and self._made - made <= bounds.seconds:
                break
            last, count, size = revision, count - 1, size - length
        if last:
            self.forget(last)

    def grant(self, ttl: float) -> int:
        """Return a new lease."""
        lease = random.getrandbits(62) | 1  # a number of a database that was recreated must not be given again
        values = (lease, ttl, boot(), clock() + ttl, time.time() + ttl)
        self._db.execute("insert into leases values (?, ?, ?, ?, ?)", values)
        return lease

    def keep_alive(self, lease: int) -> None:
        """Restart the time of a lease. Raises `LeaseEnded`."""
        self._demand_lease(lease)
        self._db.execute(
            "update leases set boot = ?, ends = ttl + ?, unix = ttl + ? where lease = ?",
            (boot(), clock(), time.time(), lease),
        )

    def revoke(self, lease: int) -> None:
        """End a lease."""
        self._flush()
        keys = self._db.execute("select tbl, id from rows where lease = ? and lease > 0", (lease,)).fetchall()
        self._write([Delete(*key) for key in keys])
        self._db.execute("delete from leases where lease = ?", (lease,))

    def end_leases(self) -> float | None:
        """End the leases whose time is over; return the seconds until the next one ends, None if there is none."""
        self._db.execute(
            "update leases set ends = ? + max(0, min(ttl, unix - ?)), boot = ? where boot <> ?",
            (clock(), time.time(), boot(), boot()),
        )
        for (lease,) in self._db.execute("select lease from leases where ends <= ?", (clock(),)).fetchall():
            self.revoke(lease)
        (end,) = self._db.execute("select min(ends) from leases").fetchone()
        return None if end is None else float(end) - clock()

    def prove(self) -> None:
        """Make a write without effect, to find out whether the file can be written."""
        self._db.execute("update state set compacted = compacted")

    # -- parts -------------------------------------------------------------------------------------------------

    def _demand_lease(self, lease: int) -> None:
        known = self._db.execute("select ends, boot from leases where lease = ?", (lease,)).fetchone()
        if known is None or (known[1] == boot() and known[0] <= clock()):
            raise LeaseEnded(f"the lease {lease} has ended")

    def _current(self, condition: Expect | Unchanged) -> int:
        if isinstance(condition, Unchanged):
            return self._newest(condition.table, condition.since)
        known = self._state_of((condition.table, condition.id))
        return known[0] if known else 0

    def _state_of(self, key: Key) -> tuple[int, int] | None:
        """Return the revision and the first revision of a row."""
        if key not in self._known:
            self._look_up(key[0], [key[1]])
        return self._known[key]

    def _look_up(self, table: str, ids: Sequence[str]) -> None:
        """Look up rows of a table."""
        for start in range(0, len(ids), ASKED):
            part = ids[start : start + ASKED]
            found = {key: (revision, created) for key, revision, created in revisions(self._db, table, part)}
            self._known.update({(table, key): found.get(key) for key in part})

    def _newest(self, table: str, since: int) -> int:
        """Return the newest revision in a table if it is later than `since`, from the history if that is long enough.

        There is no index by revision: it would slow down each write.
        """
        self._flush()
        (compacted,) = self._db.execute("select compacted from state").fetchone()
        if since >= compacted and table not in self._unwatched:
            query = """select max(c.revision) from changes c cross join rows r
                on r.tbl = c.tbl and r.id = c.id and r.revision = c.revision where c.revision > ? and c.tbl = ?"""
            (newest,) = self._db.execute(query, (since, table)).fetchone()
        else:
            (newest,) = self._db.execute("select max(revision) from rows where tbl = ?", (table,)).fetchone()
        return newest or 0

    def _write(self, writes: Sequence[Put | Delete]) -> None:
        revision = self.revision + 1
        changes: list[RowChange] = []
        for write in writes:
            key = (write.table, write.id)
            known = self._state_of(key)
            if isinstance(write, Put):
                created = known[1] if known else revision
                self._known[key] = (revision, created)
                self._rows[key] = (*key, write.data, revision, created, write.lease)
                change = RowChange(*key, TableRow(*key, write.data, revision, created))
            elif known:
                self._known[key] = self._rows[key] = None
                change = RowChange(*key, None)
            else:
                continue
            self.revision = revision
            if write.table not in self._unwatched:
                self._log_change(change, len(changes))
                changes.append(change)
        if self.revision == revision:
            self.batches.append(WatchBatch(revision, changes))

    def _log_change(self, change: RowChange, number: int) -> None:
        row = change.row
        data, created = (row.data, row.created) if row else (None, 0)
        self._log.append((self.revision, number, change.table, change.id, data, created, self._made))

    def _flush(self) -> None:
        """Write the collected rows and changes."""
        if self._rows:
            self._db.executemany(PUT, [row for row in self._rows.values() if row])
            self._db.executemany(DELETE, [key for key, row in self._rows.items() if not row])
            self._db.executemany(LOG, self._log)
            self._rows, self._log = {}, []


def revisions(db: sqlite3.Connection, table: str, ids: Sequence[str]) -> list[tuple[str, int, int]]:
    """Return ID, revision and first revision of those rows of a table that exist."""
    return db.execute(KNOWN.format(",".join("?" * len(ids))), (table, *ids)).fetchall()


def newest(db: sqlite3.Connection) -> int:
    """Return the revision of the database."""
    (revision,) = db.execute("select revision from state").fetchone()
    return int(revision)


def leases(db: sqlite3.Connection) -> int:
    """Return the number of leases."""
    (count,) = db.execute("select count(*) from leases").fetchone()
    return int(count)


def load(db: sqlite3.Connection, found: Iterable[tuple[str, str, bytes]], *, replace: bool) -> int:
    """Write rows (table, ID, data) of another database at one new revision; return their number.

    Watches must list the rows again: the history begins after them. Raises `AlreadyExists` unless `replace`.
    """
    number = 0
    with transaction(db):
        revision = newest(db) + 1
        for table, key, data in found:
            if not replace and revisions(db, table, [key]):
                raise AlreadyExists(f"there is a record {key!r} in {table} already")
            db.execute(PUT, (table, key, data, revision, revision, 0))
            number += 1
        if number:
            db.execute("update state set revision = ?, compacted = ?", (revision, revision))
    return number


def vacuum(db: sqlite3.Connection) -> None:
    """Make the file as small as its content."""
    db.execute("vacuum")
    db.execute("pragma wal_checkpoint(truncate)")


def used(db: sqlite3.Connection) -> int:
    """Return the number of bytes of the pages in use."""
    (pages,), (free,), (size,) = (
        db.execute(f"pragma {name}").fetchone() for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)


def read(db: sqlite3.Connection, tables: Sequence[str] | None) -> Snapshot:
    """Return all rows of some tables, or of all, at one revision."""
    query = "select tbl, id, data, revision, created from rows"
    db.execute("begin")
    try:
        (revision,) = db.execute("select revision from state").fetchone()
        if tables is None:
            rows = db.execute(query).fetchall()
        else:
            rows = [row for table in tables for row in db.execute(f"{query} where tbl = ?", (table,))]
    finally:
        db.execute("rollback")
    return Snapshot(revision, [TableRow(*row) for row in rows])


def scan(
    db: sqlite3.Connection,
    table: str,
    *,
    after: str,
    before: str,
    limit: int,
    newest: bool,
    containing: Sequence[bytes] = (),
) -> list[TableRow]:
    """Return at most `limit` rows of a table in the order of their IDs, which SQLite compares by bytes.

    `containing`: only rows whose data contain all of these texts. SQLite skips the others much faster than a reader
    could.
    """
    order = "desc" if newest else "asc"
    found = db.execute(
        "select tbl, id, data, revision, created from rows "  # noqa: S608 - fixed words
        f"where tbl = ? and id > ? and (? = '' or id < ?) {'and instr(data, ?) ' * len(containing)}"
        f"order by id {order} limit ?",
        (table, after, before, before, *containing, limit),
    )
    return [TableRow(*row) for row in found]


def get(db: sqlite3.Connection, table: str, id: str) -> TableRow | None:
    """Return a row."""
    found = db.execute("select tbl, id, data, revision, created from rows where tbl = ? and id = ?", (table, id))
    row = found.fetchone()
    return TableRow(*row) if row else None


def changes(db: sqlite3.Connection, after: int, most: int) -> list[WatchBatch]:
    """Return the next batches after a revision, with approximately `most` changes. Raises `Compacted`."""
    db.execute("begin")
    try:
        last, compacted = db.execute("select revision, compacted from state").fetchone()
        if not compacted <= after <= last:
            raise Compacted(after, compacted)
        page = "select revision from changes where revision > ? order by revision, number limit 1 offset ?"
        end = db.execute(page, (after, most)).fetchone() or (last,)
        rows = db.execute(CHANGES, (after, *end)).fetchall()
    finally:
        db.execute("rollback")
    return [WatchBatch(revision, [_change(*row) for row in group]) for revision, group in groupby(rows, itemgetter(0))]


def _change(revision: int, table: str, id: str, data: bytes | None, created: int) -> RowChange:
    return RowChange(table, id, None if data is None else TableRow(table, id, data, revision, created))

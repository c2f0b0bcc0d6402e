"""The tables of the journal, in memory and in its file."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from holdfast.agent.engine.model.edge_keys import Edge, End
from holdfast.resources.traits import Declaration

SCHEMA = """
create table if not exists counter (
    identity text primary key, changes integer not null, failures integer not null) without rowid;
create table if not exists delivered (
    upstream text, downstream text, kind text, count integer not null,
    primary key (upstream, downstream, kind)) without rowid;
create table if not exists failing (identity text primary key) without rowid;
create table if not exists intent (identity text primary key) without rowid;
create table if not exists reversals (
    identity text, name text, kind text not null, arguments text not null, kept text not null,
    primary key (identity, name));
create table if not exists sent (identity text primary key, content text not null) without rowid;
create table if not exists received (
    identity text, argument text, digest text not null, primary key (identity, argument)) without rowid;
create table if not exists action (identity text primary key, digest text not null, at real not null) without rowid;
create table if not exists ends (
    key text primary key, thing text not null, identity text not null, absent real) without rowid;
create table if not exists adopted (at real not null);
create table if not exists paused (
    pattern text primary key, reason text not null, since real not null, until real, seconds real);
"""
"""`identity` is a key in all tables but `ends`. Older journals have no `ends`: their keys are identities."""

Row = Sequence[Any]
"""The values of one row."""
Rows = Mapping[str, Sequence[Row]]
"""Table -> all its rows."""
Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Counts(NamedTuple):
    """How often a resource has changed, and how often it has failed."""

    changes: int = 0
    failures: int = 0


class Reversal(NamedTuple):
    """The previous state of a resource, from before its first repair."""

    identity: str
    """Identity of the state that is undone when it is removed."""
    name: str
    """Name of the resource: the same state may later manage another thing."""
    declaration: Declaration


class Columns(NamedTuple, Generic[Key, Value]):
    """The columns of one table, and the record that a row holds."""

    table: str
    keys: tuple[str, ...]
    """The columns that hold the key of the record."""
    others: int
    """Number of the other columns, which follow."""
    row: Callable[[Key, Value], Row]
    """Returns the row of a record."""
    record: Callable[[tuple[Any, ...]], tuple[Key, Value]]
    """Returns the key and the value of a row."""
    order: str = ""
    """The order in which the rows are read, where that matters."""

    @property
    def insert(self) -> str:
        """The statement that writes a row and replaces the row with the same key."""
        values = ", ".join("?" * (len(self.keys) + self.others))
        return f"insert or replace into {self.table} values ({values})"  # noqa: S608

    @property
    def select(self) -> str:
        """The query for all rows."""
        return f"select * from {self.table}{self.order}"  # noqa: S608 - written here

    @property
    def delete(self) -> str:
        """The statement that deletes the row with a key."""
        condition = " and ".join(f"{key} = ?" for key in self.keys) or "true"
        return f"delete from {self.table} where {condition}"  # noqa: S608


def _reversal(row: Row) -> tuple[tuple[str, str], Reversal]:
    identity, name, kind, arguments, kept = row
    return (identity, name), Reversal(identity, name, Declaration(kind, json.loads(arguments), kept))


def _reversal_row(_: tuple[str, str], reversal: Reversal) -> Row:
    kind, arguments, kept = reversal.declaration
    return (reversal.identity, reversal.name, kind, json.dumps(arguments), kept)


COUNTER = Columns[str, Counts](
    "counter", ("identity",), 2, lambda key, counts: (key, *counts), lambda row: (row[0], Counts(*row[1:]))
)
DELIVERED = Columns[Edge, int](
    "delivered",
    ("upstream", "downstream", "kind"),
    1,
    lambda edge, count: (*edge, count),
    lambda row: (row[:3], row[3]),
)
FAILING = Columns[str, None]("failing", ("identity",), 0, lambda key, _: (key,), lambda row: (row[0], None))
INTENT = Columns[str, None]("intent", ("identity",), 0, lambda key, _: (key,), lambda row: (row[0], None))
REVERSALS = Columns[tuple[str, str], Reversal](
    "reversals", ("identity", "name"), 3, _reversal_row, _reversal, " order by rowid"
)
SENT = Columns[str, dict[str, Any]](
    "sent", ("identity",), 1, lambda key, values: (key, json.dumps(values)), lambda row: (row[0], json.loads(row[1]))
)
RECEIVED = Columns[tuple[str, str], str](
    "received", ("identity", "argument"), 1, lambda key, digest: (*key, digest), lambda row: (row[:2], row[2])
)
ACTION = Columns[str, tuple[str, float]](
    "action", ("identity",), 2, lambda key, done: (key, *done), lambda row: (row[0], row[1:])
)
ENDS = Columns[str, End]("ends", ("key",), 3, lambda key, end: (key, *end), lambda row: (row[0], End(*row[1:])))
ADOPTED = Columns[tuple[()], float]("adopted", (), 1, lambda _, at: (at,), lambda row: ((), row[0]))
PAUSED = Columns[str, Row]("paused", ("pattern",), 4, lambda _, row: row, lambda row: (row[0], row))
ALL: tuple[Columns[Any, Any], ...] = (
    COUNTER, DELIVERED, FAILING, INTENT, REVERSALS, SENT, RECEIVED, ACTION, ENDS, ADOPTED, PAUSED,
)  # fmt: skip


class Table(dict[Key, Value]):
    """One table in memory. `put`, `drop` and `keep` change it, and also the file, by `write(statement, rows)`."""

    def __init__(self, columns: Columns[Key, Value], write: Callable[[str, Sequence[Row]], None]) -> None:
        super().__init__()
        self.columns, self._write = columns, write
        self._insert, self._delete = columns.insert, columns.delete

    def load(self, rows: Iterable[Row]) -> None:
        """Take over rows of a file; writes nothing."""
        self.update(self.columns.record(tuple(row)) for row in rows)

    def rows(self) -> list[Row]:
        """Return all rows that belong in the file."""
        return [self.columns.row(key, value) for key, value in self.items()]

    def put(self, records: Mapping[Key, Value]) -> int:
        """Write records, which replace those with the same keys. Returns their number."""
        if records:
            self.update(records)
            self._write(self._insert, [self.columns.row(key, value) for key, value in records.items()])
        return len(records)

    def put_new(self, records: Mapping[Key, Value]) -> int:
        """Write the records whose keys are not in the table. Returns their number."""
        return self.put({key: value for key, value in records.items() if key not in self})

    def drop(self, keys: Iterable[Key]) -> int:
        """Delete the records with these keys; unknown keys have no effect. Returns the number of deleted records."""
        known = [key for key in keys if key in self]
        if known:
            for key in known:
                del self[key]
            self._write(self._delete, [key if isinstance(key, tuple) else (key,) for key in known])
        return len(known)

    def keep(self, keys: Container[Key]) -> int:
        """Delete all records but those with these keys. Returns the number of deleted records."""
        return self.drop([key for key in self if key not in keys])


def read(path: Path) -> Rows:
    """Read a journal file, which may be of an older version. Writes nothing. Raises `sqlite3.Error`."""
    with (
        closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=1)) as file,
        closing(sqlite3.connect(":memory:")) as copy,
    ):
        file.backup(copy)
        copy.executescript(SCHEMA)
        return {each.table: copy.execute(each.select).fetchall() for each in ALL}

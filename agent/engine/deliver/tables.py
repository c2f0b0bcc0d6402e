"""The tables of the journal file."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

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

INSERT = {
    table: f"insert or replace into {table} values ({', '.join('?' * columns)})"  # noqa: S608 - both are written here
    for table, columns in {
        "counter": 3,
        "delivered": 4,
        "failing": 1,
        "intent": 1,
        "reversals": 5,
        "sent": 2,
        "received": 3,
        "action": 3,
        "ends": 4,
        "adopted": 1,
        "paused": 5,
    }.items()
}
"""Table -> the statement that writes a row and replaces a row with the same key."""
SELECT = {table: f"select * from {table}" for table in INSERT} | {"reversals": "select * from reversals order by rowid"}  # noqa: S608 - ours
"""Table -> the query for its rows; in order of creation where the order matters."""
BY_IDENTITY = "identity = ?"
"""A condition that selects the row of one resource."""

Row = Sequence[Any]
"""The values of one row."""
Rows = Mapping[str, Sequence[Row]]
"""Table -> all its rows."""


class Reversal(NamedTuple):
    """The previous state of a resource, from before its first repair."""

    identity: str
    """Identity of the state that is undone when it is removed."""
    name: str
    """Name of the resource: the same state may later manage another thing."""
    declaration: Declaration


def reversal_row(reversal: Reversal) -> Row:
    """Return the row of a reversal."""
    kind, arguments, kept = reversal.declaration
    return (reversal.identity, reversal.name, kind, json.dumps(arguments), kept)


def read(path: Path) -> Rows:
    """Read a journal file, which may be of an older version. Writes nothing. Raises `sqlite3.Error`."""
    with (
        closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=1)) as file,
        closing(sqlite3.connect(":memory:")) as copy,
    ):
        file.backup(copy)
        copy.executescript(SCHEMA)
        return {table: copy.execute(query).fetchall() for table, query in SELECT.items()}

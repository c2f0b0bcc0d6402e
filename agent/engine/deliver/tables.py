"""The tables of the journal's file."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.resources.traits import Declaration

SCHEMA = """
create table if not exists counter (identity text primary key, changes integer not null, failures integer not null) without rowid;
create table if not exists delivered (
    upstream text, downstream text, kind text, count integer not null, primary key (upstream, downstream, kind)) without rowid;
create table if not exists failing (identity text primary key) without rowid;
create table if not exists intent (identity text primary key) without rowid;
create table if not exists reversals (
    identity text, name text, kind text not null, arguments text not null, kept text not null, primary key (identity, name));
create table if not exists sent (identity text primary key, content text not null) without rowid;
create table if not exists received (identity text, argument text, digest text not null, primary key (identity, argument)) without rowid;
create table if not exists action (identity text primary key, digest text not null, at real not null) without rowid;
create table if not exists ends (key text primary key, thing text not null, identity text not null, absent real) without rowid;
create table if not exists adopted (at real not null);
create table if not exists paused (pattern text primary key, reason text not null, since real not null, until real, seconds real);
"""
"""What the other tables call an identity is a key. A journal of older versions has no ends: there the two are the same."""

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
"""Table -> the statement that writes a row, in place of one with the same key."""
SELECT = {table: f"select * from {table}" for table in INSERT} | {"reversals": "select * from reversals order by rowid"}  # noqa: S608 - ours
"""Table -> the query for its rows, in the order in which they were made where that matters."""
BY_IDENTITY = "identity = ?"
"""A condition that picks the row of one resource."""

Row = Sequence[Any]
"""The values of one row."""
Rows = Mapping[str, Sequence[Row]]
"""Table -> all that is in it."""


class Reversal(NamedTuple):
    """What was before a resource was first put right."""

    identity: str
    """Of the state that is to be undone when it leaves."""
    name: str
    """Its name: the same state may come to manage another thing."""
    declaration: Declaration


def reversal_row(reversal: Reversal) -> Row:
    """How it is written."""
    kind, arguments, kept = reversal.declaration
    return (reversal.identity, reversal.name, kind, json.dumps(arguments), kept)


def read(path: Path) -> Rows:
    """What is in the file of a journal, which may be of an older version, now. Writes nothing. Raises `sqlite3.Error`."""
    with (
        closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=1)) as file,
        closing(sqlite3.connect(":memory:")) as copy,
    ):
        file.backup(copy)
        copy.executescript(SCHEMA)
        return {table: copy.execute(query).fetchall() for table, query in SELECT.items()}

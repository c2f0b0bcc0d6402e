"""What the engine must not forget: who changed, who was told, which actions are done.

Each resource has a counter of its changes and one of its failures; each edge that carries them remembers how far it has
delivered. A refresh is pending while the one is ahead of the other, so it survives a failed attempt, a swap of the graph, a
restart and a kill -9. Before a resource that somebody listens to is changed, the intent is written down: an agent
that died in the middle of a change counts it as made, which delivers the refresh at least once.

Everything is kept in memory and written through to one SQLite file; without a path, in memory alone.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from holdfast.resources.traits import Declaration

Edge = tuple[str, str, str]
"""(upstream, downstream, kind): identities, and `watch`, `onchanges`, `listen` or `onfail`."""

SCHEMA = """
create table if not exists counter (identity text primary key, changes integer not null, failures integer not null) without rowid;
create table if not exists delivered (
    upstream text, downstream text, kind text, count integer not null, primary key (upstream, downstream, kind)) without rowid;
create table if not exists intent (identity text primary key) without rowid;
create table if not exists reversal (
    identity text, name text, kind text not null, arguments text not null, kept text not null, primary key (identity, name)) without rowid;
create table if not exists action (identity text primary key, digest text not null, at real not null) without rowid;
"""


class Reversal(NamedTuple):
    """What was before a resource was first put right."""

    identity: str
    """Of the state that is to be undone when it leaves."""
    name: str
    """Its name: the same state may come to manage another thing."""
    declaration: Declaration


class Journal:
    """The engine's memory. Raises `sqlite3.Error` when the file cannot be read or written."""

    def __init__(self, path: Path | None = None, *, durable: bool = True) -> None:
        self._db = sqlite3.connect(path or ":memory:", isolation_level=None)
        try:
            self._open(durable=durable)
        except BaseException:
            self._db.close()
            raise

    def _open(self, *, durable: bool) -> None:
        """Read everything; a change that was under way when the agent died counts as made."""
        self._db.execute("pragma journal_mode = wal")
        self._db.execute(f"pragma synchronous = {'normal' if durable else 'off'}")
        self._db.executescript(SCHEMA)
        self._changes: dict[str, int] = {}
        self._failures: dict[str, int] = {}
        for identity, changes, failures in self._db.execute("select identity, changes, failures from counter"):
            self._changes[identity], self._failures[identity] = changes, failures
        self._delivered: dict[Edge, int] = {(u, d, k): n for u, d, k, n in self._db.execute("select * from delivered")}
        self._actions: dict[str, tuple[str, float]] = {i: (h, at) for i, h, at in self._db.execute("select * from action")}
        self.reversals: dict[tuple[str, str], Reversal] = {
            (i, n): Reversal(i, n, Declaration(k, json.loads(a), kept)) for i, n, k, a, kept in self._db.execute("select * from reversal")
        }
        """By identity and name of the states that are to be undone when they leave."""
        self.interrupted = tuple(identity for (identity,) in self._db.execute("select identity from intent"))
        """Resources whose change was under way when the agent last died; counted as changed."""
        for identity in self.interrupted:
            self.changed(identity)

    def close(self) -> None:
        """Close the file; nothing is pending then, everything was written at once."""
        self._db.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All or nothing on the disk; an error leaves no transaction open."""
        self._db.execute("begin")
        try:
            yield
            self._db.execute("commit")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("rollback")
            raise

    # -- edges -------------------------------------------------------------------------------------------------

    def adopt(self, edges: Iterable[Edge], identities: Collection[str]) -> None:
        """Take over the edges of a new graph: an edge not known yet has missed nothing; forget what is gone.

        Actions of resources that are gone are forgotten too: declared again, they are new.
        """
        current = set(edges)
        new = [(edge, self._count(edge)) for edge in current if edge not in self._delivered and self._count(edge)]
        gone = [edge for edge in self._delivered if edge not in current]
        ends = {edge[0] for edge in current}
        unwatched = [identity for identity in {*self._changes, *self._failures} if identity not in ends]
        forgotten = [identity for identity in self._actions if identity not in identities]
        if not (new or gone or unwatched or forgotten):
            return
        with self._transaction():
            for edge, count in new:
                self._put(edge, count)
            self._db.executemany("delete from delivered where upstream = ? and downstream = ? and kind = ?", gone)
            self._db.executemany("delete from counter where identity = ?", ((i,) for i in unwatched))
            self._db.executemany("delete from action where identity = ?", ((i,) for i in forgotten))
        for edge in gone:
            del self._delivered[edge]
        for identity in unwatched:
            self._changes.pop(identity, None)
            self._failures.pop(identity, None)
        for identity in forgotten:
            del self._actions[identity]

    def pending(self, edge: Edge) -> bool:
        """The upstream has changed (for onfail: has failed) since this edge last delivered."""
        return self._count(edge) > self._delivered.get(edge, 0)

    def count(self, edge: Edge) -> int:
        """How far the upstream has counted: to be handed to `deliver` once the downstream has acted on it."""
        return self._count(edge)

    def deliver(self, seen: Iterable[tuple[Edge, int]]) -> None:
        """The downstream has acted on the upstream's changes up to these counts."""
        for edge, count in seen:
            count = min(count, self._count(edge))  # noqa: PLW2901 - the upstream may have been forgotten meanwhile
            if count > self._delivered.get(edge, 0):
                self._put(edge, count)

    def _count(self, edge: Edge) -> int:
        return (self._failures if edge[2] == "onfail" else self._changes).get(edge[0], 0)

    def _put(self, edge: Edge, count: int) -> None:
        self._delivered[edge] = count
        self._db.execute("insert or replace into delivered values (?, ?, ?, ?)", (*edge, count))

    # -- resources ---------------------------------------------------------------------------------------------

    def intend(self, identity: str, edges: Iterable[Edge] = ()) -> None:
        """It may be changed now; `edges` are those that would carry it."""
        with self._transaction():
            self._db.execute("insert or ignore into intent values (?)", (identity,))
            self._know(edges)

    def changed(self, identity: str, edges: Iterable[Edge] = ()) -> None:
        """It was changed; `edges` are those that carry it."""
        self._changes[identity] = self._changes.get(identity, 0) + 1
        self._bump(identity, edges)

    def failed(self, identity: str, edges: Iterable[Edge] = ()) -> None:
        """It went from right to failed; `edges` are those that carry it."""
        self._failures[identity] = self._failures.get(identity, 0) + 1
        self._bump(identity, edges)

    def unchanged(self, identity: str) -> None:
        """The intended change did not happen."""
        self._db.execute("delete from intent where identity = ?", (identity,))

    def _bump(self, identity: str, edges: Iterable[Edge]) -> None:
        with self._transaction():
            row = (identity, self._changes.get(identity, 0), self._failures.get(identity, 0))
            self._db.execute("insert or replace into counter values (?, ?, ?)", row)
            self._db.execute("delete from intent where identity = ?", (identity,))
            self._know(edges)

    def _know(self, edges: Iterable[Edge]) -> None:
        """From now on these edges are not new: what their upstream counts is pending until it is delivered."""
        for edge in edges:
            if edge not in self._delivered:
                self._put(edge, 0)

    # -- actions -----------------------------------------------------------------------------------------------

    def done(self, identity: str, digest: str, at: float) -> None:
        """An action of this declaration has succeeded, at this Unix time."""
        self._actions[identity] = (digest, at)
        self._db.execute("insert or replace into action values (?, ?, ?)", (identity, digest, at))

    def done_at(self, identity: str, digest: str) -> float | None:
        """When the action last succeeded with this declaration (Unix time); None: never."""
        known, at = self._actions.get(identity, ("", 0.0))
        return at if known == digest else None

    # -- reversals ---------------------------------------------------------------------------------------------

    def remember(self, reversal: Reversal) -> None:
        """What was before this resource is put right for the first time."""
        kind, arguments, kept = reversal.declaration
        row = (reversal.identity, reversal.name, kind, json.dumps(arguments), kept)
        self._db.execute("insert or replace into reversal values (?, ?, ?, ?, ?)", row)
        self.reversals[reversal.identity, reversal.name] = reversal

    def forget(self, reversal: Reversal) -> None:
        """It is undone, or is not to be any more."""
        self._db.execute("delete from reversal where identity = ? and name = ?", (reversal.identity, reversal.name))
        self.reversals.pop((reversal.identity, reversal.name), None)

"""What the engine must not forget: who changed, who was told, which actions are done.

Resources go by keys, which stay theirs when their IDs change (`ends`). Each resource has a counter of its changes and one of its failures; each edge that carries them remembers how far it has
delivered. A refresh is pending while the one is ahead of the other, so it survives a failed attempt, a swap of the graph, a
restart, a kill -9 and a loss of power. Before a resource that somebody listens to is changed, the intent is written down: an
agent that died in the middle of a change counts it as made, which delivers the refresh at least once.

Everything is kept in memory and written through to one SQLite file; without a path, in memory alone. Of all this only two
things must be on the disk before the machine is changed: the intent, with the edges that would carry the change, and what a resource that is
to be undone some day was before. What a loss of power may take of the rest, always the latest, is found out again:
a change whose intent stands still counts as made, a delivery is made again, an action is done again.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.agent.engine import ends
from holdfast.agent.engine.ends import DAY, Edge, End, Owed, Settlement
from holdfast.agent.engine.flush import Blocking, Flush
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
"""
"""What the other tables call an identity is a key. A journal of older versions has no ends: there the two are the same."""


class Adoption(NamedTuple):
    """What came of taking over new states."""

    keys: Mapping[str, str]
    """Identity -> key."""
    dropped: tuple[Owed, ...]
    """What was owed and is not any more."""


class Reversal(NamedTuple):
    """What was before a resource was first put right."""

    identity: str
    """Of the state that is to be undone when it leaves."""
    name: str
    """Its name: the same state may come to manage another thing."""
    declaration: Declaration


class Journal:
    """The engine's memory. Raises `sqlite3.Error` when the file cannot be read or written.

    `durable` says whether it has to outlive a loss of power; then `blocking` makes the calls that wait for the disk.
    """

    def __init__(self, path: Path | None = None, *, durable: bool = True, blocking: Blocking = asyncio.to_thread) -> None:
        self._db = sqlite3.connect(path or ":memory:", isolation_level=None)
        try:
            log = self._open(durable=durable)
            self._flush = Flush(path, blocking) if path and durable and log else None
        except BaseException:
            self._db.close()
            raise

    def _open(self, *, durable: bool) -> bool:
        """Read everything; a change that was under way when the agent died counts as made. Whether there is a log to flush.

        Where the file system knows no log, SQLite flushes each transaction itself.
        """
        (mode,) = self._db.execute("pragma journal_mode = wal").fetchone()
        log = bool(mode == "wal")
        self._db.execute(f"pragma synchronous = {('normal' if log else 'full') if durable else 'off'}")
        self._db.executescript(SCHEMA)
        self._changes: dict[str, int] = {}
        self._failures: dict[str, int] = {}
        for identity, changes, failures in self._db.execute("select identity, changes, failures from counter"):
            self._changes[identity], self._failures[identity] = changes, failures
        self._delivered: dict[Edge, int] = {(u, d, k): n for u, d, k, n in self._db.execute("select * from delivered")}
        self._actions: dict[str, tuple[str, float]] = {i: (h, at) for i, h, at in self._db.execute("select * from action")}
        self._sent: dict[str, dict[str, Any]] = {i: json.loads(values) for i, values in self._db.execute("select * from sent")}
        self._received: dict[tuple[str, str], str] = {(i, a): h for i, a, h in self._db.execute("select * from received")}
        rows = self._db.execute("select * from reversals order by rowid")
        self.reversals: dict[tuple[str, str], Reversal] = {
            (i, n): Reversal(i, n, Declaration(k, json.loads(a), kept)) for i, n, k, a, kept in rows
        }
        """By identity and name of the states that are to be undone when they leave, those first that were changed first."""
        self._failing = {identity for (identity,) in self._db.execute("select identity from failing")}
        self._ends: dict[str, End] = {key: End(*end) for key, *end in self._db.execute("select key, thing, identity, absent from ends")}
        self._adopted: float | None = None
        """When states were last taken over, by the monotonic clock."""
        self.interrupted = tuple(identity for (identity,) in self._db.execute("select identity from intent"))
        """Resources whose change was under way when the agent last died; counted as changed."""
        self._intents: dict[str, int] = {}
        """Resources that may be changed now -> what must be flushed before."""
        self._unwritten: set[str] = set()
        """Resources whose counters could not be written when they grew."""
        for identity in self.interrupted:
            self.changed(identity)
        return log

    def close(self) -> None:
        """Close the file; nothing is pending then, everything was written at once."""
        if self._flush:
            self._flush.close()
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

    def adopt(
        self, edges: Iterable[Edge], declared: Mapping[str, str], others: Iterable[tuple[str, str]] = (), *, whole: bool = True
    ) -> Adoption:
        """Take over new states: their edges, by identities, and each resource of which something is remembered, with its `thing`; `others` are the rest.

        An edge not known yet has missed nothing. What is gone is forgotten, but for what is owed; nothing is, when these are only a part of
        the states (not `whole`). Actions of resources that are gone are forgotten too: declared again, they are new.
        """
        known = self._known()
        everything = {**declared, **ends.matching(known, declared, others)}
        keys = ends.pair(known, everything)
        present = set(keys.values())
        current = {(keys[upstream], keys[downstream], kind) for upstream, downstream, kind in edges}
        after = ends.age(known, everything, keys, self._since_adoption() if whole else None)
        found = ends.settle(self._delivered, current, self._count, after, present, whole=whole)
        dropped = tuple(ends.named(edge, after) for edge in found.dropped)
        if whole:
            left = current | (self._delivered.keys() - set(found.gone))
            after = ends.needed(after, known, {keys[who] for who in declared}, left)
            self._take_over(found, after, present, carriers={edge[0] for edge in left})
        else:
            self._take_over(found, after, known.keys() | present, carriers=known.keys() | present)
        self._adopted = time.monotonic()
        return Adoption(keys, dropped)

    def _known(self) -> dict[str, End]:
        """All ends. Of those in an older journal, and of what had left when it was written down, only the key is known."""
        bearing = (key for edge in self._delivered for key in edge[:2])
        unnamed = {*self._changes, *bearing, *self._actions, *self._sent, *(key for key, _ in self._received)} - self._ends.keys()
        return {**self._ends, **{key: End("", key, 0.0) for key in unnamed}}

    def _since_adoption(self) -> float:
        """Seconds since states were last taken over; across a restart a day at most, for the clock of the world may jump."""
        if self._adopted is not None:
            return time.monotonic() - self._adopted
        row = self._db.execute("select max(at) from adopted").fetchone()
        return min(max(0.0, time.time() - (row[0] or time.time())), DAY)

    def _take_over(self, found: Settlement, after: dict[str, End], present: Collection[str], carriers: Collection[str]) -> None:
        """Settle edges and ends; forget the counters of those that carry nothing, and the rest of those that are not present. All or nothing."""
        named = [(key, *end) for key, end in after.items() if end != self._ends.get(key)]
        lost = [key for key in self._ends if key not in after]
        unwatched = [key for key in {*self._changes, *self._failures} if key not in carriers]
        forgotten = [key for key in self._actions if key not in present]
        silent = [key for key in self._sent if key not in present]
        deaf = [each for each in self._received if each[0] not in present]
        if not (found.put or found.gone or named or lost or unwatched or forgotten or silent or deaf):
            return
        with self._transaction():
            self._db.executemany("insert or replace into delivered values (?, ?, ?, ?)", ((*edge, n) for edge, n in found.put.items()))
            self._db.executemany("delete from delivered where upstream = ? and downstream = ? and kind = ?", found.gone)
            self._db.executemany("insert or replace into ends values (?, ?, ?, ?)", named)
            self._db.executemany("delete from received where identity = ? and argument = ?", deaf)
            gone = (("counter", unwatched), ("failing", unwatched), ("action", forgotten), ("sent", silent))
            for table, keys in gone:
                self._db.executemany(f"delete from {table} where identity = ?", ((key,) for key in keys))  # noqa: S608 - our own names
            self._db.executemany("delete from ends where key = ?", ((key,) for key in lost))
            self._db.execute("delete from adopted")
            self._db.execute("insert into adopted values (?)", (time.time(),))
        self._ends = after
        self._delivered.update(found.put)
        for edge in found.gone:
            del self._delivered[edge]
        for key in unwatched:
            self._changes.pop(key, None)
            self._failures.pop(key, None)
            self._failing.discard(key)
        for key in forgotten:
            del self._actions[key]
        for key in silent:
            del self._sent[key]
        for each in deaf:
            del self._received[each]

    def pending(self, edge: Edge) -> bool:
        """The upstream has changed (for onfail: has failed) since this edge last delivered."""
        return self._count(edge) > self._delivered.get(edge, 0)

    def behind(self, edge: Edge) -> int:
        """How many changes (for onfail: failures) of the upstream this edge has not delivered yet."""
        return max(0, self._count(edge) - self._delivered.get(edge, 0))

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

    async def announce(self, identity: str, edges: Iterable[Edge]) -> None:
        """It may be changed once this returns; `edges` are those that would carry it. Raises `OSError` when the disk fails."""
        if identity not in self._intents:
            self.intend(identity, edges)
        if self._flush:
            await self._flush.wait(self._intents[identity])

    def intend(self, identity: str, edges: Iterable[Edge] = ()) -> None:
        """Write down that it may be changed."""
        with self._knowing(edges):
            self._db.execute("insert or ignore into intent values (?)", (identity,))
        self._intents[identity] = self._flush.written() if self._flush else 0

    def intended(self, identity: str) -> bool:
        """It may have been changed, and nobody has said yet what came of that."""
        return identity in self._intents

    def changed(self, identity: str, edges: Iterable[Edge] = ()) -> None:
        """It was changed; `edges` are those that carry it."""
        self._changes[identity] = self._changes.get(identity, 0) + 1
        self._bump(identity, edges)

    def failed(self, identity: str, edges: Iterable[Edge] = ()) -> None:
        """It went from right to failed; `edges` are those that carry it."""
        self._failures[identity] = self._failures.get(identity, 0) + 1
        self._failing.add(identity)
        self._bump(identity, edges)

    def failing(self, identity: str) -> bool:
        """It has failed, and not been right since; an agent may have been started in between."""
        return identity in self._failing

    def recovered(self, identity: str) -> None:
        """It is right now."""
        if identity in self._failing:
            self._db.execute("delete from failing where identity = ?", (identity,))
            self._failing.discard(identity)

    def unchanged(self, identity: str) -> None:
        """The intended change did not happen."""
        if identity in self._unwritten:
            self._bump(identity)
        elif identity in self._intents:
            self._db.execute("delete from intent where identity = ?", (identity,))
            del self._intents[identity]

    def _bump(self, identity: str, edges: Iterable[Edge] = ()) -> None:
        self._unwritten.add(identity)
        with self._knowing(edges):
            row = (identity, self._changes.get(identity, 0), self._failures.get(identity, 0))
            self._db.execute("insert or replace into counter values (?, ?, ?)", row)
            if identity in self._failing:
                self._db.execute("insert or ignore into failing values (?)", (identity,))
            self._db.execute("delete from intent where identity = ?", (identity,))
        self._unwritten.discard(identity)
        self._intents.pop(identity, None)

    @contextmanager
    def _knowing(self, edges: Iterable[Edge]) -> Iterator[None]:
        """A transaction after which these edges are not new: what their upstream counts is pending until it is delivered."""
        new = [edge for edge in edges if edge not in self._delivered]
        with self._transaction():
            self._db.executemany("insert or replace into delivered values (?, ?, ?, 0)", new)
            yield
        self._delivered.update(dict.fromkeys(new, 0))

    # -- actions -----------------------------------------------------------------------------------------------

    def done(self, identity: str, digest: str, at: float) -> None:
        """An action of this declaration has succeeded, at this Unix time."""
        self._actions[identity] = (digest, at)
        self._db.execute("insert or replace into action values (?, ?, ?)", (identity, digest, at))

    def done_at(self, identity: str, digest: str) -> float | None:
        """When the action last succeeded with this declaration (Unix time); None: never."""
        known, at = self._actions.get(identity, ("", 0.0))
        return at if known == digest else None

    # -- values ------------------------------------------------------------------------------------------------

    def send(self, identity: str, values: Mapping[str, Any]) -> None:
        """A resource has sent these values, and no others any more."""
        self._db.execute("insert or replace into sent values (?, ?)", (identity, json.dumps(values)))
        self._sent[identity] = dict(values)

    def sent(self, identity: str) -> Mapping[str, Any]:
        """What a resource has sent last."""
        return self._sent.get(identity, {})

    def receive(self, identity: str, digests: Mapping[str, str]) -> None:
        """A resource has run well with these values of these arguments."""
        rows = [(identity, argument, digest) for argument, digest in digests.items()]
        self._db.executemany("insert or replace into received values (?, ?, ?)", rows)
        self._received |= {(identity, argument): digest for argument, digest in digests.items()}

    def received(self, identity: str, argument: str) -> str | None:
        """The digest of the value with which it last ran well."""
        return self._received.get((identity, argument))

    # -- reversals ---------------------------------------------------------------------------------------------

    async def secure(self) -> None:
        """All that was written until now is on the disk when this returns. Raises `OSError` when that fails."""
        if self._flush:
            await self._flush.wait(self._flush.written())

    def remember(self, reversal: Reversal) -> None:
        """What was before this resource is put right for the first time."""
        kind, arguments, kept = reversal.declaration
        row = (reversal.identity, reversal.name, kind, json.dumps(arguments), kept)
        self._db.execute("insert or replace into reversals values (?, ?, ?, ?, ?)", row)
        self.reversals[reversal.identity, reversal.name] = reversal

    def forget(self, reversal: Reversal) -> None:
        """It is undone, or is not to be any more."""
        self._db.execute("delete from reversals where identity = ? and name = ?", (reversal.identity, reversal.name))
        self.reversals.pop((reversal.identity, reversal.name), None)

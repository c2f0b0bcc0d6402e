"""What the engine must not forget: who changed, who was told, which actions are done.

Resources go by keys, which stay theirs when their IDs change (`ends`). Each resource has a counter of its changes and one of its failures;
each edge that carries them remembers how far it has delivered. A refresh is pending while the one is ahead of the other, so it survives a failed attempt, a swap of the graph, a
restart, a kill -9 and a loss of power. Before a resource that somebody listens to is changed, the intent is written down: an
agent that died in the middle of a change counts it as made, which delivers the refresh at least once.

Everything is kept in memory, which alone decides, and written behind to one SQLite file (`store.py`); without a path, in memory alone.
Only two things must be on the disk before the machine is changed: the intent, with the edges that would carry the change, and what a
resource that is to be undone some day was before. What a crash or a loss of power may take of the rest, always the latest, is found out
again: a change whose intent stands still counts as made, a delivery is made again, an action is done again.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.agent.engine.deliver.database import Database, Statement
from holdfast.agent.engine.deliver.store import Blocking, Store, Unwritable
from holdfast.agent.engine.deliver.tables import BY_IDENTITY, INSERT, SCHEMA, SELECT, Reversal, Row, Rows, reversal_row
from holdfast.agent.engine.model import edge_keys as ends
from holdfast.agent.engine.model.edge_keys import DAY, Edge, End, Owed, Settlement
from holdfast.resources.traits import Declaration


class Adoption(NamedTuple):
    """What came of taking over new states."""

    keys: Mapping[str, str]
    """Identity -> key."""
    dropped: tuple[Owed, ...]
    """What was owed and is not any more."""


class Journal:
    """The engine's memory. Raises `sqlite3.Error` when the file cannot be read; later errors are told by `trouble`.

    `durable` says whether it has to outlive a loss of power; `blocking` makes the calls that wait for the disk. `copied` are the rows of
    another journal to begin with, without a file; what is being changed there is not its business.
    """

    def __init__(
        self,
        path: Path | None = None,
        *,
        durable: bool = True,
        blocking: Blocking = asyncio.to_thread,
        copied: Rows | None = None,
    ) -> None:
        self._listeners: list[Callable[[], None]] = []
        self.writable = asyncio.Event()
        """Set while the file can be written."""
        self.writable.set()
        self._changes: dict[str, int] = {}
        self._failures: dict[str, int] = {}
        self._delivered: dict[Edge, int] = {}
        self._actions: dict[str, tuple[str, float]] = {}
        self._sent: dict[str, dict[str, Any]] = {}
        self._received: dict[tuple[str, str], str] = {}
        self.reversals: dict[tuple[str, str], Reversal] = {}
        """By identity and name of the states that are to be undone when they leave, those first that were changed first."""
        self.pauses: dict[str, Row] = {}
        """Pattern -> the pause of an operator that holds for it."""
        self._failing: set[str] = set()
        self._ends: dict[str, End] = {}
        self._adopted: float | None = None
        """When states were last taken over, by the monotonic clock."""
        self._adopted_at: float | None = None
        """The same as Unix time, perhaps by another agent."""
        self._intents: set[str] = set()
        """Resources that may be changed now."""
        self.interrupted: tuple[str, ...] = ()
        """Resources whose change was under way when the agent last died; counted as changed."""
        self._store: Store | None = None
        if path is not None:
            database = Database(path, SCHEMA, durable=durable)
            try:
                rows = {table: database.read(query) for table, query in SELECT.items()}
            except BaseException:
                database.close()
                raise
            self._load(rows)
            self._store = Store(database, self._everything, blocking, self._tell)
            self.interrupted = tuple(identity for (identity,) in rows["intent"])
            for identity in self.interrupted:
                self.changed(identity)
        elif copied is not None:
            self._load(copied)

    def _load(self, rows: Rows) -> None:
        """Take over what was written."""
        for identity, changes, failures in rows["counter"]:
            self._changes[identity], self._failures[identity] = changes, failures
        self._delivered = {(up, down, kind): count for up, down, kind, count in rows["delivered"]}
        self._actions = {identity: (digest, at) for identity, digest, at in rows["action"]}
        self._sent = {identity: json.loads(values) for identity, values in rows["sent"]}
        self._received = {(identity, argument): digest for identity, argument, digest in rows["received"]}
        self.reversals = {
            (i, n): Reversal(i, n, Declaration(k, json.loads(a), kept)) for i, n, k, a, kept in rows["reversals"]
        }
        self.pauses = {
            row[0]: row for row in rows.get("paused", ())
        }  # a copy from an agent of before an upgrade has none
        self._failing = {identity for (identity,) in rows["failing"]}
        self._ends = {key: End(*end) for key, *end in rows["ends"]}
        self._adopted_at = max((at for (at,) in rows["adopted"]), default=None)

    def _everything(self) -> list[Statement]:
        """The statements that make the content of the file from memory, whatever it says now."""
        rows = self.rows()
        statements: list[Statement] = [(f"delete from {table}", [()]) for table in rows]  # noqa: S608 - ours
        return statements + [(INSERT[table], found) for table, found in rows.items()]

    def rows(self) -> Rows:
        """All that is to be in the file."""
        return {
            "counter": [self._counter(identity) for identity in {*self._changes, *self._failures}],
            "delivered": [(*edge, count) for edge, count in self._delivered.items()],
            "failing": [(identity,) for identity in self._failing],
            "intent": [(identity,) for identity in self._intents],
            "reversals": [reversal_row(reversal) for reversal in self.reversals.values()],
            "sent": [(identity, json.dumps(values)) for identity, values in self._sent.items()],
            "received": [(*key, digest) for key, digest in self._received.items()],
            "action": [(identity, *done) for identity, done in self._actions.items()],
            "ends": [(key, *end) for key, end in self._ends.items()],
            "paused": [*self.pauses.values()],
            "adopted": [(self._adopted_at,)] if self._adopted_at is not None else [],
        }

    def _put(self, table: str, *rows: Row) -> None:
        """Write rows, in place of those with the same key."""
        if rows and self._store:
            self._store.add(INSERT[table], rows)

    def _drop(self, table: str, where: str, *rows: Row) -> None:
        """Delete the rows for which this holds."""
        if rows and self._store:
            self._store.add(f"delete from {table} where {where}", rows)  # noqa: S608 - both are ours

    # -- the file ----------------------------------------------------------------------------------------------

    @property
    def trouble(self) -> str:
        """Why the file cannot be written now; empty while it can."""
        return self._store.trouble if self._store else ""

    @property
    def renewed(self) -> str:
        """What had happened to the file; empty but when it is told that it was made anew from memory."""
        return self._store.renewed if self._store else ""

    def listen(self, told: Callable[[], None]) -> None:
        """Have this called when `trouble` or `renewed` changes."""
        self._listeners.append(told)

    def _tell(self) -> None:
        (self.writable.clear if self.trouble else self.writable.set)()
        for told in self._listeners:
            told()

    def check(self) -> None:
        """Look soon whether somebody else has changed the file; it is made anew from memory then."""
        if self._store:
            self._store.check()

    async def secure(self) -> None:
        """All that was written until now is on the disk when this returns. Raises `Unwritable`."""
        if self._store:
            await self._store.secure()

    def close(self) -> None:
        """Write what is left, and close the file."""
        if self._store:
            self._store.close()

    # -- edges -------------------------------------------------------------------------------------------------

    def adopt(
        self,
        edges: Iterable[Edge],
        declared: Mapping[str, str],
        others: Iterable[tuple[str, str]] = (),
        *,
        whole: bool = True,
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

    @property
    def at_rest(self) -> bool:
        """Taking over the same states again would change nothing: states were taken over, and all that is remembered is declared."""
        return self._adopted is not None and all(end.absent is None for end in self._ends.values())

    @property
    def known(self) -> bool:
        """Something is remembered of at least one resource."""
        return bool(self._known() or self.reversals)

    def _known(self) -> dict[str, End]:
        """All ends. Of those in an older journal, and of what had left when it was written down, only the key is known."""
        bearing = (key for edge in self._delivered for key in edge[:2])
        unnamed = {
            *self._changes,
            *bearing,
            *self._actions,
            *self._sent,
            *(key for key, _ in self._received),
        } - self._ends.keys()
        return {**self._ends, **{key: End("", key, 0.0) for key in unnamed}}

    def _since_adoption(self) -> float:
        """Seconds since states were last taken over; across a restart a day at most, for the clock of the world may jump."""
        if self._adopted is not None:
            return time.monotonic() - self._adopted
        return min(max(0.0, time.time() - (self._adopted_at or time.time())), DAY)

    def _take_over(
        self, found: Settlement, after: dict[str, End], present: Collection[str], carriers: Collection[str]
    ) -> None:
        """Settle edges and ends; forget the counters of those that carry nothing, and the rest of those that are not present."""
        named = [(key, *end) for key, end in after.items() if end != self._ends.get(key)]
        lost = [key for key in self._ends if key not in after]
        unwatched = [key for key in {*self._changes, *self._failures} if key not in carriers]
        forgotten = [key for key in self._actions if key not in present]
        silent = [key for key in self._sent if key not in present]
        deaf = [each for each in self._received if each[0] not in present]
        if not (found.put or found.gone or named or lost or unwatched or forgotten or silent or deaf):
            return
        self._put("delivered", *((*edge, count) for edge, count in found.put.items()))
        self._drop("delivered", "upstream = ? and downstream = ? and kind = ?", *found.gone)
        self._put("ends", *named)
        self._drop("ends", "key = ?", *((key,) for key in lost))
        self._drop("received", "identity = ? and argument = ?", *deaf)
        for table, keys in (("counter", unwatched), ("failing", unwatched), ("action", forgotten), ("sent", silent)):
            self._drop(table, BY_IDENTITY, *((key,) for key in keys))
        self._adopted_at = time.time()
        self._drop("adopted", "true", ())
        self._put("adopted", (self._adopted_at,))
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

    def owed(self) -> list[Owed]:
        """All that is owed."""
        return [ends.named(edge, self._ends) for edge in sorted(self._delivered) if self.pending(edge)]

    def name(self, named: Mapping[str, tuple[str, str]]) -> None:
        """Keys of resources that states may not declare yet, each with its thing and its identity."""
        new = {key: End(*end, 0.0) for key, end in named.items() if key not in self._ends}
        self._ends.update(new)
        self._put("ends", *((key, *end) for key, end in new.items()))

    def absorb(self, other: Journal) -> None:
        """Owe what another journal owes, and know what it alone knows. Its keys are identities."""
        for edge in other._delivered:
            if other.pending(edge) and edge[2] != "onfail" and not self.pending(edge):
                told = [
                    each for each in self._delivered if each[0] == edge[0] and each != edge and not self.pending(each)
                ]
                self.changed(edge[0], [edge])
                self.deliver((each, self.count(each)) for each in told)
        for key, action in other._actions.items():
            if key not in self._actions:
                self.done(key, *action)
        for key, values in other._sent.items():
            if key not in self._sent:
                self.send(key, values)
        for (key, argument), digest in other._received.items():
            if (key, argument) not in self._received:
                self.receive(key, {argument: digest})

    def deliver(self, seen: Iterable[tuple[Edge, int]]) -> None:
        """The downstream has acted on the upstream's changes up to these counts."""
        for edge, count in seen:
            count = min(count, self._count(edge))  # noqa: PLW2901 - the upstream may have been forgotten meanwhile
            if count > self._delivered.get(edge, 0):
                self._deliver({edge: count})

    def _count(self, edge: Edge) -> int:
        return (self._failures if edge[2] == "onfail" else self._changes).get(edge[0], 0)

    def _deliver(self, counts: Mapping[Edge, int]) -> None:
        self._delivered.update(counts)
        self._put("delivered", *((*edge, count) for edge, count in counts.items()))

    # -- resources ---------------------------------------------------------------------------------------------

    async def announce(self, identity: str, edges: Iterable[Edge]) -> None:
        """It may be changed once this returns; `edges` are those that would carry it. Raises `Unwritable`."""
        new = identity not in self._intents
        if new:
            self.intend(identity, edges)
        try:
            await self.secure()
        except Unwritable:
            if new:  # else it may have been changed already
                self.unchanged(identity)
            raise

    def intend(self, identity: str, edges: Iterable[Edge] = ()) -> None:
        """Write down that it may be changed."""
        self._know(edges)
        self._intents.add(identity)
        self._put("intent", (identity,))

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
            self._failing.discard(identity)
            self._drop("failing", BY_IDENTITY, (identity,))

    def unchanged(self, identity: str) -> None:
        """The intended change did not happen."""
        if identity in self._intents:
            self._intents.discard(identity)
            self._drop("intent", BY_IDENTITY, (identity,))

    def _bump(self, identity: str, edges: Iterable[Edge]) -> None:
        self._know(edges)
        self._put("counter", self._counter(identity))
        if identity in self._failing:
            self._put("failing", (identity,))
        self._intents.discard(identity)
        self._drop("intent", BY_IDENTITY, (identity,))

    def _counter(self, identity: str) -> Row:
        return (identity, self._changes.get(identity, 0), self._failures.get(identity, 0))

    def _know(self, edges: Iterable[Edge]) -> None:
        """These edges are not new from now on: what their upstream counts is pending until it is delivered."""
        self._deliver({edge: 0 for edge in edges if edge not in self._delivered})

    # -- actions -----------------------------------------------------------------------------------------------

    def done(self, identity: str, digest: str, at: float) -> None:
        """An action of this declaration has succeeded, at this Unix time."""
        self._actions[identity] = (digest, at)
        self._put("action", (identity, digest, at))

    def done_at(self, identity: str, digest: str) -> float | None:
        """When the action last succeeded with this declaration (Unix time); None: never."""
        known, at = self._actions.get(identity, ("", 0.0))
        return at if known == digest else None

    # -- values ------------------------------------------------------------------------------------------------

    def send(self, identity: str, values: Mapping[str, Any]) -> None:
        """A resource has sent these values, and no others any more."""
        self._sent[identity] = dict(values)
        self._put("sent", (identity, json.dumps(values)))

    def sent(self, identity: str) -> Mapping[str, Any]:
        """What a resource has sent last."""
        return self._sent.get(identity, {})

    def receive(self, identity: str, digests: Mapping[str, str]) -> None:
        """A resource has run well with these values of these arguments."""
        self._received |= {(identity, argument): digest for argument, digest in digests.items()}
        self._put("received", *((identity, argument, digest) for argument, digest in digests.items()))

    def received(self, identity: str, argument: str) -> str | None:
        """The digest of the value with which it last ran well."""
        return self._received.get((identity, argument))

    # -- pauses ------------------------------------------------------------------------------------------------

    def pause(self, row: Row) -> None:
        """An operator has paused what a pattern names."""
        self.pauses[row[0]] = tuple(row)
        self._put("paused", tuple(row))

    def resume(self, pattern: str) -> None:
        """That pause is over."""
        self.pauses.pop(pattern, None)
        self._drop("paused", "pattern = ?", (pattern,))

    # -- reversals ---------------------------------------------------------------------------------------------

    async def keep(self, reversal: Reversal) -> None:
        """What was before this resource is put right for the first time is on the disk when this returns. Raises `Unwritable`."""
        self.remember(reversal)
        try:
            await self.secure()
        except Unwritable:
            self.forget(reversal)
            raise

    def remember(self, reversal: Reversal) -> None:
        """What was before this resource is put right for the first time."""
        self.reversals[reversal.identity, reversal.name] = reversal
        self._put("reversals", reversal_row(reversal))

    def forget(self, reversal: Reversal) -> None:
        """It is undone, or is not to be any more."""
        self.reversals.pop((reversal.identity, reversal.name), None)
        self._drop("reversals", "identity = ? and name = ?", (reversal.identity, reversal.name))

"""The durable record of the engine: changes, deliveries and finished actions.

Resources are identified by keys, which stay the same if their IDs change (`ends`). Each resource has a counter of its
changes and one of its failures; each edge that carries them records the count that it has delivered. A delivery is
pending while the counter of the upstream is ahead of the edge. So a refresh survives a failed attempt, a swap of the
graph, a restart, a kill -9 and a loss of power. Before a resource with subscribers is changed, the journal records the
intent. If the agent dies during the change, the next agent counts the change as made, and so the refresh is delivered
at least once.

All data is kept in memory, which is authoritative, and is written to one SQLite file in the background (`store.py`);
without a path, there is no file. Only two records must be on the disk before the machine is changed: the intent, with
the edges that would carry the change, and the previous state of a resource that may be undone later. Other recent
records may be lost in a crash or a loss of power. The engine recovers from that: a change with an intent counts as
made, a delivery is made again, and an action runs again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.agent.engine.deliver import tables
from holdfast.agent.engine.deliver.database import Database, Statement
from holdfast.agent.engine.deliver.store import Blocking, Store, Unwritable
from holdfast.agent.engine.deliver.tables import SCHEMA, Columns, Counts, Key, Reversal, Row, Rows, Table, Value
from holdfast.agent.engine.model import edge_keys as ends
from holdfast.agent.engine.model.edge_keys import DAY, Adoption, Edge, End, PendingDelivery, Settlement
from holdfast.states.requisite_kinds import ON_FAILURE

NONE = Counts()
"""The counts of a resource that has neither changed nor failed."""


class Journal:
    """The journal of one engine. Raises `sqlite3.Error` if the file cannot be read; `trouble` reports later errors.

    `durable`: whether the file must survive a loss of power. `blocking` runs the calls that wait for the disk.
    `copied`: rows of another journal to start with, if there is no path; its intents are ignored.
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
        self._tables: list[Table[Any, Any]] = []
        self._counters = self._table(tables.COUNTER)
        self._delivered = self._table(tables.DELIVERED)
        self._failing = self._table(tables.FAILING)
        self._intents = self._table(tables.INTENT)
        """Keys of resources that may be changed now."""
        self._actions = self._table(tables.ACTION)
        self._sent = self._table(tables.SENT)
        self._received = self._table(tables.RECEIVED)
        self._ends = self._table(tables.ENDS)
        self._adopted_at = self._table(tables.ADOPTED)
        """Unix time of the last adoption, perhaps by an earlier process."""
        self.reversals = self._table(tables.REVERSALS)
        """(identity, name) of a state to undo when it is removed -> its reversal; in order of first repairs."""
        self.pauses = self._table(tables.PAUSED)
        """Pattern -> row of the pause that an operator has set for it."""
        self._adopted: float | None = None
        """Time of the last adoption by this process, on the monotonic clock."""
        self.interrupted: tuple[str, ...] = ()
        """Keys of resources that were being changed when the agent last died; they count as changed."""
        self._store: Store | None = None
        if path is not None:
            database = Database(path, SCHEMA, durable=durable)
            try:
                rows = {table.columns.table: database.read(table.columns.select) for table in self._tables}
            except BaseException:
                database.close()
                raise
            self._load(rows)
            self._store = Store(database, self._everything, blocking, self._tell)
            self.interrupted = tuple(self._intents)
            for identity in self.interrupted:
                self.changed(identity)
        elif copied is not None:
            self._load({**copied, tables.INTENT.table: ()})

    def _table(self, columns: Columns[Key, Value]) -> Table[Key, Value]:
        """Return a new table of this journal."""
        table = Table(columns, self._write)
        self._tables.append(table)
        return table

    def _load(self, rows: Rows) -> None:
        """Fill the memory from rows."""
        for table in self._tables:
            table.load(rows.get(table.columns.table, ()))  # a copy from an older agent may lack a table

    def _everything(self) -> list[Statement]:
        """Return the statements that replace the content of the file with that of the memory."""
        rows = self.rows()
        statements: list[Statement] = [(f"delete from {table}", [()]) for table in rows]  # noqa: S608 - ours
        return statements + [(table.columns.insert, rows[table.columns.table]) for table in self._tables]

    def rows(self) -> Rows:
        """Return all rows that belong in the file."""
        return {table.columns.table: table.rows() for table in self._tables}

    def _write(self, statement: str, rows: Sequence[Row]) -> None:
        if self._store:
            self._store.add(statement, rows)

    # -- the file ----------------------------------------------------------------------------------------------

    @property
    def trouble(self) -> str:
        """Why the file cannot be written now; empty while it can."""
        return self._store.trouble if self._store else ""

    @property
    def renewed(self) -> str:
        """Why the file was recreated from memory; set only while listeners are called for that."""
        return self._store.renewed if self._store else ""

    def listen(self, callback: Callable[[], None]) -> None:
        """Call `callback` whenever `trouble` or `renewed` changes."""
        self._listeners.append(callback)

    def _tell(self) -> None:
        (self.writable.clear if self.trouble else self.writable.set)()
        for callback in self._listeners:
            callback()

    def check(self) -> None:
        """Check soon whether another program has changed the file; if so, recreate the file from memory."""
        if self._store:
            self._store.check()

    async def secure(self) -> None:
        """Return once everything written so far is on the disk. Raises `Unwritable`."""
        if self._store:
            await self._store.secure()

    def close(self) -> None:
        """Write the remaining statements and close the file."""
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
        """Take over new states.

        `edges` are given by identities. `declared` maps the identity to the `thing` of each resource about which the
        journal records something; `others` are the other resources. A new edge has no pending deliveries. Records of
        removed edges and resources are forgotten, except for deliveries that are due; if these are only a part of the
        states (not `whole`), nothing is forgotten. An action that is removed and declared again is a new one.
        """
        known = self._known()
        everything = {**declared, **ends.matching(known, declared, others)}
        keys = ends.pair(known, everything)
        present = set(keys.values())
        current = {(keys[upstream], keys[downstream], kind) for upstream, downstream, kind in edges}
        after = ends.age(known, everything, keys, self._since_adoption() if whole else None)
        found = ends.settle(self._delivered, current, self.count, after, present, whole=whole)
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
        """Return whether adopting the same states again would change nothing: all recorded resources are declared."""
        return self._adopted is not None and all(end.absent is None for end in self._ends.values())

    @property
    def known(self) -> bool:
        """Return whether the journal records something about at least one resource."""
        return bool(self._known() or self.reversals)

    def _known(self) -> dict[str, End]:
        """Return all ends.

        Some have only a key: those of older journals, and of resources removed before they were recorded.
        """
        bearing = (key for edge in self._delivered for key in edge[:2])
        unnamed = {
            *self._counters,
            *bearing,
            *self._actions,
            *self._sent,
            *(key for key, _ in self._received),
        } - self._ends.keys()
        return {**self._ends, **{key: End("", key, 0.0) for key in unnamed}}

    def _since_adoption(self) -> float:
        """Return the seconds since the last adoption; across a restart at most `DAY`, as the system clock may jump."""
        if self._adopted is not None:
            return time.monotonic() - self._adopted
        now = time.time()
        return min(max(0.0, now - self._adopted_at.get((), now)), DAY)

    def _take_over(
        self, found: Settlement, after: dict[str, End], present: Collection[str], carriers: Collection[str]
    ) -> None:
        """Store edges and ends; forget records that are no longer needed.

        Counters are kept for `carriers` only; actions and values are kept for resources that are `present` only.
        """
        written = (
            self._delivered.put(found.put)
            + self._delivered.drop(found.gone)
            + self._ends.put({key: end for key, end in after.items() if end != self._ends.get(key)})
            + self._ends.keep(after)
            + self._counters.keep(carriers)
            + self._failing.keep(carriers)
            + self._actions.keep(present)
            + self._sent.keep(present)
            + self._received.drop([each for each in self._received if each[0] not in present])
        )
        if written:
            self._adopted_at.drop([()])
            self._adopted_at.put({(): time.time()})

    def pending(self, edge: Edge) -> bool:
        """Return whether the upstream has changed (for onfail: failed) since the last delivery of this edge."""
        return self.count(edge) > self._delivered.get(edge, 0)

    def behind(self, edge: Edge) -> int:
        """Return the number of changes (for onfail: failures) of the upstream that this edge has not delivered."""
        return max(0, self.count(edge) - self._delivered.get(edge, 0))

    def count(self, edge: Edge) -> int:
        """Return the count of the upstream, for `deliver` after the downstream has acted on it."""
        counts = self._counters.get(edge[0], NONE)
        return counts.failures if edge[2] in ON_FAILURE else counts.changes

    def pending_deliveries(self) -> list[PendingDelivery]:
        """Return all deliveries that are due."""
        return [ends.named(edge, self._ends) for edge in sorted(self._delivered) if self.pending(edge)]

    def name(self, named: Mapping[str, tuple[str, str]]) -> None:
        """Record keys of resources that states may not declare yet: key -> (thing, identity)."""
        self._ends.put_new({key: End(*end, 0.0) for key, end in named.items()})

    def absorb(self, other: Journal) -> None:
        """Take over due deliveries of another journal, and records that exist only there. Its keys are identities."""
        for edge in other._delivered:
            if other.pending(edge) and edge[2] not in ON_FAILURE and not self.pending(edge):
                delivered = [
                    each for each in self._delivered if each[0] == edge[0] and each != edge and not self.pending(each)
                ]
                self.changed(edge[0], [edge])
                self.deliver((each, self.count(each)) for each in delivered)
        self._actions.put_new(other._actions)
        self._sent.put_new(other._sent)
        self._received.put_new(other._received)

    def deliver(self, seen: Iterable[tuple[Edge, int]]) -> None:
        """Record that the downstream has acted on the changes of the upstream up to these counts."""
        for edge, count in seen:
            count = min(count, self.count(edge))  # noqa: PLW2901 - the upstream may have been forgotten in the meantime
            if count > self._delivered.get(edge, 0):
                self._delivered.put({edge: count})

    # -- resources ---------------------------------------------------------------------------------------------

    async def announce(self, identity: str, edges: Iterable[Edge]) -> None:
        """Record durably that the resource may change; `edges` would carry the change.

        The resource may be changed once this returns. Raises `Unwritable`.
        """
        new = identity not in self._intents
        if new:
            self.intend(identity, edges)
        try:
            await self.secure()
        except Unwritable:
            if new:  # otherwise an earlier attempt may have changed the resource
                self.unchanged(identity)
            raise

    def intend(self, identity: str, edges: Iterable[Edge] = ()) -> None:
        """Record that the resource may change."""
        self._know(edges)
        self._intents.put({identity: None})

    def intended(self, identity: str) -> bool:
        """Return whether the resource may have changed, and no result has been recorded yet."""
        return identity in self._intents

    def changed(self, identity: str, edges: Iterable[Edge] = ()) -> None:
        """Count a change of the resource; `edges` carry the change."""
        counts = self._counters.get(identity, NONE)
        self._bump(identity, counts._replace(changes=counts.changes + 1), edges)

    def failed(self, identity: str, edges: Iterable[Edge] = ()) -> None:
        """Count a failure of a resource that had not failed before; `edges` carry the failure."""
        counts = self._counters.get(identity, NONE)
        self._failing.put({identity: None})
        self._bump(identity, counts._replace(failures=counts.failures + 1), edges)

    def failing(self, identity: str) -> bool:
        """Return whether the resource has failed and not succeeded since, also across restarts of the agent."""
        return identity in self._failing

    def recovered(self, identity: str) -> None:
        """Record that the resource no longer fails."""
        self._failing.drop([identity])

    def unchanged(self, identity: str) -> None:
        """Record that the intended change was not made."""
        self._intents.drop([identity])

    def _bump(self, identity: str, counts: Counts, edges: Iterable[Edge]) -> None:
        self._know(edges)
        self._counters.put({identity: counts})
        self._intents.drop([identity])

    def _know(self, edges: Iterable[Edge]) -> None:
        """Record new edges: what their upstreams count from now on is pending until it is delivered."""
        self._delivered.put_new(dict.fromkeys(edges, 0))

    # -- actions -----------------------------------------------------------------------------------------------

    def done(self, identity: str, digest: str, at: float) -> None:
        """Record that the action with this declaration succeeded at this Unix time."""
        self._actions.put({identity: (digest, at)})

    def done_at(self, identity: str, digest: str) -> float | None:
        """Return the Unix time of the last success of the action with this declaration; None if there was none."""
        known, at = self._actions.get(identity, ("", 0.0))
        return at if known == digest else None

    # -- values ------------------------------------------------------------------------------------------------

    def send(self, identity: str, values: Mapping[str, Any]) -> None:
        """Record the values that a resource has sent; they replace all earlier values."""
        self._sent.put({identity: dict(values)})

    def sent(self, identity: str) -> Mapping[str, Any]:
        """Return the values that a resource sent last."""
        return self._sent.get(identity, {})

    def receive(self, identity: str, digests: Mapping[str, str]) -> None:
        """Record the digests of the values with which a resource has run successfully, by argument."""
        self._received.put({(identity, argument): digest for argument, digest in digests.items()})

    def received(self, identity: str, argument: str) -> str | None:
        """Return the digest of the value with which the resource last ran successfully; None if there is none."""
        return self._received.get((identity, argument))

    # -- pauses ------------------------------------------------------------------------------------------------

    def pause(self, row: Row) -> None:
        """Record that an operator has paused the resources that match a pattern."""
        self.pauses.put({row[0]: tuple(row)})

    def resume(self, pattern: str) -> None:
        """Record that the pause of a pattern is over."""
        self.pauses.drop([pattern])

    # -- reversals ---------------------------------------------------------------------------------------------

    async def keep(self, reversal: Reversal) -> None:
        """Record the previous state of a resource durably, before its first repair. Raises `Unwritable`."""
        self.remember(reversal)
        try:
            await self.secure()
        except Unwritable:
            self.forget(reversal)
            raise

    def remember(self, reversal: Reversal) -> None:
        """Record the previous state of a resource, before its first repair."""
        self.reversals.put({(reversal.identity, reversal.name): reversal})

    def forget(self, reversal: Reversal) -> None:
        """Remove a reversal: the state has been undone, or is not to be undone any longer."""
        self.reversals.drop([(reversal.identity, reversal.name)])

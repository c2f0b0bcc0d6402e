"""A database in memory, for tests and as the reference for others. Its history is bounded."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from holdfast.agent.northbound.drivers.base import (
    DbTransaction,
    Delete,
    Driver,
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
from holdfast.agent.northbound.drivers.recent import RecentChanges
from holdfast.agent.northbound.errors import Compacted


@dataclass
class _Lease:
    ttl: float
    timer: asyncio.TimerHandle
    rows: set[tuple[str, str]] = field(default_factory=set)


class Memory:
    """The content, which several drivers can share as several processes share a database."""

    def __init__(self, room: int = 16 << 20) -> None:
        self.history = RecentChanges(room=room)
        self.rows: dict[tuple[str, str], TableRow] = {}
        self.leases: dict[int, _Lease] = {}
        self.lease_numbers = itertools.count(1)

    @property
    def revision(self) -> int:
        """The number of transactions that changed something."""
        return self.history.revision

    def write(self, writes: Sequence[Put | Delete]) -> None:
        """Make the writes of one transaction."""
        changes = []
        revision = self.revision + 1
        for write in writes:
            key = (write.table, write.id)
            before = self.rows.pop(key, None)
            for lease in self.leases.values():
                lease.rows.discard(key)
            if isinstance(write, Put):
                created = before.created if before else revision
                self.rows[key] = TableRow(write.table, write.id, write.data, revision, created)
                if write.lease:
                    self.leases[write.lease].rows.add(key)
                changes.append(RowChange(*key, self.rows[key]))
            elif before:
                changes.append(RowChange(*key, None))
        if changes:
            self.history.append([WatchBatch(revision, changes)])


class MemoryDriver(Driver):
    """Transactions and watches of a `Memory`."""

    def __init__(self, memory: Memory | None = None) -> None:
        self.memory = memory or Memory()
        self._closed = False

    async def open(self) -> None:
        """Do nothing."""
        self._closed = False

    async def close(self) -> None:
        """End all watches."""
        self._closed = True
        self.memory.history.wake()

    async def read(self, tables: Sequence[str] | None = None) -> Snapshot:
        """Return the rows."""
        rows = [row for row in self.memory.rows.values() if tables is None or row.table in tables]
        return Snapshot(self.memory.revision, rows)

    async def scan(
        self, table: str, *, after: str = "", before: str = "", limit: int = 100, newest: bool = False
    ) -> Sequence[TableRow]:
        """Return rows in the order of their IDs."""
        found = [row for row in self.memory.rows.values() if row.table == table and row.id > after]
        found = [row for row in found if not before or row.id < before]
        return sorted(found, key=lambda row: row.id.encode(), reverse=newest)[:limit]

    async def get(self, table: str, id: str) -> TableRow | None:
        """Return a row."""
        return self.memory.rows.get((table, id))

    async def commit(self, transaction: DbTransaction) -> int:
        """Check the conditions, then write."""
        transaction.demand_valid(self.limits)
        memory = self.memory
        leases = {write.lease for write in transaction.writes if isinstance(write, Put)} | {transaction.require_lease}
        if ended := leases - {0} - memory.leases.keys():
            raise LeaseEnded(f"the lease {min(ended)} has ended")
        for condition in transaction.conditions:
            demand_holds(condition, self._current(condition))
        memory.write(transaction.writes)
        return memory.revision

    def _current(self, condition: Expect | Unchanged) -> int:
        if isinstance(condition, Expect):
            row = self.memory.rows.get((condition.table, condition.id))
            return row.revision if row else 0
        return max((row.revision for row in self.memory.rows.values() if row.table == condition.table), default=0)

    async def watch(self, after: int, tables: Sequence[str] | None = None) -> AsyncIterator[WatchBatch]:
        """Yield the history and what follows."""
        history, armed = self.memory.history, False
        while not self._closed:
            grown, batches = history.grown, history.after(after)
            if batches is None:
                raise Compacted(after, history.start)
            if not armed:
                armed = True
                yield WatchBatch(after, ())
            for batch in batches:
                wanted = [each for each in batch.changes if tables is None or each.table in tables]
                after = batch.revision
                yield WatchBatch(after, wanted)
            if not batches:
                await grown.wait()

    async def compact(self, before: int) -> None:
        """Forget the older part of the history."""
        self.memory.history.forget(min(before - 1, self.memory.revision))

    async def grant(self, ttl: float) -> int:
        """Return a new lease."""
        lease = next(self.memory.lease_numbers)
        self.memory.leases[lease] = _Lease(ttl, self._timer(lease, ttl))
        return lease

    async def keep_alive(self, lease: int) -> None:
        """Restart the time of a lease."""
        known = self.memory.leases.get(lease)
        if known is None:
            raise LeaseEnded(f"the lease {lease} has ended")
        known.timer.cancel()
        known.timer = self._timer(lease, known.ttl)

    async def revoke(self, lease: int) -> None:
        """End a lease."""
        self._end(lease)

    def _timer(self, lease: int, ttl: float) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(ttl, self._end, lease)

    def _end(self, lease: int) -> None:
        known = self.memory.leases.pop(lease, None)
        if known:
            known.timer.cancel()
            self.memory.write([Delete(*key) for key in known.rows])

"""The database of many machines: etcd 3, over gRPC.

A record is the value of `<prefix><table>/<id>`; revisions, transactions, watches and leases are etcd's own. A lease
also has a key, `<prefix>$lease/<number>`, because a condition of etcd can ask for a key but not for a lease.
"""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import grpc

from holdfast.agent.northbound.drivers.base import (
    ConditionFailed,
    DbTransaction,
    Driver,
    Expect,
    LeaseEnded,
    Limits,
    Put,
    RowChange,
    Snapshot,
    TableRow,
    Unchanged,
    WatchBatch,
    demand_holds,
)
from holdfast.agent.northbound.drivers.etcd_connection import Access, Connection, Rejected
from holdfast.agent.northbound.drivers.etcd_messages import (
    DELETED,
    EQUAL,
    GREATER,
    LESS,
    MODIFIED,
    VERSION,
    message,
)
from holdfast.agent.northbound.errors import Compacted, Invalid, Unavailable

PREFIX = "/holdfast/nb/"
PAGE = 1000
"""Most rows that one request reads."""
RETRIES = (0.05, 0.2, 0.5, 1.0, 2.0)
"""Seconds between two attempts to resume a watch; the last value repeats."""
ASCENDING, DESCENDING, BY_KEY, BY_REVISION = 1, 2, 0, 3
"""RangeRequest.sort_order and sort_target."""
LEASES = "$lease"
"""The table of the keys of leases."""

RANGE, TXN, COMPACT = "/etcdserverpb.KV/Range", "/etcdserverpb.KV/Txn", "/etcdserverpb.KV/Compact"
WATCH = "/etcdserverpb.Watch/Watch"
GRANT, REVOKE = "/etcdserverpb.Lease/LeaseGrant", "/etcdserverpb.Lease/LeaseRevoke"
KEEP_ALIVE = "/etcdserverpb.Lease/LeaseKeepAlive"


class EtcdDriver(Driver):
    """A cluster, or a part of its keys. `renew` reads the access again, in a thread, before each connection.

    `room`: most bytes that `read` returns. A watch that has received more ends with `Compacted`, so that its consumer
    reads again. So the writes of other hosts take at most twice this memory.
    """

    limits = Limits(operations=128, bytes=1_500_000)

    def __init__(
        self,
        access: Access,
        prefix: str = PREFIX,
        renew: Callable[[], Access] | None = None,
        *,
        room: int = sys.maxsize,
    ) -> None:
        self._prefix, self._room = prefix.encode(), room
        self._connection = Connection(access, renew)
        self._closing = asyncio.Event()
        self.listen: Callable[[], None] = lambda: None
        """Called when `trouble` changes."""

    async def open(self) -> None:
        """Connect. Raises `Unavailable`."""
        self._closing.clear()
        await self._revision()

    async def close(self) -> None:
        """Disconnect; watches end."""
        self._closing.set()
        await self._connection.close()

    async def read(self, tables: Sequence[str] | None = None) -> Snapshot:
        """Return the rows, read page by page at one revision."""
        if tables is not None and not tables:
            return Snapshot(await self._revision(), [])
        revision, rows, size = 0, [], 0
        for table in [None] if tables is None else tables:
            start, end = self._range(table)
            while start:
                try:
                    answer = await self._page(start, end, PAGE, revision=revision)
                except Rejected as error:
                    if "compacted" in error.text:  # the revision of the first page is gone
                        return await self.read(tables)
                    raise Unavailable(f"etcd cannot read: {error.text}") from None
                revision = revision or answer.header.revision
                rows += self._rows(answer.kvs)
                size += sum(len(each.value) for each in answer.kvs)
                if size > self._room:
                    keys = self._range(table)[0].decode()
                    self._tell(f"etcd has more than {self._room} bytes of records: remove some below {keys}")
                    raise Unavailable(self.trouble)
                start = answer.kvs[-1].key + b"\0" if answer.more else b""
        return Snapshot(revision, rows)

    async def scan(
        self, table: str, *, after: str = "", before: str = "", limit: int = 100, newest: bool = False
    ) -> Sequence[TableRow]:
        """Return rows in the order of their IDs."""
        start, end = self._range(table)
        start = self._key(table, after) + b"\0" if after else start
        end = self._key(table, before) if before else end
        order = DESCENDING if newest else ASCENDING
        found: list[TableRow] = []
        while len(found) < limit and start < end:
            try:
                answer = await self._page(start, end, limit - len(found), sort_order=order, sort_target=BY_KEY)
            except Rejected as error:
                raise Unavailable(f"etcd cannot read: {error.text}") from None
            found += self._rows(answer.kvs)
            if not answer.more:
                break
            last = answer.kvs[-1].key
            start, end = (start, last) if newest else (last + b"\0", end)
        return found

    async def get(self, table: str, id: str) -> TableRow | None:
        """Return a row, as the majority of the members has it."""
        answer = await self._ask(RANGE, message["RangeRequest"](key=self._key(table, id)))
        return next(iter(self._rows(answer.kvs)), None)

    async def commit(self, transaction: DbTransaction) -> int:
        """Write in one transaction of etcd."""
        transaction.demand_valid(self.limits)
        conditions = [*transaction.conditions]
        if not transaction.writes and not conditions and not transaction.require_lease:
            return await self._revision()
        if transaction.require_lease:
            conditions.append(Expect(LEASES, str(transaction.require_lease), -1))
        request = message["TxnRequest"](
            compare=[self._compare(each) for each in conditions],
            success=[self._write(each) for each in transaction.writes],
            failure=[self._question(each) for each in conditions],
        )
        try:
            answer = await self._connection.ask(TXN, request, repeatable=not transaction.writes)
        except Rejected as error:
            if error.code is grpc.StatusCode.NOT_FOUND:
                raise LeaseEnded("the lease has ended") from None
            if error.code is grpc.StatusCode.INVALID_ARGUMENT:
                raise Invalid(f"etcd refuses the transaction: {error.text}") from None
            raise Unavailable(f"etcd cannot write: {error.text}") from None
        if answer.succeeded:
            return int(answer.header.revision)
        for condition, found in zip(conditions, answer.responses, strict=True):
            rows = found.response_range.kvs
            try:
                demand_holds(condition, rows[0].mod_revision if rows else 0)
            except ConditionFailed:
                if condition.table == LEASES:
                    raise LeaseEnded("the lease has ended") from None
                raise
        raise Unavailable("etcd refused a transaction whose conditions hold")

    async def watch(self, after: int, tables: Sequence[str] | None = None) -> AsyncIterator[WatchBatch]:
        """Yield changes; the stream is resumed at another member as often as necessary.

        While that fails, `trouble` says why.
        """
        tries, armed, seen = 0, False, _Seen(self._room)
        while not self._closing.is_set():
            try:
                async for batch in self._stream(after, seen):
                    tries = 0
                    self._tell("")
                    if batch.changes or batch.revision > after or not armed:
                        armed, after = True, max(after, batch.revision)
                        wanted = [each for each in batch.changes if _wanted(each.table, tables)]
                        yield WatchBatch(after, wanted)
            except (Unavailable, Rejected) as error:
                self._tell(str(error))
                await self._rest(RETRIES[min(tries, len(RETRIES) - 1)])
                tries += 1

    async def compact(self, before: int) -> None:
        """Make etcd forget the history before a revision."""
        try:
            await self._connection.ask(COMPACT, message["CompactionRequest"](revision=before))
        except Rejected as error:
            if "compacted" not in error.text:
                raise Invalid(f"cannot compact: {error.text}") from None

    async def grant(self, ttl: float) -> int:
        """Return a new lease; etcd counts in whole seconds."""
        answer = await self._ask(GRANT, message["LeaseGrantRequest"](TTL=max(1, math.ceil(ttl))))
        lease = int(answer.ID)
        await self.commit(DbTransaction([Put(LEASES, str(lease), b"", lease)]))
        return lease

    async def keep_alive(self, lease: int) -> None:
        """Restart the time of a lease."""
        try:
            async for answer in self._connection.stream(KEEP_ALIVE, [message["LeaseKeepAliveRequest"](ID=lease)]):
                if answer.TTL <= 0:
                    raise LeaseEnded(f"the lease {lease} has ended")
                return
        except Rejected as error:
            raise Unavailable(f"etcd does not keep the lease: {error.text}") from None
        raise Unavailable("etcd does not keep the lease: the stream has ended")

    async def revoke(self, lease: int) -> None:
        """End a lease."""
        try:
            await self._connection.ask(REVOKE, message["LeaseRevokeRequest"](ID=lease))
        except Rejected as error:
            if error.code is not grpc.StatusCode.NOT_FOUND:
                raise Unavailable(f"etcd does not end the lease: {error.text}") from None

    # -- parts -------------------------------------------------------------------------------------------------

    async def _ask(self, method: str, request: Any) -> Any:
        try:
            return await self._connection.ask(method, request)
        except Rejected as error:
            raise Unavailable(f"etcd refuses: {error.text}") from None

    async def _page(self, start: bytes, end: bytes, limit: int, **options: Any) -> Any:
        """Return the answer with the next rows: fewer than `limit` if they are too large for one message."""
        while True:
            request = message["RangeRequest"](key=start, range_end=end, limit=limit, **options)
            try:
                return await self._connection.ask(RANGE, request)
            except Rejected as error:
                if error.code is not grpc.StatusCode.RESOURCE_EXHAUSTED or limit == 1:
                    raise
                limit = max(1, limit // 4)

    async def _revision(self) -> int:
        """Return the revision of the cluster, as the majority of the members has it."""
        answer = await self._ask(RANGE, message["RangeRequest"](key=self._prefix, count_only=True))
        return int(answer.header.revision)

    async def _demand_reached(self, revision: int) -> None:
        """Raise `Compacted` if the cluster has not reached a revision: it was restored from a backup."""
        reached = await self._revision()
        if reached < revision:
            raise Compacted(revision, reached)

    def _tell(self, trouble: str) -> None:
        if trouble != self.trouble:
            self.trouble = trouble
            self.listen()

    async def _stream(self, after: int, seen: _Seen) -> AsyncIterator[WatchBatch]:
        """Yield the batches of one stream of etcd, of all tables: a consumer learns their revisions, too.

        Raises `Compacted`, `Rejected` and `Unavailable`.
        """
        start, end = self._range(None)
        create = message["WatchCreateRequest"](
            key=start, range_end=end, start_revision=after + 1, progress_notify=True, fragment=True
        )
        parts: list[Any] = []
        async for answer in self._connection.stream(WATCH, [message["WatchRequest"](create_request=create)]):
            if answer.canceled:
                if answer.compact_revision:
                    raise Compacted(after, answer.compact_revision - 1)
                raise Unavailable(f"etcd has ended the watch: {answer.cancel_reason or 'it does not say why'}")
            if answer.created:
                if answer.header.revision < after:  # this member lags behind, or the cluster was restored
                    await self._demand_reached(after)
                yield WatchBatch(after, ())
                continue
            seen.add(answer.events, after)
            parts += answer.events
            if answer.fragment:
                continue
            events, parts = parts, []
            if events:
                changes = [change for each in events if (change := self._change(each))]
                yield WatchBatch(max(each.kv.mod_revision for each in events), changes)
            else:
                yield WatchBatch(answer.header.revision, ())

    async def _rest(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._closing.wait(), seconds)
        except TimeoutError:
            return

    def _key(self, table: str, id: str) -> bytes:
        return self._prefix + f"{table}/{id}".encode()

    def _range(self, table: str | None) -> tuple[bytes, bytes]:
        """Return the first key, and the one behind the last, of a table or of all."""
        start = self._prefix + (f"{table}/".encode() if table is not None else b"")
        return start, start[:-1] + bytes([start[-1] + 1])

    def _name(self, key: bytes) -> tuple[str, str] | None:
        """Return the table and the ID of a key; None for a foreign key, which is not text or has no table."""
        try:
            table, separator, id = key[len(self._prefix) :].decode().partition("/")  # noqa: A001 - the field's own name
        except UnicodeDecodeError:
            return None
        return (table, id) if separator and table != LEASES else None

    def _rows(self, found: Sequence[Any]) -> list[TableRow]:
        return [
            TableRow(*name, each.value, each.mod_revision, each.create_revision)
            for each in found
            if (name := self._name(each.key))
        ]

    def _change(self, found: Any) -> RowChange | None:
        name = self._name(found.kv.key)
        if name is None:
            return None
        return RowChange(*name, None if found.type == DELETED else self._rows([found.kv])[0])

    def _write(self, write: Any) -> Any:
        key = self._key(write.table, write.id)
        if isinstance(write, Put):
            put = message["PutRequest"](key=key, value=write.data, lease=write.lease)
            return message["RequestOp"](request_put=put)
        return message["RequestOp"](request_delete_range=message["DeleteRangeRequest"](key=key))

    def _compare(self, condition: Expect | Unchanged) -> Any:
        compare = message["Compare"]
        if isinstance(condition, Unchanged):
            start, end = self._range(condition.table)
            since = condition.since + 1
            return compare(result=LESS, target=MODIFIED, key=start, range_end=end, mod_revision=since)
        key = self._key(condition.table, condition.id)
        if condition.revision == -1:
            return compare(result=GREATER, target=VERSION, key=key, version=0)
        return compare(result=EQUAL, target=MODIFIED, key=key, mod_revision=condition.revision)

    def _question(self, condition: Expect | Unchanged) -> Any:
        """Return the read that shows, if the transaction fails, whether this condition has failed."""
        if isinstance(condition, Unchanged):
            start, end = self._range(condition.table)
            request = message["RangeRequest"](
                key=start, range_end=end, limit=1, sort_order=DESCENDING, sort_target=BY_REVISION, keys_only=True
            )
        else:
            request = message["RangeRequest"](key=self._key(condition.table, condition.id), keys_only=True)
        return message["RequestOp"](request_range=request)


class _Seen:
    """Counts the bytes that one watch has received."""

    def __init__(self, room: int) -> None:
        self._left = room

    def add(self, events: Sequence[Any], after: int) -> None:
        """Count events. Raises `Compacted` if there are too many, so that their consumer reads the records instead."""
        self._left -= sum(len(each.kv.value) for each in events)
        if self._left < 0:
            raise Compacted(after, after)


def _wanted(table: str, tables: Sequence[str] | None) -> bool:
    return tables is None or table in tables

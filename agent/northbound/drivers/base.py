"""The contract of a database: transactions at revisions, a watch of all changes in their order, and leases.

A revision is a number that each transaction increases. A row has the revision of the transaction that wrote it last.
Drivers know tables, IDs and bytes, but no models.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from holdfast.agent.northbound.errors import Invalid, NorthboundError


class TableRow(NamedTuple):
    """One stored record."""

    table: str
    id: str
    data: bytes
    revision: int
    """Revision of the last write."""
    created: int
    """Revision of the first write since the row was last absent."""


class Put(NamedTuple):
    """Write a row, whether it exists or not."""

    table: str
    id: str
    data: bytes
    lease: int = 0
    """Lease with which the row disappears; 0: none."""


class Delete(NamedTuple):
    """Delete a row; it is no error if the row does not exist."""

    table: str
    id: str


class Expect(NamedTuple):
    """A condition: the row has this revision; 0: it does not exist; -1: it exists."""

    table: str
    id: str
    revision: int


class Unchanged(NamedTuple):
    """A condition: no row of the table was written after this revision. Deleted rows do not count."""

    table: str
    since: int


class Limits(NamedTuple):
    """Limits of one transaction."""

    operations: int
    """Most writes and conditions."""
    bytes: int
    """Most bytes of all data."""


class DbTransaction(NamedTuple):
    """Writes that are made together, or not at all if a condition does not hold.

    A row is written at most once. Operations and conditions count towards the limit of the driver.
    """

    writes: Sequence[Put | Delete]
    conditions: Sequence[Expect | Unchanged] = ()
    require_lease: int = 0
    """A lease that must not have ended; 0: none."""

    def demand_valid(self, limits: Limits) -> None:
        """Raise `Invalid` if a row is written twice, a name is not Unicode text, or a limit is exceeded."""
        operations = len(self.writes) + len(self.conditions)
        data = sum([len(write.data) for write in self.writes if isinstance(write, Put)])
        if operations > limits.operations or data > limits.bytes:
            raise Invalid(
                f"the transaction has {operations} operations with {data} bytes; "
                f"the database takes {limits.operations} with {limits.bytes}"
            )
        written = [write[:2] for write in self.writes]
        if len(set(written)) < len(written):
            table, id = next(key for key in written if written.count(key) > 1)  # noqa: A001 - the field's own name
            raise Invalid(f"the transaction writes {table} {id!r} twice")
        named = [each[:2] for each in self.conditions if isinstance(each, Expect)]
        try:
            for table, id in (*written, *named):  # noqa: A001 - the field's own name
                f"{table}{id}".encode()
        except UnicodeEncodeError:
            raise Invalid(f"cannot store {table!r} {id!r}: this is not Unicode text") from None


class RowChange(NamedTuple):
    """A write as a watch reports it."""

    table: str
    id: str
    row: TableRow | None
    """The row after the write; None if it was deleted."""


class WatchBatch(NamedTuple):
    """The changes of one or more transactions, in order."""

    revision: int
    """The database's revision after them. A batch without changes says only that nothing else was written until
    then."""
    changes: Sequence[RowChange]


class Snapshot(NamedTuple):
    """All rows at one revision."""

    revision: int
    rows: Sequence[TableRow]


class ConditionFailed(NorthboundError):
    """A condition of a transaction did not hold, so nothing was written."""

    def __init__(self, condition: Expect | Unchanged, current: int) -> None:
        super().__init__(f"{condition} does not hold: the revision is {current}")
        self.condition, self.current = condition, current
        """The first condition that failed; the present revision of its row (0: none) or of its table's newest row."""


def demand_holds(condition: Expect | Unchanged, current: int) -> None:
    """Raise `ConditionFailed` unless the condition holds for the present revision of its row or its table."""
    if isinstance(condition, Unchanged):
        holds = current <= condition.since
    else:
        holds = current == condition.revision or (condition.revision == -1 and current > 0)
    if not holds:
        raise ConditionFailed(condition, current)


class LeaseEnded(NorthboundError):
    """The lease has ended or was never granted, so nothing was written."""


class Driver(ABC):
    """One database. All methods may raise `Unavailable`."""

    limits = Limits(operations=100_000, bytes=64 << 20)
    trouble: str = ""
    """Why the database cannot be written, or does not answer, now; empty while it can."""

    @abstractmethod
    async def open(self) -> None:
        """Connect, or open the file."""

    @abstractmethod
    async def close(self) -> None:
        """End all watches and free everything; leases end by themselves."""

    @abstractmethod
    async def read(self, tables: Sequence[str] | None = None) -> Snapshot:
        """Return all rows of some tables, or of all, at one revision; of no tables only the present revision."""

    @abstractmethod
    async def scan(
        self, table: str, *, after: str = "", before: str = "", limit: int = 100, newest: bool = False
    ) -> Sequence[TableRow]:
        """Return at most `limit` rows of a table in the order of their IDs, by bytes.

        `after`, `before`: only rows with greater or smaller IDs; `newest`: from the greatest ID downwards.
        """

    @abstractmethod
    async def get(self, table: str, id: str) -> TableRow | None:
        """Return a row as it is now, without any cache; None if there is none."""

    @abstractmethod
    async def commit(self, transaction: DbTransaction) -> int:
        """Write durably, and return the revision; that of the database if there is nothing to write.

        Raises `Invalid` before anything is sent, `ConditionFailed`, `LeaseEnded`, or `Unavailable` with `unsure` if the
        outcome is unknown.
        """

    @abstractmethod
    def watch(self, after: int, tables: Sequence[str] | None = None) -> AsyncIterator[WatchBatch]:
        """Yield every change after a revision, each once and in order, until the driver is closed.

        The first batch, which may be empty, comes when the watch is armed. A transaction is never divided between two
        batches. After a lost connection the watch resumes. Raises `Compacted` if the changes are no longer kept, or if
        the database is younger than the revision, because it was recreated.
        """

    @abstractmethod
    async def compact(self, before: int) -> None:
        """Forget the changes before a revision, but not those of the revision itself; the rows stay."""

    @abstractmethod
    async def grant(self, ttl: float) -> int:
        """Return a new lease, which ends `ttl` seconds after the last `keep_alive`."""

    @abstractmethod
    async def keep_alive(self, lease: int) -> None:
        """Restart the time of a lease. Raises `LeaseEnded`."""

    @abstractmethod
    async def revoke(self, lease: int) -> None:
        """End a lease and delete its rows; it is no error if the lease has ended."""

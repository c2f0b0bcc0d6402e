"""The feed from the database to the cache: the only writer of the cache.

The feed lists the records once, then follows the driver's watch. If the history that it needs is gone, it lists again;
the differences become events, so subscribers notice nothing. Commits of this process need not wait for the watch: the
cache applies one at once if it has all earlier ones.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from heapq import heapify, heappop, heappush

from holdfast.agent.northbound.delivery import EventDelivery
from holdfast.agent.northbound.drivers.base import (
    Delete,
    Driver,
    Put,
    RowChange,
    Snapshot,
    TableRow,
    WatchBatch,
)
from holdfast.agent.northbound.errors import Compacted, Invalid, NorthboundError
from holdfast.agent.northbound.model import Model
from holdfast.agent.northbound.ref import OnDelete, Source
from holdfast.agent.northbound.registry import registry
from holdfast.agent.northbound.store.base import DbStore, StoreChange, Stored

RETRIES = (0.1, 0.5, 1.0, 2.0, 5.0)
"""Seconds between attempts to reach the database; the last value repeats."""
SLICE = 200
"""Rows of a listing that are handled before other tasks run."""
EARLY = 1000
"""Most commits of this process that wait for earlier ones."""
NAMED = 10
"""Most unreadable records that are named one by one."""

Record = tuple[type[Model], str]
Models = Collection[type[Model]]
Writes = Sequence[Put | Delete]
Waiter = tuple[int, int, asyncio.Future[bool]]
"""The revision that the cache must reach, a number for the order, and the future that is resolved then."""


class CacheFeed:
    """Keeps a store equal to a database. `wanted` says which records the cache holds."""

    def __init__(
        self,
        driver: Driver,
        store: DbStore,
        source: Source,
        wanted: Callable[[Model], bool],
        *,
        uncached: Models,
        delivery: EventDelivery,
    ) -> None:
        self.store = store
        self._driver, self._source, self._wanted, self._uncached = driver, source, wanted, uncached
        self._delivery = delivery
        self._models: dict[str, type[Model]] = {}
        self.unreadable: dict[Record, str] = {}
        """Records of the database that cannot be read, and why. The cache does not have them."""
        self._newer: dict[type[Model], int] = {}
        """Model -> the newest schema version of its records that this program does not know."""
        self._trouble = ""
        """Why the cache does not follow the database now; empty while it does."""
        self._task: asyncio.Task[None] | None = None
        self._numbers = itertools.count()
        self._waiting: list[Waiter] = []
        """Callers that wait for a revision: a heap, so that a batch costs only the callers that it wakes."""
        self._early: dict[int, Writes] = {}
        """Revision -> a commit of this process, before which the cache lacks others."""
        self._listing = asyncio.Lock()
        self._meanwhile: dict[Record, int] = {}
        """Records that were written to the cache since a listing began -> revision of the batch."""

    async def start(self) -> None:
        """List the records and follow the database. Raises `Invalid` for models, and the errors of the driver."""
        order = [model for model in registry.in_order() if model not in self._uncached]
        for model in registry.tables().values():
            demand_cached(model, self._uncached)
        self._models = {model.table: model for model in order}
        self._delivery.order = {model: number for number, model in enumerate(order)}
        await self.list_records()
        self._task = asyncio.create_task(self._follow(), name="northbound feed")

    async def stop(self) -> None:
        """End the feed and all subscriptions."""
        self._delivery.close()
        for _, _, waiting in self._waiting:
            _settle(waiting, shown=False)
        if self._task:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None

    @property
    def ended(self) -> bool:
        """Whether the cache does not follow the database: not yet, or no longer."""
        return self._task is None or self._task.done() or bool(self._task.cancelling())

    async def shows(self, revision: int, timeout: float) -> bool:
        """Wait until the cache has reached this revision; return False if it has not after `timeout` seconds."""
        if self.store.view.revision >= revision:
            return True
        if self.ended:
            return False
        loop = asyncio.get_running_loop()
        waiter: Waiter = (revision, next(self._numbers), loop.create_future())
        heappush(self._waiting, waiter)
        timer = loop.call_later(timeout, lambda: _settle(waiter[2], shown=False))
        shown = False
        try:
            shown = await waiter[2]
        finally:
            timer.cancel()
            if not shown:
                with suppress(ValueError):  # the revision was reached at the moment of the cancellation
                    self._waiting.remove(waiter)
                    heapify(self._waiting)
        return shown

    def problems(self) -> Iterator[str]:
        """Yield the problems: a database out of reach, unreadable records, records of newer versions."""
        if self._trouble:
            yield self._trouble
        yield from [*self.unreadable.values()][:NAMED]
        if len(self.unreadable) > NAMED:
            yield f"cannot read {len(self.unreadable) - NAMED} more records"
        for model, version in self._newer.items():
            known = model.schema_version
            yield f"{model.table} has records of schema version {version}, this program knows {known}"
        yield from self._delivery.problems(self.store.view)

    def decode(self, row: TableRow) -> Model | None:
        """Return the record of a row. None, with an entry in `unreadable`, if that is not possible."""
        model = registry.find(row.table)
        try:
            record = _decoded(model, row, self._source)
        except Exception as error:  # noqa: BLE001 - code of models runs here, for one record of many
            self.unreadable[model, row.id] = f"cannot read {row.table} {row.id!r:.60}: {_reason(error)}"
            return None
        self.unreadable.pop((model, row.id), None)
        if record.newer:
            self._newer[model] = max(record.newer, self._newer.get(model, 0))
        return record

    async def list_records(self) -> None:
        """Compare the cache with the whole database and apply the differences.

        Writes that the cache applies meanwhile are newer than the listing, or part of it.
        """
        async with self._listing:
            before = self.store.view.revision
            self._meanwhile.clear()
            snapshot = await self._driver.read(list(self._models))
            back = snapshot.revision < before  # the database was restored from a backup
            present: dict[type[Model], set[str]] = {model: set() for model in self._models.values()}
            changes = await self._differences(snapshot, present, back=back)
            now = self.store.view
            gone = [(model, key) for model, keys in present.items() for key in {*now.own_keys(model)} - keys]
            changes += [StoreChange(*record, None) for record in gone]
            if back:
                self._early.clear()
            self._apply(
                snapshot.revision if back else max(snapshot.revision, now.revision),
                [each for each in changes if self._still_right(each, snapshot.revision)],
            )
        self._take_early()

    async def _differences(
        self, snapshot: Snapshot, present: Mapping[type[Model], set[str]], *, back: bool
    ) -> list[StoreChange]:
        """Return the records of a listing that the cache lacks, and add all IDs to `present`.

        At the start, the cache has no users yet, and gets the records here.
        """
        found: list[StoreChange] = []
        for start in range(0, len(snapshot.rows), SLICE):
            for row in snapshot.rows[start : start + SLICE]:
                model = self._models[row.table]
                present[model].add(row.id)
                known = self.store.view.own(model, row.id)
                if known is not None and back:  # the store takes no older record in place of a newer one
                    found.append(StoreChange(model, row.id, None))
                if known is None or known.revision < row.revision or back:
                    found.append(self._change(model, row.id, row))
            if self._task is None:
                self._apply(self.store.view.revision, found)
                found = []
            await asyncio.sleep(0)
        return found

    def _still_right(self, change: StoreChange, revision: int) -> bool:
        """Return whether the cache holds a record and has no newer state of it than a listing at this revision."""
        wanted = change.stored is None or self._wanted(change.stored.record)
        return wanted and self._meanwhile.get((change.model, change.id), 0) <= revision

    def forget(self, unwanted: Callable[[Model], bool]) -> None:
        """Remove records from the cache, with events."""
        view = self.store.view
        records = [record for model in self._models.values() for record in view.get_all(model) if unwanted(record)]
        self._apply(view.revision, [StoreChange(type(record), record.id, None) for record in records])

    def offer(self, revision: int, writes: Writes) -> None:
        """Apply a commit of this process, as soon as the cache has all earlier ones."""
        if len(self._early) < EARLY and revision > self.store.view.revision:
            self._early[revision] = writes
            self._take_early()

    # -- parts -------------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        tries, gone = 0, False
        while True:
            try:
                if gone:  # the history after our revision
                    await self.list_records()
                    gone = False
                async for batch in self._driver.watch(self.store.view.revision, list(self._models)):
                    self._trouble, tries = "", 0
                    self._take(batch)
                    self._take_early()
            except Compacted:
                gone = True
            except Exception as error:  # noqa: BLE001 - code of models runs here, and the cache must go on
                self._trouble = _reason(error)
                await asyncio.sleep(RETRIES[min(tries, len(RETRIES) - 1)])
                tries += 1
            else:
                return  # the driver is closed

    def _take(self, batch: WatchBatch) -> None:
        """Apply a batch, without the changes that the cache already has."""
        view = self.store.view
        if batch.revision <= view.revision:
            return
        latest: dict[Record, RowChange] = {}
        for change in batch.changes:
            if change.table in self._models:
                latest[self._models[change.table], change.id] = change
        changes = []
        for record, change in latest.items():
            known = view.own(*record)
            if change.row is None or known is None or known.revision < change.row.revision:
                changes.append(self._change(*record, change.row))
        self._apply(batch.revision, changes)
        if self._listing.locked():
            self._meanwhile.update(dict.fromkeys(latest, batch.revision))

    def _take_early(self) -> None:
        """Apply the commits of this process that come next.

        A commit that fails is left to the watch, which reports it.
        """
        if not self._early:
            return
        with suppress(Exception):
            while writes := self._early.pop(self.store.view.revision + 1, None):
                self._take(self._batch(self.store.view.revision + 1, writes))
        for revision in [each for each in self._early if each <= self.store.view.revision]:
            del self._early[revision]

    def _batch(self, revision: int, writes: Writes) -> WatchBatch:
        """Return the batch that the watch will yield for a commit."""
        changes = []
        for write in writes:
            row = None
            if isinstance(write, Put) and write.table in self._models:
                known = self.store.view.own(self._models[write.table], write.id)
                row = TableRow(write.table, write.id, write.data, revision, known.created if known else revision)
            changes.append(RowChange(write.table, write.id, row))
        return WatchBatch(revision, changes)

    def _change(self, model: type[Model], id: str, row: TableRow | None) -> StoreChange:
        record = self.decode(row) if row else None
        if row is None:
            self.unreadable.pop((model, id), None)
        if row is None or record is None or not self._wanted(record):
            return StoreChange(model, id, None)
        return StoreChange(model, id, Stored(record, row.revision, row.created))

    def _apply(self, revision: int, changes: Sequence[StoreChange]) -> None:
        before = self.store.view
        after = self.store.apply(revision, changes) if changes or revision != before.revision else before
        self._delivery.publish(before, after, [each[:2] for each in changes])
        while self._waiting and self._waiting[0][0] <= after.revision:
            _settle(heappop(self._waiting)[2], shown=True)


def _settle(waiting: asyncio.Future[bool], *, shown: bool) -> None:
    if not waiting.done():
        waiting.set_result(shown)


def _decoded(model: type[Model], row: TableRow, source: Source) -> Model:
    record = model.decode(row.data, source)
    if record.id != row.id:
        raise Invalid(f"its ID is {record.id!r:.60}")
    return record


def _reason(error: Exception) -> str:
    """Return an error as text. An error of a model's code is an internal error."""
    if isinstance(error, NorthboundError):
        return str(error)
    return f"internal error: {type(error).__name__}"  # its text may contain a value, which may be secret


def demand_cached(model: type[Model], uncached: Models) -> None:
    """Raise `Invalid` if the rules for a reference of a model need records that the cache does not hold."""
    for use in model.references():
        if use.on_delete is not OnDelete.DANGLE and (model in uncached or registry.find(use.target) in uncached):
            raise Invalid(
                f"{model.__name__} refers to {use.target} in {use.path}, and the cache does not hold both; "
                f"the reference must be OnDelete.DANGLE"
            )

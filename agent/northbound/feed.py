"""From the database to the cache, and from there to subscribers: the only writer of the cache.

The feed lists the records once, then follows the driver's watch. If the history that it needs is gone, it lists again;
the differences become events, so subscribers notice nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from holdfast.agent.northbound.drivers.base import Driver, RowChange, TableRow, WatchBatch
from holdfast.agent.northbound.errors import Compacted, Invalid, NorthboundError
from holdfast.agent.northbound.events import Event, EventQueue, event
from holdfast.agent.northbound.model import Model
from holdfast.agent.northbound.ref import OnDelete, Source
from holdfast.agent.northbound.registry import registry
from holdfast.agent.northbound.store.base import DbStore, StoreChange, Stored, StoreView

RETRIES = (0.1, 0.5, 1.0, 2.0, 5.0)
"""Seconds between tries to reach the database; the last value repeats."""

Record = tuple[type[Model], str]
Models = Collection[type[Model]]


class CacheFeed:
    """Keeps a store equal to a database. `wanted` says which records the cache holds."""

    def __init__(
        self, driver: Driver, store: DbStore, source: Source, wanted: Callable[[Model], bool], uncached: Models
    ) -> None:
        self.store = store
        self._driver, self._source, self._wanted, self._uncached = driver, source, wanted, uncached
        self._models: dict[str, type[Model]] = {}
        self._order: dict[type[Model], int] = {}
        self.subscriptions: set[EventQueue[Any]] = set()
        self.unreadable: dict[Record, str] = {}
        """Records of the database that cannot be read, and why. The cache does not have them."""
        self.newer: dict[type[Model], int] = {}
        """Models of which the database has records of a newer schema version."""
        self.pending: dict[Record, Event[Any]] = {}
        """Events of records that refer to one that is not there yet."""
        self.trouble = ""
        """Why the cache does not follow the database now; empty while it does."""
        self._task: asyncio.Task[None] | None = None
        self._moved: set[asyncio.Future[None]] = set()

    async def start(self) -> None:
        """List the records and follow the database. Raises `Invalid` for models, and the errors of the driver."""
        order = [model for model in registry.in_order() if model not in self._uncached]
        for model in registry.tables().values():
            demand_cached(model, self._uncached)
        self._models = {model.table: model for model in order}
        self._order = {model: number for number, model in enumerate(order)}
        await self.list_records()
        self._task = asyncio.create_task(self._follow(), name="northbound feed")

    async def stop(self) -> None:
        """End the feed and all subscriptions."""
        if self._task:
            self._task.cancel()
            await asyncio.wait([self._task])
        for each in list(self.subscriptions):
            each.close()
        self._move()

    async def shows(self, revision: int, patience: float) -> bool:
        """Wait until the cache is at least at this revision; return False if it is not after `patience` seconds."""
        loop = asyncio.get_running_loop()
        until = loop.time() + patience
        while self.store.view.revision < revision:
            moved: asyncio.Future[None] = loop.create_future()
            self._moved.add(moved)
            done, _ = await asyncio.wait([moved], timeout=until - loop.time())
            self._moved.discard(moved)
            if not done or (self._task and self._task.done()):
                return False
        return True

    def decode(self, row: TableRow) -> Model | None:
        """Return the record of a row. None, with an entry in `unreadable`, if that is not possible."""
        model = registry.find(row.table)
        try:
            record: Model = model.decode(row.data, self._source)
            if record.id != row.id:
                raise Invalid(f"its ID is {record.id!r}")
        except NorthboundError as error:
            self.unreadable[model, row.id] = f"cannot read {row.table} {row.id!r}: {error}"
            return None
        self.unreadable.pop((model, row.id), None)
        if record.newer:
            self.newer[model] = max(record.newer, self.newer.get(model, 0))
        return record

    async def list_records(self) -> None:
        """Compare the cache with the whole database and apply the differences."""
        snapshot = await self._driver.read(list(self._models))
        view, present = self.store.view, set()
        changes: list[StoreChange] = []
        for row in snapshot.rows:
            model = self._models[row.table]
            present.add((model, row.id))
            known = view.stored(model, row.id)
            if known is None or known.revision < row.revision:
                changes.append(self._change(model, row.id, row))
        for model in self._models.values():
            changes += [StoreChange(model, key, None) for key in view.keys(model) if (model, key) not in present]
        self._apply(max(snapshot.revision, view.revision), changes)

    def forget(self, unwanted: Callable[[Model], bool]) -> None:
        """Remove records from the cache, with events."""
        view = self.store.view
        records = [record for model in self._models.values() for record in view.get_all(model) if unwanted(record)]
        self._apply(view.revision, [StoreChange(type(record), record.id, None) for record in records])

    # -- parts -------------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        tries, gone = 0, False
        while True:
            try:
                if gone:  # the history after our revision
                    await self.list_records()
                    gone = False
                async for batch in self._driver.watch(self.store.view.revision, list(self._models)):
                    self.trouble, tries = "", 0
                    self._take(batch)
            except Compacted:
                gone = True
            except Exception as error:  # noqa: BLE001 - code of models runs here, and the cache must go on
                self.trouble = _reason(error)
                await asyncio.sleep(RETRIES[min(tries, len(RETRIES) - 1)])
                tries += 1
            else:
                return  # the driver is closed

    def _take(self, batch: WatchBatch) -> None:
        """Apply a batch of the driver's watch. What a newer listing has brought already is left alone."""
        view = self.store.view
        latest: dict[Record, RowChange] = {}
        for change in batch.changes:
            if change.table in self._models:
                model = self._models[change.table]
                known = view.stored(model, change.id)
                if known is None or known.revision < (change.row.revision if change.row else batch.revision):
                    latest[model, change.id] = change
        if latest or batch.revision > view.revision:
            changes = [self._change(*record, change.row) for record, change in latest.items()]
            self._apply(max(batch.revision, view.revision), changes)

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
        self._publish(before, after, [(each.model, each.id) for each in changes])
        self._move()

    def _publish(self, before: StoreView, after: StoreView, records: Iterable[Record]) -> None:
        """Offer the differences of two views: what is referred to first, and deletions last, in reverse."""
        found = []
        for record in records:
            held = self.pending.pop(record, None)  # subscribers have not seen what came of that
            if each := event(*record, held.old if held else before.get(*record), after.get(*record), after.revision):
                found.append(each)
        there = [each for each in found if each.kind != "deleted"]
        gone = [each for each in found if each.kind == "deleted"]
        there.sort(key=lambda each: self._order[each.model])
        gone.sort(key=lambda each: -self._order[each.model])
        for each in (*there, *gone):
            self._deliver(each, after)

    def _deliver(self, found: Event[Any], view: StoreView) -> None:
        if found.new is not None and missing_target(found.new, view):
            self.pending[found.model, found.id] = found
            return
        for each in list(self.subscriptions):
            each.offer(found)
        if found.kind == "created" and self.pending:
            for key, held in list(self.pending.items()):
                if held.new and not missing_target(held.new, view):
                    del self.pending[key]
                    self._deliver(held, view)

    def _move(self) -> None:
        moved, self._moved = self._moved, set()
        for each in moved:
            if not each.done():
                each.set_result(None)


def _reason(error: Exception) -> str:
    """Return why the cache cannot follow; an error of a model's code is an internal error."""
    return str(error) if isinstance(error, NorthboundError) else f"internal error: {type(error).__name__}: {error}"


def demand_cached(model: type[Model], uncached: Models) -> None:
    """Raise `Invalid` if the rules for a reference of a model need records that the cache does not hold."""
    for use in model.references():
        if use.on_delete is not OnDelete.DANGLE and (model in uncached or registry.find(use.target) in uncached):
            raise Invalid(
                f"{model.__name__} refers to {use.target} in {use.path}, and the cache does not hold both; "
                f"the reference must be OnDelete.DANGLE"
            )


def missing_target(record: Model, view: StoreView) -> tuple[type[Model], str] | None:
    """Return the first target of a record that must exist and is not in the view."""
    needed = ((model, key) for model, keys in targets(record).items() for key in keys)
    return next((target for target in needed if not view.has(*target)), None)


def targets(record: Model) -> Mapping[type[Model], set[str]]:
    """Return the records that must exist because a record refers to them, by model."""
    found: dict[type[Model], set[str]] = {}
    for use, index in type(record).reference_indexes():
        if use.on_delete is not OnDelete.DANGLE:
            keys = {key for (key,) in index.keys(record) if isinstance(key, str)}
            found.setdefault(registry.find(use.target), set()).update(keys)
    return found

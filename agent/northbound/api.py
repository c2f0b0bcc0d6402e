"""The five methods by which everything reaches the store, and what watches it.

    async with NbApi(driver, store) as api:
        await api.create(Host(id="web1"))
        async for event in api.watch(Host): ...

Writes go to the database; the cache follows the database, and a method returns once the cache shows what it wrote.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar, overload

from holdfast.agent.northbound.drivers.base import ConditionFailed, Driver, Expect, LeaseEnded
from holdfast.agent.northbound.errors import AlreadyExists, Conflict, Invalid, RefMissing, Unavailable
from holdfast.agent.northbound.events import Event, EventQueue, Filter, event
from holdfast.agent.northbound.feed import CacheFeed
from holdfast.agent.northbound.leases import Lease
from holdfast.agent.northbound.mixins import Topic
from holdfast.agent.northbound.model import Model
from holdfast.agent.northbound.ref import Ref
from holdfast.agent.northbound.registry import registry
from holdfast.agent.northbound.store.base import DbStore, Stored, StoreView
from holdfast.agent.northbound.transactions import Computed, Writing, ref_model

T = TypeVar("T", bound=Model)

TRIES = 100
"""Most times that a transaction is computed again because others have changed what it read."""
PATIENCE = 10.0
"""Seconds for which a write waits until the cache shows it."""
HANDLER_RESTS = (0.1, 30.0)
"""Seconds before the first and before a late repetition of a handler that raises."""
REST = 0.02
"""Greatest seconds between two tries after several have failed."""


class Followed(NamedTuple):
    """One write, as `follow` tells it."""

    revision: int
    """Of the batch: go on after it once all writes with this number are dealt with."""
    model: type[Model]
    id: str
    record: Model | None
    """None: it was deleted."""


class NbApi:
    """The store of one process.

    `topics`: the only topics that the cache holds; None: all of them. `uncached`: models whose records the cache does
    not hold, because there are many: they are read with `get` and `page`, and followed with `follow`.
    """

    def __init__(
        self,
        driver: Driver,
        store: DbStore,
        *,
        topics: Collection[str] | None = None,
        uncached: Collection[type[Model]] = (),
    ) -> None:
        self._driver, self._store = driver, store
        self._topics = None if topics is None else set(topics)
        self._uncached = frozenset(uncached)
        self._handlers: set[asyncio.Task[None]] = set()
        self._failing: dict[str, str] = {}
        """Handler -> why it has raised."""
        self._feed = CacheFeed(driver, store, self, self._wanted, self._uncached)

    async def __aenter__(self) -> Self:
        """Open the database and fill the cache. Raises `Invalid` for models, and the errors of the driver."""
        await self._driver.open()
        await self._feed.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End all handlers and subscriptions, and close the database."""
        for task in self._handlers:
            task.cancel()
        await asyncio.gather(*self._handlers, return_exceptions=True)
        await self._feed.stop()
        await self._driver.close()

    @property
    def view(self) -> StoreView:
        """The cache as it is now; it does not change."""
        return self._store.view

    async def shows(self, revision: int, patience: float = PATIENCE) -> bool:
        """Wait until the cache is at least at this revision; return False if it is not after `patience` seconds."""
        return await self._feed.shows(revision, patience)

    # -- the five methods --------------------------------------------------------------------------------------

    async def create(self, record: T, *, lease: Lease | None = None) -> T:
        """Create a record and return it as it was stored.

        Raises `AlreadyExists`, `Invalid`, `RefMissing`, `Unavailable`, and what its hooks raise.
        """
        writing = Writing(lease=lease.number if lease else 0)
        writing.create(record)
        result = await self._commit(writing)
        return result.records[type(record), record.id]  # type: ignore[return-value]

    async def update(self, change: Model, *, expected: int | None = None) -> frozenset[str]:
        """Change the fields that are set in `change`; return the names of those whose values differed.

        `expected`: the revision that the record must have. Raises `NotFound`, `Conflict`, `Invalid`, `RefMissing`,
        `Unavailable`, and what its hooks raise.
        """
        writing = Writing()
        writing.update(change, expected=expected)
        return (await self._commit(writing)).changed

    async def delete(self, record: Model, *, expected: int | None = None) -> None:
        """Delete the record with the ID of this one, which may be partial, and those that are deleted with it.

        Raises `NotFound`, `Conflict`, `Referenced`, `Unavailable`, and what its hooks raise.
        """
        writing = Writing()
        writing.delete(record, expected=expected)
        await self._commit(writing)

    @overload
    async def get(self, model: type[T], id: str, *, resolve: Iterable[str] = ()) -> T | None: ...
    @overload
    async def get(self, model: Ref[T], *, resolve: Iterable[str] = ()) -> T | None: ...
    @overload
    async def get(self, model: str, id: str, *, resolve: Iterable[str] = ()) -> Model | None: ...
    async def get(self, model: Any, id: str = "", *, resolve: Iterable[str] = ()) -> Any:
        """Return a record from the database; None if it does not exist.

        `model`: a class, class name, table or reference. `resolve`: names of fields whose references are read, too.
        """
        key = model.id if isinstance(model, Ref) else id
        found = ref_model(model) if isinstance(model, Ref) else registry.find(model)
        row = await self._driver.get(found.table, key)
        record = self._feed.decode(row) if row else None
        if record is not None and row is not None:
            await self._resolve([record], resolve)
        return record

    async def get_all(
        self, model: type[T] | str, index: str = "", *, resolve: Iterable[str] = (), **values: Any
    ) -> list[T]:
        """Return the records that match, from the cache, which has all writes of this API.

        `values`: parts of the index: a value, a set of values, `ANY`, `MISSING` or None. Raises `Invalid`.
        """
        found: Any = registry.find(model)
        if found in self._uncached:
            raise Invalid(f"the cache does not hold the records of {found.table}: use `page`")
        records = [*found.on_get_all_post(self.view.get_all(found, index, **values))]
        await self._resolve(records, resolve)
        return records

    async def page(
        self, model: type[T], *, after: str = "", before: str = "", limit: int = 100, newest: bool = False
    ) -> list[T]:
        """Return at most `limit` records from the database, in the order of their IDs; `newest`: the greatest first.

        Records that cannot be read are left out. `after`, `before`: only greater or smaller IDs.
        """
        rows = await self._driver.scan(model.table, after=after, before=before, limit=limit, newest=newest)
        return [record for row in rows if (record := self._feed.decode(row)) is not None]  # type: ignore[misc]

    # -- more than one record ----------------------------------------------------------------------------------

    async def mutate(self, model: type[T], id: str, change: Callable[[T], T]) -> T:
        """Replace a record by what `change` returns for it, and return that. `change` may run several times.

        Raises `NotFound`, `Invalid`, `RefMissing`, `Unavailable`; `Conflict` if others change the record all the time.
        """
        writing = Writing()
        writing.mutate(model, id, change)
        result = await self._commit(writing)
        written = result.records.get((model, id))
        return written if written is not None else self.view.get(model, id)  # type: ignore[return-value]

    @asynccontextmanager
    async def transaction(self, *, lease: Lease | None = None, require: Lease | None = None) -> AsyncIterator[Writing]:
        """Make the writes of the block together at its end; none if the block or a write raises.

        `lease`: with which the records disappear; `require`: which must not have ended.
        """
        writing = Writing(lease=lease.number if lease else 0, require=require.number if require else 0)
        yield writing
        await self._commit(writing)

    @asynccontextmanager
    async def lease(self, ttl: float) -> AsyncIterator[Lease]:
        """Hold a lease during the block; it ends `ttl` seconds after this process died, and at the end of the block."""
        lease = Lease(await self._driver.grant(ttl), ttl)
        keeping = asyncio.create_task(lease.keep(self._driver), name=f"northbound lease {lease.number}")
        try:
            yield lease
        finally:
            keeping.cancel()
            await asyncio.wait([keeping])
            await self._driver.revoke(lease.number)

    # -- watching ----------------------------------------------------------------------------------------------

    async def watch(
        self,
        model: type[T],
        *,
        since: StoreView | None = None,
        where: Callable[[T], bool] | None = None,
        subclasses: bool = False,
        **values: Any,
    ) -> AsyncIterator[Event[T]]:
        """Yield the events of records with these values in their fields, for which `where` is true.

        `since`: begin with the differences from this view, so that nothing falls between a listing and the watch.
        Raises `Invalid` for a field that the model does not have.
        """
        if unknown := values.keys() - model.model_fields.keys():
            raise Invalid(f"{model.__name__} has no field {', '.join(sorted(unknown))}")
        subscription = EventQueue(Filter(model, values, where, subclasses=subclasses))
        for each in self._differences(since):
            subscription.offer(each)
        self._feed.subscriptions.add(subscription)
        try:
            async for found in subscription:
                yield found
        finally:
            self._feed.subscriptions.discard(subscription)

    def handle(self, model: type[T], handler: Callable[[Event[T]], Awaitable[None]], name: str, **options: Any) -> None:
        """Call `handler` for each event of a watch with these options, until the API is closed.

        An event whose handler raises is handed over again, after 0.1 to 30 seconds; `problems` tells so meanwhile.
        """
        task = asyncio.create_task(self._handle(self.watch(model, **options), handler, name), name=f"handler {name}")
        self._handlers.add(task)

    async def follow(self, models: Collection[type[Model]], after: int) -> AsyncIterator[Followed]:
        """Yield every write after a revision, from the database: none is merged, and the state before is not known.

        A consumer that notes the revision can go on from there after a restart. Raises `Compacted` if the history is no
        longer kept.
        """
        async for batch in self._driver.watch(after, [model.table for model in models]):
            for change in batch.changes:
                record = self._feed.decode(change.row) if change.row else None
                if record is not None or change.row is None:
                    yield Followed(batch.revision, registry.find(change.table), change.id, record)

    # -- topics ------------------------------------------------------------------------------------------------

    async def take_topic(self, topic: str) -> None:
        """Hold the records of a topic, too; they appear with events."""
        if self._topics is not None and topic not in self._topics:
            self._topics.add(topic)
            await self._feed.list_records()

    async def drop_topic(self, topic: str) -> None:
        """Hold the records of a topic no longer; they disappear with events, and nothing else does."""
        if self._topics is not None and topic in self._topics:
            self._topics.discard(topic)
            self._feed.forget(lambda record: not self._wanted(record))

    # -- what references ask -----------------------------------------------------------------------------------

    def peek(self, ref: Ref[T]) -> T | None:
        """Return the target of a reference from the cache."""
        return self.view.get(ref_model(ref), ref.id)

    async def resolve(self, ref: Ref[T]) -> T:
        """Return the target of a reference, from the cache or the database. Raises `RefMissing`."""
        found = self.peek(ref) or await self.get(ref)
        if found is None:
            model = ref_model(ref)
            raise RefMissing(f"{model.table} {ref.id!r} does not exist", model.table, ref.id)
        return found

    # -- health ------------------------------------------------------------------------------------------------

    def problems(self) -> list[str]:
        """Return what an operator should know: records that cannot be read, newer ones, a database out of reach."""
        newer = (
            f"{model.table} has records of schema version {version}, this program knows {model.schema_version}"
            for model, version in self._feed.newer.items()
        )
        failing = (f"the handler {name} fails: {why}" for name, why in self._failing.items())
        return [*filter(None, [self._feed.trouble]), *self._feed.unreadable.values(), *newer, *failing]

    # -- parts -------------------------------------------------------------------------------------------------

    def _wanted(self, record: Model) -> bool:
        return self._topics is None or not isinstance(record, Topic) or record.topic in self._topics

    def _differences(self, since: StoreView | None) -> list[Event[Any]]:
        """Return the events that lead from a view to the present one."""
        now = self.view
        if since is None or since is now:
            return []
        found = []
        for model in registry.in_order():
            for key in dict.fromkeys([*since.keys(model), *now.keys(model)]):
                before, after = since.get(model, key), now.get(model, key)
                if before is not after and (each := event(model, key, before, after, now.revision)):
                    found.append(each)
        return found

    async def _commit(self, writing: Writing) -> Computed:
        """Write a transaction; compute it again as long as others have changed what it read."""
        for number in range(TRIES):
            view = self.view
            result = writing.compute(view, await self._fetch(writing.records))
            try:
                revision = await self._driver.commit(result.transaction)
            except ConditionFailed as error:
                if writing.asserted(error.condition):
                    raise Conflict(str(error), error.current) from None
                await self._caught_up(view, error)
                await asyncio.sleep(random.uniform(0, REST) if number else 0)  # noqa: S311 - no secret
            except LeaseEnded as error:
                raise Conflict(str(error), 0) from None
            else:
                if result.transaction.writes:
                    await self._feed.shows(revision, PATIENCE)
                return result
        raise Conflict(f"others have changed the same records {TRIES} times in a row", 0)

    async def _fetch(self, records: Iterable[tuple[type[Model], str]]) -> dict[tuple[type[Model], str], Stored | None]:
        """Return those of the records that the cache does not hold, from the database."""
        fetched: dict[tuple[type[Model], str], Stored | None] = {}
        for model, key in records:
            if model in self._uncached:
                row = await self._driver.get(model.table, key)
                record = self._feed.decode(row) if row else None
                fetched[model, key] = Stored(record, row.revision, row.created) if row and record else None
        return fetched

    async def _caught_up(self, view: StoreView, error: ConditionFailed) -> None:
        """Wait until the cache has seen what made a condition fail."""
        condition = error.condition
        if self.view is not view or registry.find(condition.table) in self._uncached:
            return
        if isinstance(condition, Expect) and condition.revision == 0 and error.current:
            model = registry.find(condition.table)
            if not self.view.has(model, condition.id) and self._hidden(model, condition.id):
                raise AlreadyExists(f"cannot create {condition.table} {condition.id!r}: it exists")
        if not await self._feed.shows(max(error.current, view.revision + 1), PATIENCE):
            raise Unavailable(f"the cache does not follow the database: {self._feed.trouble or 'it does not answer'}")

    def _hidden(self, model: type[Model], id: str) -> bool:
        """Return whether a record may be in the database but not in the cache."""
        return (model, id) in self._feed.unreadable or (self._topics is not None and issubclass(model, Topic))

    async def _resolve(self, records: Iterable[Model], fields: Iterable[str]) -> None:
        for record in records:
            for field in fields:
                for ref in refs(getattr(record, field)):
                    await self.resolve(ref)

    async def _handle(
        self, events: AsyncIterator[Event[T]], handler: Callable[[Event[T]], Awaitable[None]], name: str
    ) -> None:
        async for each in events:
            rest = HANDLER_RESTS[0]
            while True:
                try:
                    await handler(each)
                except Exception as error:  # noqa: BLE001 - a handler may raise anything; it is told
                    self._failing[name] = f"{type(error).__name__}: {error}"
                    await asyncio.sleep(rest)
                    rest = min(2 * rest, HANDLER_RESTS[1])
                else:
                    self._failing.pop(name, None)
                    break


def refs(value: Any) -> Iterator[Ref[Any]]:
    """Yield the references in the value of a field."""
    if isinstance(value, Ref):
        yield value
    elif isinstance(value, (dict, list, tuple, set)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from refs(each)

"""The five methods for all access to the store, and its watches.

    async with NbApi(driver, store) as api:
        await api.create(Host(id="web1"))
        async for event in api.watch(Host): ...

Writes go to the database; the cache follows the database, and a method returns once the cache shows what it wrote.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar, overload

from holdfast.agent.northbound.commits import TIMEOUT, Committer
from holdfast.agent.northbound.delivery import EventDelivery
from holdfast.agent.northbound.drivers.base import Driver, WatchBatch
from holdfast.agent.northbound.errors import Invalid, RefMissing, Unavailable
from holdfast.agent.northbound.events import Event, EventQueue, Filter, event
from holdfast.agent.northbound.feed import CacheFeed
from holdfast.agent.northbound.handlers import EventHandlers, Handler
from holdfast.agent.northbound.leases import Lease
from holdfast.agent.northbound.mixins import Topic
from holdfast.agent.northbound.model import Model
from holdfast.agent.northbound.ref import Ref
from holdfast.agent.northbound.registry import registry
from holdfast.agent.northbound.store.base import DbStore, StoreView
from holdfast.agent.northbound.transactions import Writing, ref_model

T = TypeVar("T", bound=Model)


class Followed(NamedTuple):
    """One write, as `follow` yields it."""

    revision: int
    """Revision of the batch: continue after it once all writes with this number are handled."""
    model: type[Model]
    id: str
    record: Model | None
    """None: the record was deleted."""


class FollowedBatch(NamedTuple):
    """The writes of one or more transactions, as `follow_batches` yields them."""

    revision: int
    """The revision after which to continue. Without writes, nothing was written to these tables until then."""
    writes: Iterator[Followed]
    """They are decoded during the iteration, so that a large transaction does not delay others."""


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
        self._delivery = EventDelivery(self._complete)
        self._handlers = EventHandlers(self._delivery)
        self._feed = CacheFeed(driver, store, self, self._wanted, uncached=self._uncached, delivery=self._delivery)
        self._committer = Committer(driver, self._feed, self._uncached, self._complete)

    async def __aenter__(self) -> Self:
        """Open the database and fill the cache. Raises `Invalid` for models, and the errors of the driver."""
        try:
            await self._driver.open()
            await self._feed.start()
        except BaseException:
            await self._driver.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End all handlers and subscriptions, and close the database."""
        try:
            await self._handlers.close()
            await self._feed.stop()
        finally:
            await self._driver.close()

    @property
    def view(self) -> StoreView:
        """The cache as it is now; it does not change."""
        return self._store.view

    async def shows(self, revision: int, timeout: float = TIMEOUT) -> bool:
        """Wait until the cache has reached this revision; return False if it has not after `timeout` seconds."""
        return await self._feed.shows(revision, timeout)

    async def revision(self) -> int:
        """Return the present revision of the database, which the cache may not have reached yet.

        Raises `Unavailable`.
        """
        return (await self._driver.read([])).revision

    # -- the five methods --------------------------------------------------------------------------------------

    async def create(self, record: T, *, lease: Lease | None = None) -> T:
        """Create a record and return it as it was stored.

        Raises `AlreadyExists`, `Invalid`, `RefMissing`, `Unavailable`, and what its hooks raise.
        """
        writing = Writing(lease=lease.number if lease else 0)
        writing.create(record)
        result = await self._committer.commit(writing)
        return result.records[type(record), record.id]  # type: ignore[return-value]

    async def update(self, change: Model, *, expected: int | None = None) -> frozenset[str]:
        """Change the fields that are set in `change`; return the names of those whose values differed.

        `expected`: the revision that the record must have. Raises `NotFound`, `Conflict`, `Invalid`, `RefMissing`,
        `Unavailable`, and what its hooks raise.
        """
        writing = Writing()
        writing.update(change, expected=expected)
        return (await self._committer.commit(writing)).changed

    async def delete(self, record: Model, *, expected: int | None = None) -> None:
        """Delete the record with the ID of this one, which may be partial, and those that are deleted with it.

        Raises `NotFound`, `Conflict`, `Referenced`, `Unavailable`, and what its hooks raise.
        """
        writing = Writing()
        writing.delete(record, expected=expected)
        await self._committer.commit(writing)

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
        found = _with_table(ref_model(model) if isinstance(model, Ref) else registry.find(model), resolve)
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
        found: Any = _with_table(registry.find(model), resolve)
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
        found: list[T] = []
        while limit > len(found):
            wanted = limit - len(found)
            rows = await self._driver.scan(model.table, after=after, before=before, limit=wanted, newest=newest)
            found += [record for row in rows if (record := self._feed.decode(row)) is not None]  # type: ignore[misc]
            if len(rows) < wanted:
                break
            after, before = (after, rows[-1].id) if newest else (rows[-1].id, before)
        return found

    # -- more than one record ----------------------------------------------------------------------------------

    async def mutate(self, model: type[T], id: str, change: Callable[[T], T]) -> T:
        """Replace a record by what `change` returns for it, and return that. `change` may run several times.

        Raises `NotFound`, `Invalid`, `RefMissing`, `Unavailable`; `Conflict` if others change the record all the time.
        """
        writing = Writing()
        writing.mutate(model, id, change)
        return (await self._committer.commit(writing)).last  # type: ignore[return-value]

    @asynccontextmanager
    async def transaction(self, *, lease: Lease | None = None, require: Lease | None = None) -> AsyncIterator[Writing]:
        """Make the writes of the block together at its end; none if the block or a write raises.

        `lease`: with which the records disappear; `require`: which must not have ended.
        """
        writing = Writing(lease=lease.number if lease else 0, require=require.number if require else 0)
        yield writing
        await self._committer.commit(writing)

    @asynccontextmanager
    async def lease(self, ttl: float) -> AsyncIterator[Lease]:
        """Hold a lease during the block.

        The lease ends with the block, or `ttl` seconds later if this process dies or the database is out of reach then.
        """
        lease = Lease(await self._driver.grant(ttl), ttl)
        keeping = asyncio.create_task(lease.keep(self._driver), name=f"northbound lease {lease.number}")
        try:
            yield lease
        finally:
            keeping.cancel()
            await asyncio.wait([keeping])
            with suppress(Unavailable):  # then the lease ends by itself
                await self._driver.revoke(lease.number)

    # -- watching ----------------------------------------------------------------------------------------------

    def watch(
        self,
        model: type[T],
        *,
        since: StoreView | None = None,
        where: Callable[[T], bool] | None = None,
        subclasses: bool = False,
        **values: Any,
    ) -> AsyncIterator[Event[T]]:
        """Yield the events of records with these values in their fields, for which `where` is true.

        The watch begins with its first step. `since`: begin with the differences from this view, so that nothing falls
        between a listing and the watch. Raises `Invalid` for a field that the model does not have.
        """
        return self._watch(self._filter(model, where, values, subclasses=subclasses), since)

    def handle(
        self,
        model: type[T],
        handler: Handler[T],
        name: str,
        *,
        since: StoreView | None = None,
        where: Callable[[T], bool] | None = None,
        subclasses: bool = False,
        **values: Any,
    ) -> None:
        """Call `handler` for each event of such a watch, from now on until the API is closed. Raises `Invalid`.

        If the handler raises, it gets the same event again after 0.1 to 30 seconds; meanwhile, `problems` has the
        error.
        """
        events = self._subscribe(self._filter(model, where, values, subclasses=subclasses), since)
        self._handlers.add(events, handler, name)

    async def follow(self, models: Collection[type[Model]], after: int) -> AsyncIterator[Followed]:
        """Yield every write after a revision, from the database: none is merged, and the state before is unknown.

        A consumer that notes the revision can continue from there after a restart. Raises `Compacted` if the history is
        no longer kept, and `Unavailable`. Records that cannot be read are left out.
        """
        async for batch in self.follow_batches(models, after):
            for each in batch.writes:
                yield each

    async def follow_batches(self, models: Collection[type[Model]], after: int) -> AsyncGenerator[FollowedBatch, None]:
        """Do as `follow`, and also yield the revisions up to which there are no writes."""
        async for batch in self._driver.watch(after, [model.table for model in models]):
            yield FollowedBatch(batch.revision, self._followed(batch))

    def _followed(self, batch: WatchBatch) -> Iterator[Followed]:
        for change in batch.changes:
            record = self._feed.decode(change.row) if change.row else None
            if record is not None or change.row is None:
                yield Followed(batch.revision, registry.find(change.table), change.id, record)

    # -- topics ------------------------------------------------------------------------------------------------

    async def take_topic(self, topic: str) -> None:
        """Add the records of a topic to the cache; they appear with events. Raises `Unavailable`."""
        if self._topics is not None and topic not in self._topics:
            self._topics.add(topic)
            try:
                await self._feed.list_records()
            except BaseException:
                await self.drop_topic(topic)
                raise

    async def drop_topic(self, topic: str) -> None:
        """Remove the records of a topic from the cache; they, and no others, disappear with events."""
        if self._topics is not None and topic in self._topics:
            self._topics.discard(topic)
            self._feed.forget(lambda record: not self._wanted(record))

    # -- for references -----------------------------------------------------------------------------------

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
        """Return the problems: a database out of reach, unreadable records, records of newer versions."""
        return [*filter(None, [self._driver.trouble]), *self._feed.problems(), *self._handlers.problems()]

    # -- parts -------------------------------------------------------------------------------------------------

    def _wanted(self, record: Model) -> bool:
        return self._topics is None or not isinstance(record, Topic) or record.topic in self._topics

    def _complete(self, model: type[Model]) -> bool:
        """Return whether the cache holds all records of a model."""
        return model not in self._uncached and (self._topics is None or not issubclass(model, Topic))

    @staticmethod
    def _filter(
        model: type[T], where: Callable[[T], bool] | None, values: Mapping[str, Any], *, subclasses: bool
    ) -> Filter[T]:
        if unknown := values.keys() - model.model_fields.keys():
            raise Invalid(f"{model.__name__} has no field {', '.join(sorted(unknown))}")
        return Filter(model, values, where, subclasses=subclasses)

    def _subscribe(self, wanted: Filter[T], since: StoreView | None) -> EventQueue[T]:
        """Return the queue of a new subscriber; it ends at once if the API is closed."""
        events, now = EventQueue(wanted), self.view
        before = since or now
        for model in filter(wanted.covers, registry.in_order()):
            for key in sorted(before.touched(model, now)) if before is not now else ():
                if each := event(model, key, before.get(model, key), now.get(model, key), now.revision):
                    events.offer(each)
        if self._feed.ended:
            events.close()
        self._delivery.subscriptions.add(events)
        return events

    async def _watch(self, wanted: Filter[T], since: StoreView | None) -> AsyncIterator[Event[T]]:
        events = self._subscribe(wanted, since)
        del since  # each write costs more while an old view is in use
        try:
            async for found in events:
                yield found
        finally:
            self._delivery.subscriptions.discard(events)

    async def _resolve(self, records: Iterable[Model], fields: Iterable[str]) -> None:
        for record in records:
            for field in fields:
                for ref in refs(getattr(record, field)):
                    await self.resolve(ref)


def _with_table(model: type[T], resolve: Iterable[str]) -> type[T]:
    """Return a model that has a table and these fields. Raises `Invalid`."""
    if not getattr(model, "table", ""):
        raise Invalid(f"{model.__name__} has no table; it can only be embedded")
    if unknown := [name for name in resolve if name not in model.model_fields]:
        raise Invalid(f"{model.__name__} has no field {', '.join(unknown)}")
    return model


def refs(value: Any) -> Iterator[Ref[Any]]:
    """Yield the references in the value of a field."""
    if isinstance(value, Ref):
        yield value
    elif isinstance(value, (dict, list, tuple, set)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from refs(each)

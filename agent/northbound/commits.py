"""How a transaction is made: computed from the cache, and written if the database has not changed since.

Otherwise the transaction is computed again. Records that the cache does not hold are read from the database. A computed
error, such as `NotFound`, is raised only if the database confirms its input: the cache may lag behind the writes of
others.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import asynccontextmanager

from holdfast.agent.northbound.drivers.base import ConditionFailed, DbTransaction, Driver, Expect, LeaseEnded, Put
from holdfast.agent.northbound.errors import Conflict, Invalid, Unavailable
from holdfast.agent.northbound.feed import CacheFeed
from holdfast.agent.northbound.model import Model
from holdfast.agent.northbound.registry import registry
from holdfast.agent.northbound.store.base import Stored, StoreView
from holdfast.agent.northbound.transactions import Computed, Writing

Record = tuple[type[Model], str]

TRIES = 100
"""Most times that a transaction is computed again because others have changed the records that it read."""
TIMEOUT = 10.0
"""Seconds for which a write waits until the cache shows it."""
TURN = 0.1
"""Most seconds for which a transaction waits for an earlier one of this process."""
REST = 0.02
"""Most seconds between two attempts after several have failed."""


class Committer:
    """Makes the transactions of one API. `complete` says whether the cache holds all records of a model."""

    def __init__(
        self,
        driver: Driver,
        feed: CacheFeed,
        uncached: Iterable[type[Model]],
        complete: Callable[[type[Model]], bool],
    ) -> None:
        self._driver, self._feed, self._uncached, self._complete = driver, feed, frozenset(uncached), complete
        self._under_way: dict[Record, asyncio.Future[None]] = {}
        """Record -> the end of the last transaction that names it."""

    async def commit(self, writing: Writing) -> Computed:
        """Make a transaction. Raises what its steps and hooks raise, `Conflict` and `Unavailable`."""
        if self._feed.ended:
            raise Unavailable("the store is closed")
        async with self._turn({*writing.records}):
            return await self._commit(writing)

    @asynccontextmanager
    async def _turn(self, records: Collection[Record]) -> AsyncIterator[None]:
        """Wait for earlier transactions of this process with the same records, because only one of them could succeed.

        The wait is short: the database may hang.
        """
        ahead = {self._under_way[record] for record in records if record in self._under_way}
        end = asyncio.get_running_loop().create_future()
        self._under_way |= dict.fromkeys(records, end)
        try:
            if ahead:
                await asyncio.wait(ahead, timeout=TURN)
            yield
        finally:
            end.set_result(None)
            for record in records:
                if self._under_way.get(record) is end:
                    del self._under_way[record]

    async def _commit(self, writing: Writing) -> Computed:
        beyond = {record for record in writing.records if record[0] in self._uncached}
        for number in range(TRIES):
            fetched = {record: await self._fetch(*record) for record in beyond}
            view = self._feed.store.view
            result = writing.compute(view, fetched, self._complete)
            try:
                return await self._write(result)
            except ConditionFailed as error:
                if writing.asserted(error.condition):
                    raise Conflict(str(error), error.current) from None
                if record := self._lacks(view, error):
                    beyond.add(record)
                else:
                    await self._catch_up(view, error)
                await asyncio.sleep(random.uniform(0, REST) if number else 0)  # noqa: S311 - no secret
            except LeaseEnded as error:
                raise Conflict(str(error), 0) from None
        raise Conflict(f"others have changed the same records {TRIES} times in a row", 0)

    async def _write(self, result: Computed) -> Computed:
        """Write, and wait until the cache shows it; or raise the computed error if its conditions hold."""
        transaction = result.transaction
        if result.error and not transaction.conditions:
            raise result.error
        revision = await self._driver.commit(transaction)
        if result.error:
            raise result.error
        if _changes(transaction):
            self._feed.offer(revision, transaction.writes)
        if transaction.writes:
            await self._feed.shows(revision, TIMEOUT)
        return result

    async def _fetch(self, model: type[Model], id: str) -> Stored | None:
        """Return a record from the database. Raises `Invalid` if it cannot be read."""
        row = await self._driver.get(model.table, id)
        if row is None:
            return None
        record = self._feed.decode(row)
        if record is None:
            raise Invalid(self._feed.unreadable[model, id])
        return Stored(record, row.revision, row.created)

    def _lacks(self, view: StoreView, error: ConditionFailed) -> Record | None:
        """Return the record of a failed condition if the database has it and the cache does not hold it.

        It belongs to a topic that the cache does not hold, or cannot be read.
        """
        if not isinstance(error.condition, Expect):
            return None
        record = (registry.find(error.condition.table), error.condition.id)
        known = view.own(*record)
        different = (known.revision if known else 0) != error.current
        return record if 0 < error.current <= view.revision and different else None

    async def _catch_up(self, view: StoreView, error: ConditionFailed) -> None:
        """Wait until the cache has the change that made a condition fail. Raises `Unavailable`."""
        if self._feed.store.view is not view or registry.find(error.condition.table) in self._uncached:
            return
        if not await self._feed.shows(max(error.current, view.revision + 1), TIMEOUT):
            why = next(self._feed.problems(), "it does not answer")
            raise Unavailable(f"the cache does not follow the database: {why}")


def _changes(transaction: DbTransaction) -> bool:
    """Return whether a transaction gets a revision of its own: deletions of absent records get none."""
    there = {each[:2] for each in transaction.conditions if isinstance(each, Expect) and each.revision > 0}
    return any(isinstance(write, Put) or write[:2] in there for write in transaction.writes)

"""How the cache follows the database: listings while others write, backups, large tables, batches that overlap."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from deadline import DEADLINE
from holdfast.agent.northbound import feed
from holdfast.agent.northbound.api import NbApi
from holdfast.agent.northbound.drivers.base import Delete, Put, RowChange, Snapshot, TableRow, WatchBatch
from holdfast.agent.northbound.drivers.memory import Memory, MemoryDriver
from holdfast.agent.northbound.errors import Compacted, Unavailable
from holdfast.agent.northbound.events import Event
from holdfast.agent.northbound.store.indexed import IndexedStore
from northbound_models import Machine, Site, Tenant


class SlowDriver(MemoryDriver):
    """Its reads end when the test says so; each then fails if `fails` is set."""

    def __init__(self, memory: Memory) -> None:
        super().__init__(memory)
        self.reading, self.go = asyncio.Event(), asyncio.Event()
        self.go.set()
        self.fails = False

    async def read(self, tables: Sequence[str] | None = None) -> Snapshot:
        """Read, then wait."""
        snapshot = await super().read(tables)
        self.reading.set()
        await self.go.wait()
        if self.fails:
            raise Unavailable("the connection was lost")
        return snapshot


async def settle() -> None:
    """Let all tasks run that can."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_listing_does_not_undo_what_is_written_meanwhile() -> None:
    """Records that were created, changed and deleted after the listing was read are as they were written."""
    driver = SlowDriver(Memory())
    async with NbApi(driver, IndexedStore(), topics={"r"}) as api:
        for key in ("changed", "deleted", "again"):
            await api.create(Tenant(id=key, topic="b"))
        driver.go.clear()
        taking = asyncio.create_task(api.take_topic("b"))
        await driver.reading.wait()
        await api.create(Tenant(id="created", topic="b"))
        await api.mutate(Tenant, "changed", lambda record: record.replace(topic="r"))
        await api.delete(Tenant(id="deleted"))
        await api.delete(Tenant(id="again"))
        await api.create(Tenant(id="again", topic="b"))
        driver.go.set()
        await taking
        assert api.view.keys(Tenant) == ["again", "changed", "created"]
        for each in api.view.get_all(Tenant):
            assert each == await api.get(Tenant, each.id)


async def test_a_topic_that_is_dropped_while_another_is_taken_stays_away() -> None:
    """Its records were in the listing."""
    driver = SlowDriver(Memory())
    async with NbApi(driver, IndexedStore(), topics={"r"}) as api:
        for topic in "rgb":
            await api.create(Tenant(id=topic, topic=topic))
        await api.take_topic("g")
        driver.go.clear()
        taking = asyncio.create_task(api.take_topic("b"))
        await driver.reading.wait()
        await api.drop_topic("g")
        driver.go.set()
        await taking
        assert api.view.keys(Tenant) == ["b", "r"]


async def test_a_topic_that_could_not_be_taken_can_be_taken_again() -> None:
    """After an error, and after the caller was cancelled."""
    driver = SlowDriver(Memory())
    async with NbApi(driver, IndexedStore(), topics=()) as api:
        await api.create(Tenant(id="a", topic="b"))
        driver.fails = True
        with pytest.raises(Unavailable):
            await api.take_topic("b")
        driver.fails = False
        driver.go.clear()
        driver.reading.clear()
        taking = asyncio.create_task(api.take_topic("b"))
        await driver.reading.wait()
        taking.cancel()
        await asyncio.wait([taking])
        driver.go.set()
        assert api.view.keys(Tenant) == []
        await api.take_topic("b")
        assert api.view.keys(Tenant) == ["a"]


@pytest.mark.usefixtures("virtual_time")
async def test_a_database_that_was_restored_from_a_backup_is_listed_again() -> None:
    """Its revision is lower; the cache becomes what the database has, and subscribers are told."""
    memory = Memory()
    driver = MemoryDriver(memory)
    seen: list[Event[Any]] = []

    async def handler(event: Event[Any]) -> None:
        seen.append(event)

    async with NbApi(driver, IndexedStore()) as api:
        await api.create(Machine(id="a", note="old"))
        backup = dict(memory.rows)
        await api.update(Machine(id="a", note="new"))
        await api.create(Machine(id="b"))
        api.handle(Machine, handler, "test")
        memory.rows = backup
        memory.history.restart(1)
        await settle()
        assert (api.view.revision, api.view.keys(Machine)) == (1, ["a"])
        assert api.view.get(Machine, "a").note == "old"
        assert [(each.kind, each.id) for each in seen] == [("updated", "a"), ("deleted", "b")]
        await asyncio.wait_for(api.update(Machine(id="a", note="newer")), 1)
        assert api.view.get(Machine, "a").note == "newer"


async def test_other_tasks_go_on_while_a_large_table_is_listed() -> None:
    """At the start, and when the history is gone: no slice is longer than some rows."""
    memory = Memory(room=1 << 30)
    for start in range(0, 10 * feed.SLICE, 100):
        keys = [f"m{number:05}" for number in range(start, start + 100)]
        memory.write([Put("test-machines", key, Machine(id=key, version=1).encode()) for key in keys])
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    async with NbApi(MemoryDriver(memory), IndexedStore()) as api:
        assert turns >= 10
        assert api.view.count(Machine) == 10 * feed.SLICE
        turns = 0
        await api._feed.list_records()
        assert turns >= 10
    counting.cancel()


class ScriptedDriver(MemoryDriver):
    """Its watch tells what the test says."""

    def __init__(self, memory: Memory) -> None:
        super().__init__(memory)
        self.batches: asyncio.Queue[WatchBatch | Exception] = asyncio.Queue()

    async def watch(self, after: int, tables: Sequence[str] | None = None) -> AsyncIterator[WatchBatch]:
        """Yield or raise."""
        while True:
            batch = await self.batches.get()
            if isinstance(batch, Exception):
                raise batch
            yield batch


async def test_a_batch_that_the_cache_has_in_part_adds_only_the_rest() -> None:
    """A merged batch begins before the listing: a record that was deleted and created again then is there."""
    memory = Memory()
    data = Site(id="a", name="x").encode()
    memory.write([Put("test-sites", "a", data)])
    memory.write([Delete("test-sites", "a")])
    memory.write([Put("test-sites", "a", data)])
    driver = ScriptedDriver(memory)
    async with NbApi(driver, IndexedStore()) as api:
        assert api.view.revision == 3
        again = RowChange("test-sites", "a", TableRow("test-sites", "a", data, 3, 3))
        late = RowChange("test-sites", "b", TableRow("test-sites", "b", Site(id="b", name="x").encode(), 4, 4))
        gone = RowChange("test-sites", "a", None)
        driver.batches.put_nowait(WatchBatch(2, [gone]))
        driver.batches.put_nowait(WatchBatch(4, [gone, again, late]))
        assert await api.shows(4, DEADLINE)
        assert api.view.keys(Site) == ["a", "b"]
        assert api.view.stored(Site, "a").revision == 3


@pytest.mark.usefixtures("virtual_time")
async def test_health_says_why_the_cache_does_not_follow_until_it_does() -> None:
    """A database whose history is gone and that cannot be read, too."""
    memory = Memory()
    driver = ScriptedDriver(memory)
    async with NbApi(driver, IndexedStore()) as api:
        driver.batches.put_nowait(Compacted(0, 0))
        read, driver.read = driver.read, away  # type: ignore[method-assign, assignment]
        await asyncio.sleep(1)
        assert api.problems() == ["the database is away"]
        driver.read = read  # type: ignore[method-assign]
        memory.write([Put("test-sites", "a", Site(id="a", name="x").encode())])
        assert await api.shows(1, DEADLINE)
        driver.batches.put_nowait(WatchBatch(1, ()))
        await settle()
        assert api.problems() == []


async def away(_: object) -> Snapshot:
    """Fail."""
    raise Unavailable("the database is away")


@pytest.mark.usefixtures("virtual_time")
async def test_waiting_for_a_revision_leaves_nothing_behind() -> None:
    """Whether it comes, the time has run out, the caller is cancelled, or the API is closed."""
    memory = Memory()
    async with NbApi(MemoryDriver(memory), IndexedStore()) as api:
        assert not await api.shows(1, 0)
        cancelled = asyncio.create_task(api.shows(1, 60))
        await settle()
        cancelled.cancel()
        await asyncio.wait([cancelled])
        assert api._feed._waiting == []
        waiting = [asyncio.create_task(api.shows(revision, 60)) for revision in (2, 1, 5)]
        await settle()
        await api.create(Site(id="a", name="x"))
        await api.create(Site(id="b", name="x"))
        assert [await each for each in waiting[:2]] == [True, True]
    assert not await asyncio.wait_for(waiting[2], 1)
    assert api._feed._waiting == []
    assert not await asyncio.wait_for(api.shows(9, 60), 1)

"""Handlers and watches that go wrong: health names them, and nothing of them is left."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent.northbound.api import NbApi
from holdfast.agent.northbound.drivers.memory import Memory, MemoryDriver
from holdfast.agent.northbound.drivers.sqlite import SqliteDriver
from holdfast.agent.northbound.errors import Invalid, Unavailable
from holdfast.agent.northbound.events import Event
from holdfast.agent.northbound.leases import Lease
from holdfast.agent.northbound.store.copying import CopyingStore
from holdfast.agent.northbound.store.indexed import IndexedStore
from northbound_models import Hooked, Machine, Port, Site


async def nothing(_: Event[Any]) -> None:
    """Do nothing."""


async def test_a_handler_with_an_unknown_field_is_refused_at_once() -> None:
    """Not in a task whose error nobody sees."""
    async with NbApi(MemoryDriver(), IndexedStore()) as api:
        with pytest.raises(Invalid, match="Machine has no field nope"):
            api.handle(Machine, nothing, "test", nope=1)
        with pytest.raises(Invalid, match="Machine has no field nope"):
            await api.get_all(Machine, resolve=["nope"])
        with pytest.raises(Invalid, match="Port has no table; it can only be embedded"):
            await api.get(Port, "x")


async def test_a_handler_sees_what_happens_right_after_it_was_added() -> None:
    """It subscribes at once, not when its task first runs."""
    seen: list[str] = []

    async def handler(event: Event[Any]) -> None:
        seen.append(event.id)

    async with NbApi(MemoryDriver(), IndexedStore(), topics=()) as api:
        await api.create(Site(id="before", name="x"))
        api.handle(Site, handler, "test", since=IndexedStore().view)
        assert len(api._delivery.subscriptions) == 1
        await api.create(Site(id="after", name="x"))
        await asyncio.sleep(0)
        assert seen == ["before", "after"]
    assert not api._delivery.subscriptions


@pytest.mark.usefixtures("virtual_time")
async def test_a_handler_whose_work_was_cancelled_goes_on() -> None:
    """Not by us: a task that it waited for. It counts as a failure, and the event comes again."""
    seen: list[str] = []

    async def handler(event: Event[Any]) -> None:
        seen.append(event.id)
        if len(seen) == 1:
            raise asyncio.CancelledError

    async with NbApi(MemoryDriver(), IndexedStore()) as api:
        api.handle(Site, handler, "test")
        await api.create(Site(id="a", name="x"))
        await asyncio.sleep(0.01)
        assert api.problems() == ["the handler test fails: CancelledError: "]
        await asyncio.sleep(1)
        assert seen == ["a", "a"]
        assert api.problems() == []


async def test_a_handler_whose_condition_raises_shows_in_health() -> None:
    """It gets no more events, and others are not disturbed."""
    async with NbApi(MemoryDriver(), IndexedStore()) as api:
        api.handle(Hooked, nothing, "test", where=lambda record: record.text[9] == "x")
        await api.create(Hooked(id="a", text="x"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert api.problems() == [
            "the handler test fails: it gets no more events: IndexError: string index out of range"
        ]
        assert not api._delivery.subscriptions


@pytest.mark.parametrize("store", [IndexedStore, CopyingStore])
async def test_a_watch_from_a_view_tells_what_differs(store: Any) -> None:
    """Only the models that it covers are compared, and of those only what was touched."""
    async with NbApi(MemoryDriver(), store()) as api:
        for key in "abc":
            await api.create(Site(id=key, name="x"))
        view = api.view
        await api.update(Site(id="a", name="y"))
        await api.delete(Site(id="b"))
        await api.create(Site(id="d", name="x"))
        await api.create(Machine(id="m"))
        events = api.watch(Site, since=view)
        seen = [await anext(events) for _ in range(3)]
        assert [(each.kind, each.id) for each in seen] == [("updated", "a"), ("deleted", "b"), ("created", "d")]
        assert sorted(view.touched(Site, api.view)) == (["a", "b", "d"] if store is IndexedStore else [*"abcd"])
        await events.aclose()
        assert not api._delivery.subscriptions


async def test_an_api_that_cannot_be_opened_leaves_the_database_closed(tmp_path: Path) -> None:
    """So that another one can be opened, for example after the error was mended."""
    path = tmp_path / "northbound.db"
    with pytest.raises(Invalid, match="the cache does not hold both"):
        await NbApi(SqliteDriver(path, agent=True), IndexedStore(), uncached=[Site]).__aenter__()
    async with NbApi(SqliteDriver(path, agent=True), IndexedStore()) as api:
        await api.create(Site(id="a", name="x"))


@pytest.mark.usefixtures("virtual_time")
async def test_a_lease_ends_in_time_although_the_database_hangs() -> None:
    """Another process may have what the lease protects as soon as its time is over."""

    class Hanging(MemoryDriver):
        hangs = False

        async def keep_alive(self, lease: int) -> None:
            if self.hangs:
                await asyncio.Event().wait()
            await super().keep_alive(lease)

    driver = Hanging(Memory())
    async with NbApi(driver, IndexedStore()) as api, api.lease(30) as lease:
        await asyncio.sleep(999)
        assert not lease.ended.is_set()
        driver.hangs = True
        await asyncio.sleep(12)
        driver.hangs = False
        await asyncio.sleep(20)  # one answer was missed
        assert not lease.ended.is_set()
        driver.hangs = True
        await asyncio.sleep(30)
        assert lease.ended.is_set()


@pytest.mark.usefixtures("virtual_time")
async def test_a_lease_whose_end_the_database_does_not_hear_of_ends_by_itself() -> None:
    """The block ends without an error."""

    class Away(MemoryDriver):
        async def revoke(self, lease: int) -> None:
            raise Unavailable(f"away, with {lease}")

    driver = Away(Memory())
    async with NbApi(driver, IndexedStore()) as api:
        async with api.lease(30) as lease:
            assert isinstance(lease, Lease)
            await api.create(Site(id="a", name="x"), lease=lease)
        assert api.view.has(Site, "a")
        await asyncio.sleep(31)
        assert not api.view.has(Site, "a")

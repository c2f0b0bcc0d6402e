"""Callers that are cancelled at any moment at which they wait: nothing of them is left, and everything goes on."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from cancelling import cancelled_at
from deadline import DEADLINE
from holdfast.agent.northbound.api import NbApi
from holdfast.agent.northbound.drivers import sqlite
from holdfast.agent.northbound.drivers.base import Driver
from holdfast.agent.northbound.drivers.etcd import EtcdDriver
from holdfast.agent.northbound.drivers.etcd_connection import Access
from holdfast.agent.northbound.drivers.memory import Memory, MemoryDriver
from holdfast.agent.northbound.drivers.sqlite import SqliteDriver
from holdfast.agent.northbound.errors import AlreadyExists, NotFound
from holdfast.agent.northbound.store.indexed import IndexedStore
from northbound_models import Machine, Tenant

Work = Callable[[NbApi, str], Awaitable[Any]]


@pytest.fixture(params=["memory", "sqlite", "etcd"])
def connect(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Driver]:
    """Return a function that makes a driver of one database."""
    monkeypatch.setattr(sqlite, "POLL", 0.01)
    if request.param == "etcd":
        access, prefix = Access(request.getfixturevalue("etcd").endpoints), f"/{uuid.uuid4()}/"
        return lambda: EtcdDriver(access, prefix)
    memory = Memory()
    if request.param == "memory":
        return lambda: MemoryDriver(memory)
    return lambda: SqliteDriver(tmp_path / "northbound.db", agent=True, durable=False)


async def transact(api: NbApi, key: str) -> None:
    """Write two records."""
    async with api.transaction() as writing:
        writing.create(Machine(id=f"{key}-1"))
        writing.create(Tenant(id=f"{key}-2", topic="r"))


async def hold_lease(api: NbApi, key: str) -> None:
    """Write a record under a lease."""
    async with api.lease(5) as lease:
        await api.create(Machine(id=key), lease=lease)


async def watch(api: NbApi, key: str) -> None:
    """Wait for an event."""
    creating = asyncio.create_task(api.create(Machine(id=key)))
    async for _ in api.watch(Machine, id=key):
        break
    await creating


async def follow(api: NbApi, key: str) -> None:
    """Read the history from before a record up to it."""
    before = api.view.revision
    await api.create(Machine(id=key))
    async for each in api.follow([Machine], before):
        if each.id == key:
            break


async def change_topics(api: NbApi, key: str) -> None:
    """Take a topic, and drop it."""
    await api.take_topic(key)
    await api.drop_topic(key)


WORK: dict[str, Work] = {
    "create": lambda api, key: api.create(Tenant(id=key, topic="r")),
    "update": lambda api, key: api.update(Machine(id="m", note=key)),
    "no-update": lambda api, key: api.update(Machine(id="m", facts={"count": 0})),
    "mutate": lambda api, key: api.mutate(Machine, "m", lambda it: it.replace(note=key)),
    "delete": lambda api, key: api.delete(Machine(id=key)),
    "get": lambda api, key: api.get(Machine, "m"),
    "page": lambda api, key: api.page(Machine),
    "transaction": transact,
    "lease": hold_lease,
    "watch": watch,
    "follow": follow,
    "topics": change_topics,
}


async def at_rest(before: set[asyncio.Task[Any]]) -> None:
    """Wait until there are no other tasks than before."""
    async with asyncio.timeout(DEADLINE):
        while {each for each in asyncio.all_tasks() if not each.done()} - before:
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("work", WORK.values(), ids=WORK.keys())
async def test_a_cancelled_caller_leaves_nothing_behind(connect: Callable[[], Driver], work: Work) -> None:
    """No task, waiter, subscription or turn; and the next caller succeeds."""
    async with NbApi(connect(), IndexedStore(), topics={"r"}) as api:
        await api.create(Machine(id="m", facts={"count": 0}))
        before = asyncio.all_tasks()
        reached, number = True, 0
        while reached:
            number += 1

            async def attempt(key: str = f"k{number}") -> None:
                try:
                    await work(api, key)
                except NotFound:
                    return

            reached = await cancelled_at(number, attempt())
            await at_rest(before)
            assert not api._feed._waiting
            assert not api._committer._under_way
            assert not api._delivery.subscriptions
            assert not api._feed._listing.locked()
            await asyncio.wait_for(
                api.mutate(Machine, "m", lambda it, n=number: it.replace(labels={"n": str(n)})), DEADLINE
            )
        assert api.problems() == []
        assert api.view.get_all(Machine) == await api.page(Machine, limit=1000)


async def test_an_api_whose_opening_or_closing_was_cancelled_can_be_opened_again(
    connect: Callable[[], Driver],
) -> None:
    """Its database is closed then: another agent may open the file."""
    before = asyncio.all_tasks()

    async def session() -> None:
        async with NbApi(connect(), IndexedStore()) as api:
            try:
                await api.create(Machine(id="a"))
            except AlreadyExists:
                await api.delete(Machine(id="a"))

    reached, number = True, 0
    while reached:
        number += 1
        reached = await cancelled_at(number, session())
        await at_rest(before)
        async with NbApi(connect(), IndexedStore()) as api:
            await api.create(Machine(id=f"b{number}"))
    assert number > 2


async def test_a_lease_whose_caller_was_cancelled_ends(tmp_path: Path) -> None:
    """SQLite: whoever asked for it, this process ends it."""
    driver = SqliteDriver(tmp_path / "northbound.db", agent=True, durable=False)
    await driver.open()
    reached, number = True, 0
    while reached:
        number += 1
        reached = await cancelled_at(number, driver.grant(0.01))
    async with asyncio.timeout(DEADLINE):
        while await driver._read(sqlite.sqlite_tables.leases):
            await asyncio.sleep(0.005)
    await driver.close()


async def test_a_file_is_recreated_and_told_although_the_caller_was_cancelled(tmp_path: Path) -> None:
    """The caller whose read or write has found the damage."""
    path = tmp_path / "northbound.db"
    driver = SqliteDriver(path, agent=True, durable=False)
    await driver.open()
    reached, number = True, 0
    while reached:
        number += 1
        driver.renewed = ""
        path.unlink()
        reached = await cancelled_at(number, driver._renew(driver._file.changed()))
        async with asyncio.timeout(DEADLINE):
            while not driver.renewed:
                await asyncio.sleep(0.001)
        assert "its records were kept" in driver.renewed
    await driver.close()

"""Caches on a database that fails: in the end they are equal to it, and so is what watchers have been told."""

from __future__ import annotations

import asyncio
import os
from random import Random
from typing import Any

import pytest

from deadline import DEADLINE
from faulty_driver import FaultyDriver
from holdfast.agent.northbound.api import NbApi
from holdfast.agent.northbound.drivers.memory import Memory
from holdfast.agent.northbound.errors import NorthboundError, Unavailable
from holdfast.agent.northbound.store.indexed import IndexedStore
from northbound_models import Machine, Service, Site

SEEDS = 300 if os.environ.get("CI") else 30
MODELS = (Site, Machine, Service)


class Replay:
    """The records of one model as the events of a watch tell them."""

    def __init__(self) -> None:
        self.records: dict[str, Any] = {}
        self.revision = 0

    async def follow(self, api: NbApi, model: Any) -> None:
        """Apply events; each must fit what was told before."""
        async for event in api.watch(model, since=EMPTY):
            assert event.revision >= self.revision
            assert self.records.get(event.id) == event.old
            assert (event.old is None) == (event.kind == "created")
            self.revision = event.revision
            if event.new is None:
                del self.records[event.id]
            else:
                self.records[event.id] = event.new


EMPTY = IndexedStore().view


async def write(api: NbApi, random: Random) -> None:
    """Make some random writes, of which some are refused and some fail."""
    for _ in range(15):
        key = random.choice("abc")
        writes = [
            lambda key=key: api.create(Site(id=key, name=key)),
            lambda key=key: api.create(Machine(id=key, site=random.choice([None, *"abc"]))),
            lambda key=key: api.create(Service(id=key, machine=random.choice("abc"), state="up")),
            lambda key=key: api.update(Machine(id=key, note=str(random.random()))),
            lambda key=key: api.mutate(Service, key, lambda it: it.replace(state=it.state + "x")),
            lambda key=key: api.delete(random.choice(MODELS)(id=key)),
        ]
        try:
            await random.choice(writes)()
        except NorthboundError:
            await asyncio.sleep(random.random() / 10)


async def no_problems(api: NbApi) -> None:
    """Wait until a lost connection is made again: it may have been lost after the last change was shown."""
    async with asyncio.timeout(DEADLINE):
        while api.problems():
            await asyncio.sleep(1)


async def life(seed: int) -> None:
    """Two processes write and watch while everything fails; then the faults end."""
    random, memory = Random(seed), Memory()
    drivers = [FaultyDriver(memory, Random(random.random())) for _ in range(2)]
    apis = [NbApi(driver, IndexedStore()) for driver in drivers]
    for api in apis:
        while True:
            try:
                await api.__aenter__()
            except Unavailable:
                continue
            break
    replays = {(api, model): Replay() for api in apis for model in MODELS}
    following = [asyncio.create_task(replay.follow(*key)) for key, replay in replays.items()]
    await asyncio.gather(*(write(api, random) for api in apis for _ in range(2)))
    for driver in drivers:
        driver.calm = True
    for api in apis:
        assert await api.shows(memory.revision, 100)
    await asyncio.sleep(1)
    assert [task.exception() for task in following if task.done()] == []
    for api in apis:
        await no_problems(api)
        for model in MODELS:
            stored = {row.id: model.decode(row.data) for row in memory.rows.values() if row.table == model.table}
            assert {record.id: record for record in api.view.get_all(model)} == stored == replays[api, model].records
        for service in api.view.get_all(Service):
            assert service.machine.peek() is not None
        for machine in api.view.get_all(Machine):
            assert machine.site is None or machine.site.peek() is not None
        await api.__aexit__(None, None, None)
    await asyncio.gather(*following)


@pytest.mark.parametrize("block", range(10))
@pytest.mark.usefixtures("virtual_time")
async def test_caches_and_watchers_end_with_what_the_database_has(block: int) -> None:
    """No reference to nothing is ever stored, and no event contradicts the one before."""
    for seed in range(block, SEEDS, 10):
        try:
            await life(seed)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise

"""Concurrent mutations on etcd while members are killed and connections cut: each key is a linearizable register."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
import uuid
from contextlib import AsyncExitStack
from math import inf
from random import Random

import pytest

import etcd_server
from cutting_proxy import CuttingProxy
from deadline import DEADLINE
from holdfast.agent.northbound.api import NbApi
from holdfast.agent.northbound.drivers.etcd import EtcdDriver
from holdfast.agent.northbound.drivers.etcd_connection import Access
from holdfast.agent.northbound.errors import Conflict, Unavailable
from holdfast.agent.northbound.store.indexed import IndexedStore
from linearizable import Operation, linearizable
from northbound_models import Site

CLIENTS, KEYS = 8, 3
ROUNDS = 6 if os.environ.get("CI") else 1
"""How often a member is killed and connections are cut."""
PROGRESS = 40
"""Operations that must succeed before, during and after each fault."""


def operation(began: float, ended: float, read: str, wrote: str | None = None) -> Operation:
    """Return an operation, so that a history is short to write."""
    return Operation(began, ended, read, wrote)


@pytest.mark.parametrize(
    ("history", "right"),
    [
        ([(0, 1, "0", "a"), (2, 3, "a", "b"), (4, 5, "b")], True),
        ([(0, 5, "a", "b"), (1, 2, "0", "a")], True),
        ([(0, 1, "0", "a"), (2, 3, "0")], False),  # a read of the past
        ([(0, 9, "0", "a"), (1, 2, "a"), (3, 4, "0")], False),  # two reads see a write and see it not
        ([(0, 1, "0", "a"), (0, 1, "0", "b")], False),  # a lost update
        ([(0, inf, "0", "a"), (2, 3, "a")], True),  # its answer was lost, but it was made
        ([(0, inf, "0", "a"), (2, 3, "0"), (4, 5, "a")], True),  # it was made late
        ([(0, inf, "0", "a"), (2, 3, "0"), (4, 5, "0")], True),  # it was never made
        ([(3, inf, "0", "a"), (1, 2, "a")], False),  # it was made before it was asked for
        ([(0, inf, "0", "a"), (1, 2, "a"), (3, 4, "0")], False),  # it was made and undone
    ],
)
def test_the_checker_knows_right_and_wrong_histories(history: list[tuple[float, float, str]], right: bool) -> None:
    """The first value is 0."""
    assert linearizable([operation(*each) for each in history], "0") is right


def test_the_checker_finds_an_error_in_a_long_history() -> None:
    """Of hundreds of operations, eight at a time; one read returns an older value."""
    random = Random(7)
    history = []
    for number in range(400):
        began, ended = number - 4 * random.random(), number + 4 * random.random()
        history.append(Operation(began, ended, str(number), str(number + 1)))
    assert linearizable(history, "0")
    history[200] = Operation(*history[200][:2], "190", "201")
    assert not linearizable(history, "0")


class Client:
    """Changes and reads random keys, and notes what it saw."""

    def __init__(self, api: NbApi, name: int, history: dict[str, list[Operation]]) -> None:
        self._api, self._name, self._history = api, name, history
        self._random = Random(name)

    async def work(self) -> None:
        """Go on until cancelled."""
        for number in itertools.count():
            key = str(self._random.randrange(KEYS))
            if self._random.random() < 0.25:
                await self._read(key)
            else:
                await self._mutate(key, f"{self._name}.{number}")

    async def _read(self, key: str) -> None:
        began = time.monotonic()
        try:
            found = await self._api.get(Site, key)
        except Unavailable:
            return
        assert found is not None
        self._history[key].append(Operation(began, time.monotonic(), found.name))

    async def _mutate(self, key: str, value: str) -> None:
        seen = ""

        def change(site: Site) -> Site:
            nonlocal seen
            seen = site.name
            return site.replace(name=value)

        began = time.monotonic()
        try:
            written = await self._api.mutate(Site, key, change)
        except Conflict:
            return
        except Unavailable as error:
            if error.unsure:
                self._history[key].append(Operation(began, inf, seen, value))
            return
        except asyncio.CancelledError:
            self._history[key].append(Operation(began, inf, seen, value))
            raise
        assert written.name == value
        self._history[key].append(Operation(began, time.monotonic(), seen, value))
        shown = self._api.view.stored(Site, key)
        assert shown is not None


class Trial:
    """Clients on a cluster, each with a cache of its own. Half of them use proxies."""

    def __init__(self, cluster: etcd_server.Cluster, stack: AsyncExitStack) -> None:
        self._cluster, self._stack = cluster, stack
        self.history: dict[str, list[Operation]] = {str(key): [] for key in range(KEYS)}
        self.apis: list[NbApi] = []
        self.proxies: list[CuttingProxy] = []

    async def connect(self) -> None:
        """Open proxies and clients, and create the records."""
        prefix, endpoints = f"/{uuid.uuid4()}/", self._cluster.endpoints
        self.proxies = [
            await self._stack.enter_async_context(CuttingProxy(each.port)) for each in self._cluster.members
        ]
        for number in range(CLIENTS):
            direct = endpoints[number % 3 :] + endpoints[: number % 3]
            first = [self.proxies[number % 3].endpoint] if number % 2 else []
            driver = EtcdDriver(Access([*first, *direct], connect=1, answer=1), prefix)
            self.apis.append(await self._stack.enter_async_context(NbApi(driver, IndexedStore())))
        for key in self.history:
            await self.apis[0].create(Site(id=key, name="first"))

    async def progress(self) -> None:
        """Wait until more operations have succeeded."""
        wanted = self._succeeded() + PROGRESS
        async with asyncio.timeout(DEADLINE):
            while self._succeeded() < wanted:
                await asyncio.sleep(0.01)

    async def harm(self) -> None:
        """Cut connections; then hold the others and kill the leader, for a while."""
        await self.progress()
        for proxy in self.proxies:
            proxy.cut()
        await self.progress()
        leader = await asyncio.to_thread(self._cluster.leader)
        for proxy in self.proxies:
            proxy.hold()
        leader.kill()
        await self.progress()
        for proxy in self.proxies:
            proxy.release()
        self._cluster.start(leader)
        await asyncio.to_thread(leader.wait)
        await self.progress()

    async def read_all(self) -> None:
        """Add the values at the end."""
        for key, operations in self.history.items():
            final = await self.apis[0].get(Site, key)
            assert final is not None
            now = time.monotonic()
            operations.append(Operation(now, now + 1, final.name))

    def _succeeded(self) -> int:
        return sum(each.ended < inf for operations in self.history.values() for each in operations)


@pytest.mark.skipif(not etcd_server.installed(), reason="etcd is not installed (Debian: etcd-server)")
async def test_mutations_are_linearizable_while_members_die_and_connections_are_cut() -> None:
    """The leader is killed in each round. Takes some seconds, because others are elected."""
    with etcd_server.Cluster(3) as cluster:
        async with AsyncExitStack() as stack:
            trial = Trial(cluster, stack)
            await trial.connect()
            clients = [
                asyncio.create_task(Client(api, number, trial.history).work()) for number, api in enumerate(trial.apis)
            ]
            for _ in range(ROUNDS):
                await trial.harm()
            for each in clients:
                each.cancel()
            await asyncio.wait(clients)
            assert [each.exception() for each in clients if not each.cancelled()] == []
            await trial.read_all()
    for key, operations in trial.history.items():
        assert linearizable(operations, "first"), (key, operations)

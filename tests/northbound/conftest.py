"""A database of each kind, and an API on it."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.agent.northbound.api import NbApi
from holdfast.agent.northbound.drivers import sqlite
from holdfast.agent.northbound.drivers.etcd import EtcdDriver
from holdfast.agent.northbound.drivers.etcd_connection import Access
from holdfast.agent.northbound.drivers.memory import Memory, MemoryDriver
from holdfast.agent.northbound.drivers.sqlite import SqliteDriver
from holdfast.agent.northbound.store.copying import CopyingStore
from holdfast.agent.northbound.store.indexed import IndexedStore
from northbound_world import World


@pytest.fixture(params=["memory", "memory-copying", "sqlite", "etcd"])
def world(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """An empty database."""
    if request.param == "etcd":
        access = Access(request.getfixturevalue("etcd").endpoints)
        prefix = f"/{uuid.uuid4()}/"
        return World(lambda: EtcdDriver(access, prefix), IndexedStore)
    if request.param == "sqlite":
        monkeypatch.setattr(sqlite, "POLL", 0.01)
        return World(lambda: SqliteDriver(tmp_path / "northbound.db", durable=False), IndexedStore)
    memory = Memory()
    return World(lambda: MemoryDriver(memory), CopyingStore if request.param == "memory-copying" else IndexedStore)


@pytest.fixture
async def api(world: World) -> AsyncIterator[NbApi]:
    """An open API."""
    async with world.api() as opened:
        yield opened

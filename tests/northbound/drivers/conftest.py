"""Fixtures of the tests of drivers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.agent.northbound.drivers.base import Driver
from northbound_databases import EtcdDatabase, MemoryDatabase, SqliteDatabase, TestedDatabase


@pytest.fixture(params=["memory", "sqlite", "etcd"])
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[TestedDatabase]:
    """Start an empty database of each kind."""
    if request.param == "etcd":
        database: TestedDatabase = EtcdDatabase(tmp_path, request.getfixturevalue("etcd").endpoints)
    else:
        database = {"memory": MemoryDatabase, "sqlite": SqliteDatabase}[request.param](tmp_path)
    yield database
    await database.stop()


@pytest.fixture
async def driver(database: TestedDatabase) -> Driver:
    """Return its first driver."""
    return await database.driver()

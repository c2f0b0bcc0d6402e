"""Fixtures of the tests of databases in SQLite files."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from holdfast.agent.northbound.drivers import sqlite, sqlite_groups, sqlite_lock
from holdfast.agent.northbound.drivers.sqlite import SqliteDriver


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the waits of seconds."""
    monkeypatch.setattr(sqlite_groups, "TIMEOUT", 0.5)
    monkeypatch.setattr(sqlite_lock, "WAITING", 0.1)
    monkeypatch.setattr(sqlite, "POLL", 0.02)
    monkeypatch.setattr(sqlite, "AGENT_POLL", 0.02)
    monkeypatch.setattr(sqlite, "RETRY", 0.05)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of the database."""
    return tmp_path / "northbound.db"


@pytest.fixture
async def opened() -> AsyncIterator[Callable[..., object]]:
    """Return a function that opens a driver; all are closed at the end."""
    drivers = []

    async def opened(path: Path, *, agent: bool = True, **options: object) -> SqliteDriver:
        driver = SqliteDriver(path, agent=agent, durable=False, **options)
        drivers.append(driver)
        await driver.open()
        return driver

    yield opened
    for driver in drivers:
        await driver.close()

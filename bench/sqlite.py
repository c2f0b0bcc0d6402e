"""Measures the SQLite database of the northbound store: creating rows in batches of 100, and notifying a handler.

Plain sqlite3 writes the same rows, and the same rows of the history, in the same batches to a file beside. The rates
are those of the median batch, so a slow flush does not count. Prints one line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from harness import median, private_directory

from holdfast.agent.northbound.api import NbApi
from holdfast.agent.northbound.drivers.base import DbTransaction, Expect, Put
from holdfast.agent.northbound.drivers.sqlite import SqliteDriver
from holdfast.agent.northbound.drivers.sqlite_tables import LOG, PUT, SCHEMA
from holdfast.agent.northbound.model import Model
from holdfast.agent.northbound.store.indexed import IndexedStore

BATCHES, EACH, CHANGES = 100, 100, 300
DATA = b"x" * 200


class Watched(Model, table="bench-watched"):
    """A record that changes."""

    text: str


class Plain:
    """A file that is written without the driver."""

    def __init__(self, path: Path) -> None:
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.execute("pragma journal_mode = wal")
        self.db.execute("pragma synchronous = full")
        self.db.executescript(SCHEMA)

    def create(self, ids: Sequence[str], batch: int) -> None:
        """Write a batch."""
        self.db.execute("begin immediate")
        self.db.executemany(PUT, [("rows", key, DATA, batch, batch, 0) for key in ids])
        self.db.executemany(LOG, [(batch, number, "rows", key, DATA, batch, 0) for number, key in enumerate(ids)])
        self.db.execute("commit")


async def create(driver: SqliteDriver, ids: Sequence[str]) -> None:
    """Create rows at the same time, each in a transaction of its own."""
    await asyncio.gather(
        *(driver.commit(DbTransaction([Put("rows", key, DATA)], [Expect("rows", key, 0)])) for key in ids)
    )


async def rates(driver: SqliteDriver, plain: Plain) -> dict[str, float]:
    """Return rows per second, measured in turns."""
    ours, theirs = [], []
    for batch in range(BATCHES):
        ids = [f"{batch * EACH + number:08}" for number in range(EACH)]
        began = time.perf_counter()
        await create(driver, ids)
        between = time.perf_counter()
        plain.create(ids, batch)
        ours.append(between - began)
        theirs.append(time.perf_counter() - between)
    return {
        "create_per_s": round(EACH / median(ours)),
        "plain_per_s": round(EACH / median(theirs)),
        "create_to_plain": round(median(ours) / median(theirs), 2),
    }


async def notice(driver: SqliteDriver) -> float:
    """Return the median seconds from the end of a commit of SQLite until a handler is called."""
    committed, called = 0.0, asyncio.Queue[float]()
    write = driver._file.write  # noqa: SLF001 - the end of a commit is in the thread

    def timed(calls: Any) -> Any:
        nonlocal committed
        result = write(calls)
        committed = time.perf_counter()
        return result

    async def handler(_: Any) -> None:
        called.put_nowait(time.perf_counter())

    driver._file.write = timed  # type: ignore[method-assign] # noqa: SLF001
    times = []
    async with NbApi(driver, IndexedStore()) as api:
        await api.create(Watched(id="watched", text=""))
        api.handle(Watched, handler, "bench")
        for number in range(CHANGES):
            writing = asyncio.create_task(api.update(Watched(id="watched", text=f"{number}")))
            at = await called.get()
            times.append(at - committed)
            await writing
    return median(times)


async def measure(base: Path) -> dict[str, float]:
    """Return all figures."""
    driver, plain = SqliteDriver(base / "northbound.db", agent=True), Plain(base / "plain.db")
    await driver.open()
    with closing(plain.db):
        figures = await rates(driver, plain)
    figures["watch_us"] = round(1e6 * await notice(driver), 1)
    await driver.close()
    return figures


def main() -> None:
    """Measure and print."""
    with private_directory(on_disk=True) as base:
        print(json.dumps(asyncio.run(measure(base))))


if __name__ == "__main__":
    main()

"""Measures the etcd database of the northbound store, on one member on loopback that flushes each write.

`mutate` by 16 writers at once on 16 keys is compared with the same read-modify-writes as bare transactions of etcd,
made by the same client. Each writer visits all keys, starting at a key of its own, so conflicts are rare. Both are
measured in turns, and the median round counts. Prints one line of JSON; without etcd, no figures.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

from harness import median

import etcd_server
from holdfast.agent.northbound.api import NbApi
from holdfast.agent.northbound.drivers.etcd import TXN, EtcdDriver
from holdfast.agent.northbound.drivers.etcd_connection import Access, Connection
from holdfast.agent.northbound.drivers.etcd_messages import EQUAL, MODIFIED, message
from holdfast.agent.northbound.model import Model
from holdfast.agent.northbound.store.indexed import IndexedStore

WRITERS, EACH, ROUNDS, CHANGES = 16, 25, 9, 200


class Counted(Model, table="bench-counted"):
    """A counter with some text beside it."""

    indexes = {"owner": "owner"}  # noqa: RUF012
    owner: str
    text: str
    count: int = 0


class Bare:
    """Counters that transactions of etcd increment, without the store."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._known: dict[int, tuple[int, int]] = dict.fromkeys(range(WRITERS), (0, 0))
        """Count and revision of each key, as last seen."""

    async def add(self, number: int) -> None:
        """Increment a counter; after a conflict, repeat with the value of etcd."""
        key = b"/bench/bare/%d" % number
        while True:
            count, revision = self._known[number]
            data = json.dumps({"id": str(number), "owner": "bench", "text": "x" * 100, "count": count + 1}).encode()
            compare = message["Compare"](result=EQUAL, target=MODIFIED, key=key, mod_revision=revision)
            put = message["RequestOp"](request_put=message["PutRequest"](key=key, value=data))
            read = message["RequestOp"](request_range=message["RangeRequest"](key=key))
            request = message["TxnRequest"](compare=[compare], success=[put], failure=[read])
            answer = await self._connection.ask(TXN, request, repeatable=False)
            if answer.succeeded:
                self._known[number] = max(self._known[number], (count + 1, answer.header.revision))
                return
            found = answer.responses[0].response_range.kvs[0]
            self._known[number] = (json.loads(found.value)["count"], found.mod_revision)


def plus_one(record: Counted) -> Counted:
    """Return the record with the count increased by one."""
    return record.replace(count=record.count + 1)


async def seconds(add: Any) -> float:
    """Return the seconds of a round of all writers."""

    async def writer(first: int) -> None:
        for turn in range(EACH):
            await add((first + turn) % WRITERS)

    began = time.perf_counter()
    await asyncio.gather(*map(writer, range(WRITERS)))
    return time.perf_counter() - began


async def rates(api: NbApi, connection: Connection) -> dict[str, float]:
    """Return the figures of writes."""
    for number in range(WRITERS):
        await api.create(Counted(id=str(number), owner="bench", text="x" * 100))
    bare, ours, theirs = Bare(connection), [], []
    await seconds(bare.add)
    for _ in range(ROUNDS):
        ours.append(await seconds(lambda number: api.mutate(Counted, str(number), plus_one)))
        theirs.append(await seconds(bare.add))
    counts = {each.count for each in await api.get_all(Counted)}
    if counts != {ROUNDS * EACH}:
        raise SystemExit(f"the counters are wrong: {counts}")
    return {
        "mutate_per_s": round(WRITERS * EACH / median(ours)),
        "bare_per_s": round(WRITERS * EACH / median(theirs)),
        "mutate_to_bare": round(median(ours) / median(theirs), 2),
    }


async def notice(api: NbApi, driver: EtcdDriver) -> float:
    """Return the median seconds from the answer to a commit until a handler of another process is called."""
    called: asyncio.Queue[float] = asyncio.Queue()

    async def handler(_: Any) -> None:
        called.put_nowait(time.perf_counter())

    api.handle(Counted, handler, "bench")
    times = []
    async with NbApi(driver, IndexedStore()) as other:
        for _ in range(CHANGES):
            done = asyncio.create_task(other.mutate(Counted, "0", plus_one))
            begun = time.perf_counter()
            times.append(await called.get() - begun)
            await done
    return median(times)


async def measure(endpoints: list[str]) -> dict[str, float]:
    """Return all figures."""
    access = Access(endpoints)
    driver = EtcdDriver(access)
    async with NbApi(driver, IndexedStore()) as api:
        figures = await rates(api, driver._connection)  # noqa: SLF001 - the same client
        figures["watch_ms"] = round(1e3 * await notice(api, EtcdDriver(access)), 2)
    return figures


def main() -> None:
    """Measure and print."""
    if not etcd_server.installed():
        print("{}")
        return
    with etcd_server.Cluster(durable=True) as cluster:
        print(json.dumps(asyncio.run(measure(cluster.endpoints))))


if __name__ == "__main__":
    main()

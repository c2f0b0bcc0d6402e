"""Measures strings that resources share (`ctx.world`): on one host, and between two hosts by etcd.

Prints one line of JSON with medians: `read_us`, microseconds to read a string of 1 000; `local_ms` and `etcd_ms`,
milliseconds from the start of `set_string` to the watch of the other resource. Commits of the host are not flushed,
because a flush would measure the disk. Without etcd, the last figure is missing.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

from harness import median, private_directory

import etcd_server
from holdfast.agent.host.host import LocalHost
from holdfast.agent.records.world import StoredWorld
from holdfast.agent.shared.etcd_settings import EtcdSettings

STRINGS, CHANGES = 1_000, 200


async def noticed(writer: StoredWorld, reader: StoredWorld) -> float:
    """Return the median seconds from the start of a change to the watch of the reader."""
    watch, times = reader.watch_string("measured"), []
    await anext(watch)
    for number in range(CHANGES):
        begun = time.perf_counter()
        writing = asyncio.create_task(writer.set_string("measured", str(number)))
        while await reader.string("measured") != str(number):
            await anext(watch)
        times.append(time.perf_counter() - begun)
        await writing
    return median(times)


async def reading(world: StoredWorld) -> float:
    """Return the seconds for reading one of many strings."""
    for number in range(STRINGS):
        await world.set_string(f"key{number}", "x" * 100)
    begun = time.process_time()
    for number in range(STRINGS):
        await world.string(f"key{number}")
    return (time.process_time() - begun) / STRINGS


async def measure(base: Path, endpoints: list[str]) -> dict[str, float]:
    """Return all figures."""
    async with AsyncExitStack() as stack:
        hosts = []
        for name in ("one", "two"):
            (base / name).mkdir(mode=0o700)
            host = LocalHost(states=base, var_dir=base / name, facts={"id": name}, durable=False)
            hosts.append(await stack.enter_async_context(host))
        one, two = hosts
        figures = {
            "read_us": round(1e6 * await reading(one.world), 2),
            "local_ms": round(1e3 * await noticed(one.world, one.world), 3),
        }
        if endpoints:
            settings = EtcdSettings(endpoints=tuple(f"http://{each}" for each in endpoints))
            for host, name in ((one, "one"), (two, "two")):
                await host.world_database.use(settings, name)
            figures["etcd_ms"] = round(1e3 * await noticed(one.world, two.world), 3)
    return figures


def main() -> None:
    """Measure and print."""
    with ExitStack() as stack:
        base, endpoints = stack.enter_context(private_directory()), []
        if etcd_server.installed():
            endpoints = stack.enter_context(etcd_server.Cluster(durable=True)).endpoints
        print(json.dumps(asyncio.run(measure(base, endpoints))))


if __name__ == "__main__":
    main()

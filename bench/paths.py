"""Measures how soon the path watcher reports a write, to a callback and to an async iterator, against a bare loop.

Another process writes one of the files every two milliseconds, and takes the time before close(2); this process takes
the time when it is notified. Both use CLOCK_MONOTONIC. Prints one line of JSON; latencies are in microseconds.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import random
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from holdfast.agent.host.path_watcher import PathWatcher

COUNT = 500
SIZES = {"1000 files in 1 directory": (1000, 1), "10000 files in 1000 directories": (10_000, 1000)}
DAMAGE = """
import os, sys, time
for path in sys.stdin:
    descriptor = os.open(path.rstrip(), os.O_WRONLY)
    os.write(descriptor, b"damage")
    stamp = time.perf_counter_ns()
    os.close(descriptor)
    print(stamp, flush=True)
"""
Arm = Callable[[list[str], Callable[[], None]], Callable[[], None]]


def bare(paths: list[str], event: Callable[[], None]) -> Callable[[], None]:
    """Watch with one descriptor and one watch for each directory, and do nothing else."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    for folder in {path.rpartition("/")[0] for path in paths}:
        libc.inotify_add_watch(descriptor, folder.encode(), 0x8)

    def readable() -> None:
        data, at = os.read(descriptor, 65536), 0
        while at < len(data):
            at += 16 + struct.unpack_from("iIII", data, at)[3]
            event()

    asyncio.get_running_loop().add_reader(descriptor, readable)

    def close() -> None:
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)

    return close


def callbacks(paths: list[str], event: Callable[[], None]) -> Callable[[], None]:
    """Watch with the path watcher and a callback for each file."""
    watcher = PathWatcher()
    for path in paths:
        watcher.subscribe([path], event)
    return watcher.close


def iterators(paths: list[str], event: Callable[[], None]) -> Callable[[], None]:
    """Watch with the path watcher and a task for each file, as the engine does."""
    watcher = PathWatcher()

    async def follow(path: str) -> None:
        watch = watcher.watch(path)
        await anext(watch)
        async for _ in watch:
            event()

    tasks = [asyncio.create_task(follow(path)) for path in paths]

    def close() -> None:
        for task in tasks:
            task.cancel()
        watcher.close()

    return close


async def measure(arm: Arm, paths: list[str]) -> dict[str, float]:
    """Return the latencies of one watcher, and the time that arming it takes."""
    notified = asyncio.Event()
    stamp = 0

    def event() -> None:
        nonlocal stamp
        stamp = stamp or time.perf_counter_ns()
        notified.set()

    began = time.perf_counter()
    close = arm(paths, event)
    await asyncio.sleep(0)
    armed = time.perf_counter() - began
    pipe = asyncio.subprocess.PIPE
    other = await asyncio.create_subprocess_exec(sys.executable, "-c", DAMAGE, stdin=pipe, stdout=pipe)
    assert other.stdin is not None
    assert other.stdout is not None
    latencies = []
    for path in random.choices(paths, k=COUNT):
        await asyncio.sleep(0.002)
        notified.clear()
        stamp = 0
        other.stdin.write(f"{path}\n".encode())
        damaged = int(await other.stdout.readline())
        await asyncio.wait_for(notified.wait(), 5)
        latencies.append((stamp - damaged) / 1000)
    other.stdin.close()
    await other.wait()
    close()
    p99 = statistics.quantiles(latencies, n=100)[98]
    return {"p50": round(statistics.median(latencies), 1), "p99": round(p99, 1), "arm_ms": round(armed * 1000, 1)}


def main() -> None:
    """Measure all watchers at all sizes."""
    watchers: dict[str, Arm] = {"bare": bare, "callback": callbacks, "iterator": iterators}
    result = {}
    for size, (files, directories) in SIZES.items():
        with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as top:
            paths = []
            for number in range(files):
                folder = Path(top, f"d{number % directories}")
                folder.mkdir(exist_ok=True)
                (folder / f"f{number}").write_text("right!")
                paths.append(str(folder / f"f{number}"))
            result[size] = {name: asyncio.run(measure(arm, paths)) for name, arm in watchers.items()}
    print(json.dumps({"unit": "us", "drifts": COUNT, "results": result}))


if __name__ == "__main__":
    main()

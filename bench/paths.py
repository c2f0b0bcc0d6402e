"""Measures the costs of path watches, by a bare loop with inotify and by the path watcher.

`iterator` has an async iterator for each file; `inotify` and `fanotify` have this backend, a callback for each file,
and a namer. Each is measured in a process of its own.

Another process writes one of the files every two milliseconds, and takes the time before close(2); this process takes
the time when it is notified. Both use CLOCK_MONOTONIC. Prints one line of JSON: latencies (`p50`, `p99`) and processor
time per write (`cpu`) in microseconds, the time of arming all files, and the memory that they take in this process.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import json
import os
import random
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from harness import process_figures

from holdfast.agent.host.backends import Choice
from holdfast.agent.host.namer import Namer
from holdfast.agent.host.path_watcher import PathWatcher

COUNT = 500
SIZES = {"1000 files in 500 directories": (1000, 500), "50000 files in 500 directories": (50_000, 500)}
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


def named(backend: Choice, paths: list[str], event: Callable[[], None]) -> Callable[[], None]:
    """Watch with one backend, a callback for each file, and a namer."""
    watcher = PathWatcher(None, Namer(), backend=backend)
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

    gc.collect()
    before, began = process_figures()["pss_mib"], time.perf_counter()
    close = arm(paths, event)
    await asyncio.sleep(0)
    armed, memory = time.perf_counter() - began, process_figures()["pss_mib"] - before
    pipe = asyncio.subprocess.PIPE
    other = await asyncio.create_subprocess_exec(sys.executable, "-c", DAMAGE, stdin=pipe, stdout=pipe)
    assert other.stdin is not None
    assert other.stdout is not None
    latencies, spent = [], time.process_time()
    for path in random.choices(paths, k=COUNT):
        await asyncio.sleep(0.002)
        notified.clear()
        stamp = 0
        other.stdin.write(f"{path}\n".encode())
        damaged = int(await other.stdout.readline())
        await asyncio.wait_for(notified.wait(), 5)
        latencies.append((stamp - damaged) / 1000)
    spent = time.process_time() - spent
    other.stdin.close()
    await other.wait()
    close()
    found = {"p50": statistics.median(latencies), "p99": statistics.quantiles(latencies, n=100)[98]}
    found |= {"cpu": spent / COUNT * 1e6, "arm_ms": armed * 1000, "memory_mib": memory}
    return {key: round(value, 1) for key, value in found.items()}


def alone(arm: Arm, paths: list[str]) -> dict[str, float]:
    """Measure one watcher in a new process, whose memory no other watcher has used."""
    with ProcessPoolExecutor(1, get_context("fork")) as pool:
        return pool.submit(_measured, arm, paths).result()


def _measured(arm: Arm, paths: list[str]) -> dict[str, float]:
    return asyncio.run(measure(arm, paths))


def main() -> None:
    """Measure all watchers at all sizes."""
    backends: dict[str, Arm] = {"inotify": partial(named, "inotify"), "fanotify": partial(named, "fanotify")}
    watchers: dict[str, Arm] = {"bare": bare, "iterator": iterators, **backends}
    result = {}
    for size, (files, directories) in SIZES.items():
        with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as top:
            paths = []
            for number in range(files):
                folder = Path(top, f"d{number % directories}")
                folder.mkdir(exist_ok=True)
                (folder / f"f{number}").write_text("right!")
                paths.append(str(folder / f"f{number}"))
            result[size] = {name: alone(arm, paths) for name, arm in watchers.items()}
    print(json.dumps({"unit": "us", "drifts": COUNT, "results": result}))


if __name__ == "__main__":
    main()

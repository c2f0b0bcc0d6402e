"""The cost of code as a ratio within one run, because seconds differ between machines and from minute to minute."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

TRIES = 5
"""Greatest number of measurements before code counts as too slow: other processes may use the same cores."""


def unit() -> None:
    """Typical Python: dictionaries, lists, strings, calls. Takes 25 ms of CPU time on the author's machine."""
    found: dict[str, list[int]] = {}
    for number in range(100_000):
        found.setdefault(str(number % 1000), []).append(number)
    sorted(found.items(), key=lambda item: (len(item[1]), item[0][::-1]))
    sum(len(f"{name}: {numbers!r}") for name, numbers in found.items())


def effort(work: Callable[[], object], limit: float, than: Callable[[], object] = unit) -> float:
    """Return the CPU time of `work` divided by that of `than`: the first below `limit`, or the least of all tries."""
    found = float("inf")
    for _ in range(TRIES):
        found = min(found, _seconds(work) / _seconds(than))
        if found < limit:
            break
    return found


async def longest_pause(work: Callable[[], Awaitable[object]], limit: float) -> float:
    """Return the seconds for which the event loop is blocked while `work` runs: first try below `limit`, or the best.

    The time for which this process waits for a CPU does not count.
    """
    found = float("inf")
    for _ in range(TRIES):
        found = min(found, await _pause(work))
        if found < limit:
            break
    return found


async def _pause(work: Callable[[], Awaitable[object]]) -> float:
    longest, last = 0.0, time.monotonic() - _starved()

    async def tick() -> None:
        nonlocal longest, last
        while True:
            await asyncio.sleep(0.01)
            now = time.monotonic() - _starved()
            longest, last = max(longest, now - last), now

    ticking = asyncio.create_task(tick())
    try:
        await work()
        await asyncio.sleep(0.02)  # the next tick sees a pause that has just ended
    finally:
        ticking.cancel()
    return longest


def _starved() -> float:
    """Return the seconds for which the living threads of this process have waited for a CPU."""
    return sum(int(path.read_text().split()[1]) for path in Path("/proc/self/task").glob("*/schedstat")) / 1e9


def _seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began

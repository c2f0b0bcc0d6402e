"""What something costs, as a ratio within one run: seconds are another thing on each machine, and on a busy one from minute to minute."""

from __future__ import annotations

import time
from collections.abc import Callable

TRIES = 5
"""Times that something is measured before it counts as too slow: others may be at work on the same cores."""


def unit() -> None:
    """A piece of everyday Python: dictionaries, lists, strings, calls. 25 ms of CPU time on the machine it was written on."""
    found: dict[str, list[int]] = {}
    for number in range(100_000):
        found.setdefault(str(number % 1000), []).append(number)
    sorted(found.items(), key=lambda item: (len(item[1]), item[0][::-1]))
    sum(len(f"{name}: {numbers!r}") for name, numbers in found.items())


def effort(work: Callable[[], object], limit: float, than: Callable[[], object] = unit) -> float:
    """CPU time of `work` divided by that of `than`: of the first try that stays below `limit`, or else the least of all tries."""
    found = float("inf")
    for _ in range(TRIES):
        found = min(found, _seconds(work) / _seconds(than))
        if found < limit:
            break
    return found


def _seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began

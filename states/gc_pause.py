"""Limits the pauses of Python's garbage collector, and the memory that the process keeps without need.

A full collection visits every object and stops the process meanwhile: for a second with fifty thousand files.
Long-lived objects are therefore hidden from the collector ("frozen"): objects that were built while it was disabled,
and objects that survived a full collection. So each object is visited a bounded number of times. Frozen objects may
later become garbage in a cycle; a rare collection of all objects frees them.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

BULK = 10_000
"""Number of new objects that the collector may visit: more would take milliseconds."""
SHORT_LIVED = 200_000
"""Number of new objects before a collection in a process that ends soon: some megabytes.

A run with one file makes 90 000, nearly all by imports. A collection of 50 000 would take 13 of its 200 ms.
"""
THRESHOLDS = (700, 5, 1)
"""Arguments of `gc.set_threshold`: no collection visits more than eleven thousand new objects (a few milliseconds)."""
REPLACED = 0.25
"""Fraction of the resources that must be replaced before all objects are collected.

Python's own rule for its oldest generation.
"""
LEAST = 1000
"""Least number of replaced resources before all objects are collected. The libraries alone take tens of ms."""
ROUNDS = 10_000
"""Full collections before all objects are collected: survivors may become garbage without any replacement."""

ARENA_MAX = -8
"""M_ARENA_MAX of mallopt(3)."""


@contextmanager
def gc_paused() -> Iterator[None]:
    """Disable garbage collection while many objects are built, because it would visit them repeatedly and free none."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if gc.get_count()[0] > BULK:
                freeze()
            gc.enable()


def freeze() -> None:
    """Hide all existing objects from the collector.

    The collection that follows visits nothing. It resets the size by which CPython judges whether a full collection is
    worth it: the next one runs when a quarter of that size is new.
    """
    gc.freeze()
    gc.collect()


@contextmanager
def gc_deferred() -> Iterator[None]:
    """Collect less often, for a process that ends soon: most of its objects stay in use, or are in no cycle."""
    thresholds = gc.get_threshold()
    gc.set_threshold(SHORT_LIVED, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


def trim() -> None:
    """Return free memory of the C library to the system, as far as the library can (glibc).

    Python returns its small objects by itself. Larger ones, such as the tables of a first pass, leave gaps: 10 MB of
    300 with 50 000 files. This takes a third of a millisecond for each MB that is returned, and nearly nothing again.
    """
    import ctypes  # noqa: PLC0415 - one-shot runs do not need it

    if release := getattr(ctypes.CDLL(None), "malloc_trim", None):
        release(0)


def share_arena() -> None:
    """Let all threads take memory from one arena of the C library (glibc): each arena keeps free memory of its own.

    Call this before a thread starts. Threads rarely compete for the arena, because Python has its own for most objects.
    """
    import ctypes  # noqa: PLC0415 - one-shot runs do not need it

    if tune := getattr(ctypes.CDLL(None), "mallopt", None):
        tune(ARENA_MAX, 1)


class GcPolicy:
    """Settings of the garbage collector for a process that runs for years; in force while `installed`."""

    def __init__(self) -> None:
        self._replaced = 0
        self._rounds = 0

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Freeze all objects that survive a full collection, while the context is active."""
        thresholds = gc.get_threshold()
        freeze()
        gc.set_threshold(*THRESHOLDS)
        gc.callbacks.append(self._collected)
        try:
            yield
        finally:
            gc.callbacks.remove(self._collected)
            gc.set_threshold(*thresholds)
            gc.unfreeze()

    def built(self, number: int) -> None:
        """Freeze all objects after many resources (`number`) were checked, because their data is long-lived.

        Free memory is returned to the system.
        """
        if number > LEAST:
            self._rounds += 1
            freeze()
            trim()

    def replaced(self, number: int, of: int) -> None:
        """Count replaced or removed resources, whose garbage may be frozen; collect all objects if there were many."""
        self._replaced += number
        if self._replaced > max(LEAST, REPLACED * of) or self._rounds > ROUNDS:
            self._replaced = self._rounds = 0
            gc.unfreeze()
            gc.collect()

    def _collected(self, phase: str, info: Mapping[str, int]) -> None:
        if phase == "stop" and info["generation"] == 2:
            self._rounds += 1
            gc.freeze()

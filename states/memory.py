"""What concerns Python's garbage collector.

A full collection walks everything there is and holds up the whole process meanwhile: a second for fifty thousand files. What lives long is
therefore taken out of its sight ("frozen"): what was built while the collector was at rest, and what has survived a full collection.
Each object is walked a bounded number of times. What is frozen and becomes garbage in a cycle later is found by a rare collection of all.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

BULK = 10_000
"""New objects beyond which the collector is not to walk them: that would take milliseconds."""
PATIENT = 50_000
"""New objects before a collection in a process that ends soon; some megabytes."""
THRESHOLDS = (700, 5, 1)
"""As `gc.set_threshold` has them: no collection walks more than eleven thousand new objects, which takes a few milliseconds."""
REPLACED = 0.25
"""Part of all resources that must have been replaced before everything is collected: the collector's own rule for what lives long."""
LEAST = 1000
"""Resources that must have been replaced in any case: the libraries alone take the collector tens of milliseconds."""
ROUNDS = 10_000
"""Full collections before everything is collected: what survives one may be garbage later, also when nothing was replaced."""


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """No garbage collection while a tree is built: it would walk all of the new data again and again, and find nothing."""
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
    """Take all there is out of the collector's sight."""
    gc.freeze()
    gc.collect()  # of nothing: it puts off full collections until what is new is a quarter of what it remembers to have walked last


@contextmanager
def collector_patient() -> Iterator[None]:
    """Fewer garbage collections, for work that ends soon: nearly all that it makes is either needed until then or no cycle."""
    thresholds = gc.get_threshold()
    gc.set_threshold(PATIENT, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


class Collector:
    """The garbage collector of a process that runs for years; for as long as it is `installed`."""

    def __init__(self) -> None:
        self._replaced = 0
        self._rounds = 0

    @contextmanager
    def installed(self) -> Iterator[None]:
        """What survives a full collection is frozen from now on."""
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
        """So many resources have just been looked at: of many, what that has left in memory lives long, and is not walked first."""
        if number > LEAST:
            self._rounds += 1
            freeze()

    def replaced(self, number: int, of: int) -> None:
        """So many resources of so many have been replaced or removed: garbage that may be frozen."""
        self._replaced += number
        if self._replaced > max(LEAST, REPLACED * of) or self._rounds > ROUNDS:
            self._replaced = self._rounds = 0
            gc.unfreeze()
            gc.collect()

    def _collected(self, phase: str, info: Mapping[str, int]) -> None:
        if phase == "stop" and info["generation"] == 2:
            self._rounds += 1
            gc.freeze()

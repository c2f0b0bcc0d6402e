"""Workers: how many runs there may be at once. A run that takes long no longer counts, for it may hang, and others are to be repaired meanwhile."""

from __future__ import annotations

import math

from holdfast.agent.engine.model.batch import Batch
from holdfast.agent.engine.model.graph import Vertex

LONG = 10.0
"""Seconds after which a run no longer takes up a worker."""
MOST_LONG = 64
"""Runs of which this holds at once: each may be a process."""


class Workers:
    """Those of one engine. A batch takes up one of them."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.at_work: dict[Vertex | Batch, float] = {}
        """What takes up a worker -> loop time of its start, in that order."""
        self._long: set[Vertex | Batch] = set()
        """What has run for so long that it takes up none."""

    @property
    def busy(self) -> bool:
        """All of them are."""
        return len(self.at_work) >= self.limit

    @property
    def until(self) -> float:
        """Loop time at which one of them is released, though its run has not ended."""
        return next(iter(self.at_work.values()), math.inf) + LONG if len(self._long) < MOST_LONG else math.inf

    def take(self, unit: Vertex | Batch, now: float) -> None:
        """A run, or a batch of them, begins."""
        self.at_work[unit] = now

    def give(self, unit: Vertex | Batch) -> None:
        """It has ended."""
        self.at_work.pop(unit, None)
        self._long.discard(unit)

    def release(self, now: float) -> None:
        """What has run for long takes up no worker any more."""
        while self.until <= now:
            unit = next(iter(self.at_work))
            del self.at_work[unit]
            self._long.add(unit)

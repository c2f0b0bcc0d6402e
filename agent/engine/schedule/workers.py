"""Workers: how many runs there may be at once. A long run does not count: it must not delay all repairs.

A run is long after ten seconds, or as soon as it makes a call that is expected to take long.
"""

from __future__ import annotations

import math

from holdfast.agent.engine.model.batch import Batch
from holdfast.agent.engine.model.vertex import Vertex
from holdfast.agent.engine.policy import Policy

LONG = 10.0
"""Seconds after which a run no longer occupies a worker."""
MOST_LONG = 64
"""Most long runs that occupy no worker: each may have a process."""


class Workers:
    """The workers of one engine. A batch occupies one of them."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.at_work: dict[Vertex | Batch, float] = {}
        """Run or batch that occupies a worker -> loop time of its start, in order of the start."""
        self._long: set[Vertex | Batch] = set()
        """Runs and batches that have run for so long that they no longer occupy a worker."""

    @property
    def limit(self) -> int:
        """How many runs there may be at once."""
        return self._policy.options.workers

    @property
    def busy(self) -> bool:
        """Whether all workers are occupied."""
        return len(self.at_work) >= self._policy.options.workers

    @property
    def until(self) -> float:
        """Loop time at which the next worker is released although its run has not ended."""
        return next(iter(self.at_work.values()), math.inf) + LONG if len(self._long) < MOST_LONG else math.inf

    def take(self, unit: Vertex | Batch, now: float) -> None:
        """Occupy a worker with a run or a batch."""
        self.at_work[unit] = now

    def give(self, unit: Vertex | Batch) -> None:
        """Note that a run or a batch has ended."""
        self.at_work.pop(unit, None)
        self._long.discard(unit)

    @property
    def runs(self) -> int:
        """How many runs and batches are in progress, long ones included."""
        return len(self.at_work) + len(self._long)

    def release(self, unit: Vertex | Batch) -> None:
        """Release the worker of a run that will take long."""
        if unit in self.at_work and len(self._long) < MOST_LONG:
            del self.at_work[unit]
            self._long.add(unit)

    def release_overdue(self, now: float) -> None:
        """Release the workers of runs that take too long."""
        while self.until <= now:
            self.release(next(iter(self.at_work)))

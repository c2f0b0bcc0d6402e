"""Passes: from the first dirty resource until nothing is dirty or running, and what happened in between."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable

from holdfast.agent.engine.model.events import Cause, Event, Outcome, PassEnded, PassRecord, PassStarted, Ran, Tally

KEPT = 1000
"""Outcomes that the record of a pass has in an engine that watches: it tells each as it comes, and to forget many takes long."""


class Passes:
    """The current pass, if there is one, and the record of the last. `most` is how many outcomes that has; None: all."""

    def __init__(self, emit: Callable[[Event], None], most: int | None) -> None:
        self._emit = emit
        self._most = most
        self._current: PassStarted | None = None
        self._started = 0.0
        """Unix time at which it began."""
        self.began = 0.0
        """Loop time at which the present, or last, pass began."""
        self._outcomes: OrderedDict[tuple[str, bool, bool | None, bool], Outcome] = OrderedDict()
        """The last of each sort of each resource: a pass in which something waits for long has no end, and must not grow."""
        self._tally = Tally()
        self.last = PassRecord(0, "start", time.time(), converged=True)
        self.over = asyncio.Event()
        """Set while there is no pass."""
        self.over.set()
        self.calm = True
        """Nothing has happened in the present, or last, pass: it only looked, for a poll or a recheck, and found what was known."""
        self.asked = False
        """An operator wants to know how the present pass ends."""
        self.ended = 0.0
        """Loop time at which the last one ended in which something had happened."""

    @property
    def running(self) -> bool:
        """There is a pass now."""
        return self._current is not None

    def begin(self, cause: Cause) -> None:
        """A pass begins, unless there is one."""
        if self._current is None:
            self._current = PassStarted(self.last.number + 1, cause)
            self._started, self.began = time.time(), asyncio.get_running_loop().time()
            self.calm, self.asked = True, False
            self.over.clear()
            self._emit(self._current)

    def add(self, outcome: Outcome, kept: Outcome) -> None:
        """Something came of a resource; and what is kept of that."""
        self.calm = self.calm and outcome.result is not False and not (outcome.changed and outcome.result)
        sort = (outcome.identity, outcome.listener, outcome.result, outcome.changed)
        self._outcomes.pop(sort, None)
        self._outcomes[sort] = kept
        if self._most is not None and len(self._outcomes) > self._most:
            self._outcomes.popitem(last=False)
        self._tally.add(kept)
        self._emit(Ran(self._current.number if self._current else self.last.number, outcome))

    def end(self, failing: int, differing: int = 0, *, broken_off: bool = False) -> None:
        """The pass is over; so many resources are failing, and so many differ under noop."""
        current, self._current = self._current, None
        if current is None:
            return
        now = asyncio.get_running_loop().time()
        self._tally.close()
        self.ended = self.ended if self.calm else now
        self.last = PassRecord(
            current.number,
            current.cause,
            self._started,
            duration=now - self.began,
            outcomes=tuple(self._outcomes.values()),
            converged=not (failing or differing or broken_off),
            failing=failing,
            differing=differing,
            asked=self.asked,
            broken_off=broken_off,
            counted=self._tally,
        )
        self._outcomes, self._tally = OrderedDict(), Tally()
        self.over.set()
        self._emit(PassEnded(self.last))

"""Passes: each lasts from the first dirty resource until nothing is dirty or running, and records its outcomes."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable

from holdfast.agent.engine.model.events import Event, PassEnded, PassRecord, PassStarted, Ran
from holdfast.agent.engine.model.outcome import ROUTINE, Cause, Outcome
from holdfast.agent.engine.model.tally import Tally

KEPT = 1000
"""Most outcomes in the record of a pass in the daemon.

The daemon emits each outcome at once, so the record need not contain all. Freeing very many would take long.
"""


class Passes:
    """The current pass, if there is one, and the record of the last one.

    A record has at most `most` outcomes; None: all.
    """

    def __init__(self, emit: Callable[[Event], None], most: int | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._emit = emit
        self._most = most
        self._current: PassStarted | None = None
        self._started = 0.0
        """Unix time at which the current pass began."""
        self.began = 0.0
        """Loop time at which the current or last pass began."""
        self._outcomes: OrderedDict[tuple[object, ...], Outcome] = OrderedDict()
        """(identity, listener, result, changed, deletes_later) -> the last such outcome.

        A pass in which a resource waits for long does not end, so its memory must be bounded.
        """
        self._tally = Tally()
        self.last = PassRecord(0, "start", time.time(), converged=True)
        self.over = asyncio.Event()
        """Set while no pass is running."""
        self.over.set()
        self.calm = True
        """Whether the current or last pass consists of routine checks (polls, rechecks) that found nothing new."""
        self.asked = False
        """Whether an operator requested a part of the current pass, so that the end of the pass is reported."""
        self.ended = 0.0
        """Loop time at which the last pass ended that was not calm."""

    @property
    def running(self) -> bool:
        """Whether a pass is running."""
        return self._current is not None

    def begin(self, cause: Cause) -> None:
        """Begin a pass, unless one is running."""
        if self._current is None:
            self._current = PassStarted(self.last.number + 1, cause)
            self._started, self.began = time.time(), self._loop.time()
            self.calm, self.asked = True, False
            self.over.clear()
            self._emit(self._current)

    def mark(self, cause: Cause) -> None:
        """Note that a vertex is marked; begin a pass, unless one is running."""
        self.begin(cause)
        self.calm = self.calm and cause in ROUTINE
        self.asked = self.asked or cause == "command"

    def found_something(self) -> None:
        """Note that the pass has found something new."""
        self.calm = False

    def add(self, outcome: Outcome, kept: Outcome) -> None:
        """Emit the outcome of a resource, and add `kept`, the part of it that is stored, to the record."""
        self.calm = self.calm and outcome.result is not False and not outcome.repaired
        sort = (outcome.identity, outcome.listener, outcome.result, outcome.changed, outcome.deletes_later)
        self._outcomes.pop(sort, None)
        self._outcomes[sort] = kept
        if self._most is not None and len(self._outcomes) > self._most:
            self._outcomes.popitem(last=False)
        self._tally.add(kept)
        self._emit(Ran(self._current.number if self._current else self.last.number, outcome))

    def end(self, failing: int, differing: int = 0, *, broken_off: bool = False) -> None:
        """End the pass, unless none is running.

        `failing` and `differing` count the resources that fail, and those that differ under noop. `broken_off`: the
        engine was stopped before the pass was complete.
        """
        current, self._current = self._current, None
        if current is None:
            return
        now = self._loop.time()
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

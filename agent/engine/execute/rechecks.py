"""Rechecks: all resources are checked periodically, to find changes that no watch has reported."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from holdfast.agent.engine.decide.marker import Marker
from holdfast.agent.engine.model.events import Notice
from holdfast.agent.engine.model.outcome import Cause
from holdfast.agent.engine.policy import Policy
from holdfast.agent.engine.schedule.rounds import Rounds
from holdfast.agent.engine.schedule.scheduler import Scheduler


class Rechecks:
    """The rechecks of one engine."""

    def __init__(self, policy: Policy, emit: Callable[[Notice], None], scheduler: Scheduler, marker: Marker) -> None:
        self._policy = policy
        self._emit = emit
        self._scheduler = scheduler
        self._rounds = Rounds(marker.mark, scheduler.pump)
        self.timer: asyncio.TimerHandle | None = None
        """Begins the next recheck."""

    @property
    def under_way(self) -> bool:
        """Whether a recheck has vertices left to mark."""
        return self._rounds.under_way

    def begin(self, cause: Cause) -> None:
        """Check each resource again."""
        self._emit(Notice("debug", "recheck", "", "all resources are checked again"))
        self._rounds.begin(self._scheduler.vertices, cause)
        self.schedule()

    def schedule(self) -> None:
        """Set the timer for the next recheck."""
        if self.timer:
            self.timer.cancel()
            self.timer = None
        options = self._policy.options
        if self._policy.daemon and options.recheck > 0 and not self._policy.stopped:
            delay = options.recheck + random.uniform(0, options.recheck_splay)  # noqa: S311 - spreads load
            self.timer = asyncio.get_running_loop().call_later(delay, self.begin, "recheck")

    def stop(self) -> None:
        """End the current recheck, and schedule no other."""
        self._rounds.stop()
        if self.timer:
            self.timer.cancel()

"""Pauses by operators: of everything, or of the resources that a pattern names. Each has a reason and may have an end.

Nothing starts while everything is paused. A resource that a pattern names is checked but not changed, as in noop, so
that its drift is known. The journal keeps pauses across restarts; only `Pauses` writes them.

A running agent measures a pause with the boot-time clock, which cannot be set. While no agent runs, Unix time counts;
a restarted agent continues a pause for at most the requested duration.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from holdfast.agent.clocks import boottime
from holdfast.agent.engine.deliver.journal import Journal
from holdfast.agent.engine.model.events import Notice
from holdfast.agent.engine.model.pause import EVERYTHING, Paused
from holdfast.agent.engine.policy import Policy

MOST = 100
"""Most pauses at one time: each is compared with each resource that is to run."""
TICK = 60.0
"""Most seconds between two checks of the end of a pause: the loop's clock stops while the system sleeps."""
JUMP = 5.0
"""Seconds by which the recorded end of a pause may be wrong, after the system clock was set, before it is rewritten."""


class Pauses:
    """The pauses of one engine. It calls `begun` and `ended` for each."""

    def __init__(
        self,
        policy: Policy,
        journal: Journal,
        emit: Callable[[Notice], None],
        begun: Callable[[Paused], None],
        ended: Callable[[Paused], None],
    ) -> None:
        self.elapsed: Callable[[], float] = boottime
        self.wall: Callable[[], float] = time.time
        self._policy, self._journal = policy, journal
        self._emit, self._begun, self._ended = emit, begun, ended
        self._deadlines: dict[str, float] = {}
        """Pattern -> end of its pause on the boot-time clock."""
        self._timer: asyncio.TimerHandle | None = None

    def __iter__(self) -> Iterator[Paused]:
        """Return all pauses, in the order in which they began."""
        return iter(self._policy.pauses.values())

    @property
    def any(self) -> bool:
        """Whether anything is paused."""
        return bool(self._policy.pauses)

    def restore(self) -> None:
        """Continue the pauses in the journal. Emits a notice for each that has ended meanwhile."""
        for row in [*self._journal.pauses.values()]:
            paused = Paused(*row)
            left = None if paused.until is None else min(paused.until - self.wall(), paused.seconds or 0.0)
            if left is not None and left <= 0:
                self._journal.resume(paused.pattern)
                self._emit(Notice("info", "resumed", "", f"{paused.past}; the pause ended while no agent was running"))
            else:
                self._begin(paused if left is None else paused._replace(until=self.wall() + left), left, self.elapsed())

    async def begin(self, patterns: Sequence[str], reason: str, seconds: float | None) -> None:
        """Pause what these patterns name; without a pattern, everything. The journal is on the disk when this returns.

        Raises `Unwritable` if the journal cannot be written. The pause applies nevertheless, and is written later.
        """
        now, elapsed = self.wall(), self.elapsed()
        for pattern in patterns or (EVERYTHING,):
            self._begin(
                Paused(pattern, reason, now, None if seconds is None else now + seconds, seconds), seconds, elapsed
            )
        await self._journal.secure()

    async def end(self, patterns: Iterable[str]) -> None:
        """End the pauses of these patterns. The journal is on the disk when this returns. Raises `Unwritable`."""
        self._end(patterns)
        await self._journal.secure()

    def close(self) -> None:
        """Stop the timer: pauses no longer end by themselves."""
        if self._timer:
            self._timer.cancel()

    def _begin(self, paused: Paused, left: float | None, now: float) -> None:
        self._policy.pauses[paused.pattern] = paused
        self._deadlines.pop(paused.pattern, None)
        if left is not None:
            self._deadlines[paused.pattern] = now + left
        self._journal.pause(paused)
        self._begun(paused)
        self._wait()

    def _end(self, patterns: Iterable[str]) -> None:
        """Remove all of these pauses before the first `ended` call.

        So a resource that several of them named is checked only once, and then repaired.
        """
        over = [self._policy.pauses.pop(pattern) for pattern in patterns if pattern in self._policy.pauses]
        for paused in over:
            self._deadlines.pop(paused.pattern, None)
            self._journal.resume(paused.pattern)
        for paused in over:
            self._ended(paused)

    def _wait(self) -> None:
        """Set the timer to the end of the next pause, or to `TICK` if that is earlier."""
        self.close()
        if self._deadlines:
            left = min(self._deadlines.values()) - self.elapsed()
            self._timer = asyncio.get_running_loop().call_later(min(max(0.0, left), TICK), self._tick)

    def _tick(self) -> None:
        now = self.elapsed()
        self._end([pattern for pattern, deadline in self._deadlines.items() if deadline <= now])
        for pattern, deadline in self._deadlines.items():
            paused, end = self._policy.pauses[pattern], self.wall() + deadline - now
            if paused.until is None or abs(end - paused.until) > JUMP:
                self._policy.pauses[pattern] = paused._replace(until=end)
                self._journal.pause(self._policy.pauses[pattern])
                text = f"the system clock was set; {self._policy.pauses[pattern].whole}"
                self._emit(Notice("warning", "paused", "", text))
        self._wait()

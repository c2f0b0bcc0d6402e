"""What operators have paused: everything, or what patterns name. A pause has a reason and an end, and is kept over restarts.

Nothing starts while everything is paused. What a pattern names is looked at and not changed, as in noop: its drift is known.
`Pauses` is the one writer of the pauses that the journal keeps. A pause lasts for the time that was asked for by a clock that
nobody sets; Unix time counts only between two lives of the agent, and then for no longer than was asked for.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from holdfast.agent.clocks import boottime
from holdfast.agent.engine.deliver.journal import Journal
from holdfast.agent.engine.model.events import Notice
from holdfast.agent.engine.model.graph import Vertex

EVERYTHING = ""
"""The pattern of a pause of the whole agent."""
MOST = 100
"""Pauses at once: each is compared with each resource that is to run."""
TICK = 60.0
"""Seconds between two looks at the clocks while a pause has an end: the loop's own clock stands still while the system sleeps."""
JUMP = 5.0
"""Seconds by which Unix time may differ from the clock that nobody sets before the end of a pause is written down anew."""


class Paused(NamedTuple):
    """One pause."""

    pattern: str
    """Of `kind[id]` or of an SLS."""
    reason: str
    since: float
    """Unix time."""
    until: float | None
    """Unix time at which it ends; None: an operator ends it."""
    seconds: float | None
    """How long it was to last."""

    @property
    def said(self) -> str:
        """Until when, and why: `paused until 2026-11-22 21:04:00 (kernel upgrade)`."""
        end = (
            "`holdfast resume`"
            if self.until is None
            else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.until))
        )
        return f"paused until {end}{f' ({self.reason})' if self.reason else ''}"

    @property
    def whole(self) -> str:
        """The same for those who do not know what is paused."""
        return f"{self.pattern or 'everything'} is {self.said}"

    @property
    def past(self) -> str:
        """The same of a pause that is over."""
        return f"{self.pattern or 'everything'} was {self.said}"


def covers(pattern: str, vertex: Vertex) -> bool:
    """Whether a pattern (`*`, `?`) names it, or the SLS in which it stands. Brackets stand for themselves: they are part of each identity."""
    return any(fnmatchcase(name, pattern.replace("[", "[[]")) for name in (vertex.identity, vertex.call.low["__sls__"]))


class Pauses:
    """Those of one engine. `begun` and `ended` are called for each."""

    def __init__(
        self,
        journal: Journal,
        emit: Callable[[Notice], None],
        begun: Callable[[Paused], None],
        ended: Callable[[Paused], None],
    ) -> None:
        self.elapsed: Callable[[], float] = boottime
        self.wall: Callable[[], float] = time.time
        self._journal = journal
        self._emit, self._begun, self._ended = emit, begun, ended
        self._kept: dict[str, Paused] = {}
        self._deadlines: dict[str, float] = {}
        """Pattern -> when its pause ends, by the clock that nobody sets."""
        self._timer: asyncio.TimerHandle | None = None

    def __iter__(self) -> Iterator[Paused]:
        """All, in the order in which they began."""
        return iter(self._kept.values())

    @property
    def any(self) -> bool:
        """Something is paused."""
        return bool(self._kept)

    def of(self, vertex: Vertex) -> Paused | None:
        """The pause that holds for it, first that of everything."""
        return (self._kept.get(EVERYTHING) or self.named(vertex)) if self._kept else None

    def holds_for(self, vertex: Vertex) -> bool:
        """Whether one is known to hold for it."""
        return vertex.paused or EVERYTHING in self._kept

    def named(self, vertex: Vertex) -> Paused | None:
        """The pause whose pattern names it."""
        return (
            next((each for each in self._kept.values() if each.pattern and covers(each.pattern, vertex)), None)
            if self._kept
            else None
        )

    def restore(self) -> None:
        """Go on with those that an agent before this one has written down. One that is over by now is told."""
        for row in [*self._journal.pauses.values()]:
            paused = Paused(*row)
            left = None if paused.until is None else min(paused.until - self.wall(), paused.seconds or 0.0)
            if left is not None and left <= 0:
                self._journal.resume(paused.pattern)
                self._emit(Notice("info", "resumed", "", f"{paused.past}; that ended while no agent ran"))
            else:
                self._begin(paused if left is None else paused._replace(until=self.wall() + left), left, self.elapsed())

    async def begin(self, patterns: Sequence[str], reason: str, seconds: float | None) -> None:
        """Pause what these name, everything without one; it is on the disk when this returns.

        Raises `Unwritable` when that cannot be: it is paused all the same, and is written down as soon as it can be.
        """
        now, elapsed = self.wall(), self.elapsed()
        for pattern in patterns or (EVERYTHING,):
            self._begin(
                Paused(pattern, reason, now, None if seconds is None else now + seconds, seconds), seconds, elapsed
            )
        await self._journal.secure()

    async def end(self, patterns: Iterable[str]) -> None:
        """End the pauses of these patterns; that is on the disk when this returns. Raises `Unwritable`."""
        self._end(patterns)
        await self._journal.secure()

    def close(self) -> None:
        """Wait for no end any more."""
        if self._timer:
            self._timer.cancel()

    def _begin(self, paused: Paused, left: float | None, now: float) -> None:
        self._kept[paused.pattern] = paused
        self._deadlines.pop(paused.pattern, None)
        if left is not None:
            self._deadlines[paused.pattern] = now + left
        self._journal.pause(paused)
        self._begun(paused)
        self._wait()

    def _end(self, patterns: Iterable[str]) -> None:
        """All of them are over before the first is told: what several have paused is looked at once, to be repaired."""
        over = [self._kept.pop(pattern) for pattern in patterns if pattern in self._kept]
        for paused in over:
            self._deadlines.pop(paused.pattern, None)
            self._journal.resume(paused.pattern)
        for paused in over:
            self._ended(paused)

    def _wait(self) -> None:
        """Have the clocks looked at when the next pause ends, and now and then until it does."""
        self.close()
        if self._deadlines:
            left = min(self._deadlines.values()) - self.elapsed()
            self._timer = asyncio.get_running_loop().call_later(min(max(0.0, left), TICK), self._tick)

    def _tick(self) -> None:
        now = self.elapsed()
        self._end([pattern for pattern, deadline in self._deadlines.items() if deadline <= now])
        for pattern, deadline in self._deadlines.items():
            paused, end = self._kept[pattern], self.wall() + deadline - now
            if paused.until is None or abs(end - paused.until) > JUMP:
                self._kept[pattern] = paused._replace(until=end)
                self._journal.pause(self._kept[pattern])
                text = f"the clock of the system was set; {self._kept[pattern].whole}"
                self._emit(Notice("warning", "paused", "", text))
        self._wait()

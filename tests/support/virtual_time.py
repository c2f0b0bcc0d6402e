"""An event loop whose clock does not wait.

A test whose fixtures include `virtual_time` runs in a `VirtualLoop` (see tests/conftest.py). `asyncio.sleep(3600)`
takes no time there: whenever no callback is ready, the clock jumps to the next timer. The order of all callbacks is
the same in each run. `time.time()` advances with the clock of the loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from heapq import heappop
from unittest.mock import patch

HANGS = 1e6
"""Seconds of virtual time after which a scenario counts as hanging."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next timer instead of waiting, and that runs one callback at a time.

    `unix_time` is what `time.time()` returns when the loop starts.
    """

    def __init__(self, unix_time: float = 1e9) -> None:
        super().__init__()
        self._now = 0.0
        self._unix_time = unix_time
        self.steps = 0
        """Number of callbacks that have run."""
        self.after_step: Callable[[], None] | None = None
        """Called after each callback."""

    def time(self) -> float:
        """Return the seconds since the loop was made."""
        return self._now

    @property
    def ready(self) -> bool:
        """Whether a callback is about to run at the present time."""
        return bool(self._ready)

    def run_forever(self) -> None:
        """Run until `stop`; meanwhile `time.time()` follows the clock of the loop."""
        with patch.object(time, "time", lambda: self._unix_time + self._now):
            super().run_forever()

    def _run_once(self) -> None:
        self._drop_cancelled()
        if not self._ready:
            if not self._scheduled:
                super()._run_once()  # wait for a file descriptor or another thread
                return
            self._now = max(self._now, self._scheduled[0]._when)
        while self._scheduled and self._scheduled[0]._when <= self._now:
            timer = heappop(self._scheduled)
            timer._scheduled = False
            self._ready.append(timer)
            self._drop_cancelled()
        step = self._ready.popleft()
        if not step._cancelled:
            step._run()
            self.steps += 1
            if self.after_step:
                self.after_step()

    def _drop_cancelled(self) -> None:
        while self._scheduled and self._scheduled[0]._cancelled:
            heappop(self._scheduled)._scheduled = False
            self._timer_cancelled_count -= 1


def simulate(scenario: Callable[[], Awaitable[None]]) -> None:
    """Run a scenario in a virtual loop of its own, for tests that run many: examples of a property, random plans.

    Raises `TimeoutError` if the scenario hangs.
    """

    async def bounded() -> None:
        async with asyncio.timeout(HANGS):
            await scenario()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(bounded())

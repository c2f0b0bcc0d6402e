"""Starts one plugin when it is needed, and again when it has ended; stops it when nothing uses it.

    stopped ── needed ──> starting ── ready ──> running ── ended ──> waiting ── delay over ──> starting
                              └────────── failed ──────────────────────^

After a start with a temporary failure, and after an end, the plugin is started again with growing delays, while
something waits for it or the graph has resources of it. A plugin that cannot be used as it is declared is tried again
when something needs it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal

from holdfast.agent.health import Health
from holdfast.agent.loggers import LazyLogger
from holdfast.agent.plugins.messages import message
from holdfast.resources.errors import HoldfastError, Permanent, Temporary

if TYPE_CHECKING:
    from holdfast.agent.plugins.connecting import Ready

log = LazyLogger("holdfast.plugins")

DELAY, LONGEST = 0.25, 30.0
"""Seconds before the first restart, and most seconds before any; each delay is twice the one before."""
STEADY = 5.0
"""Seconds after which a plugin counts as healthy, and delays begin again."""
TIMEOUT = 3.0
"""Seconds for which a call waits for the next start. If the start is later, the call fails with `Temporary`."""
REST = 2.0
"""Least seconds between two starts of a plugin that cannot be used as it is declared."""
LINGER = 5.0
"""Seconds for which an unused plugin keeps running."""
PROBE, ANSWER = 30.0, 10.0
"""Seconds between two health checks of an idle plugin, and for their answer."""
MOMENT = 0.5
"""Seconds in which the end of a process is noticed after that of its connection."""
State = Literal["stopped", "starting", "running", "waiting", "broken"]


class Supervisor:
    """The life of one plugin. `start` returns it ready for calls, `end` ends it, at once if it hangs."""

    def __init__(
        self,
        name: str,
        start: Callable[[], Awaitable[Ready]],
        end: Callable[[Ready, bool], Coroutine[Any, Any, None]],
        health: Health,
        mask: Callable[[str], str],
    ) -> None:
        self.name = name
        self.state: State = "stopped"
        self.since = time.time()
        self.trouble: HoldfastError | None = None
        """Why the plugin does not run, or did not recently."""
        self.restarts = 0
        """Starts after an unrequested end, or after a failed start."""
        self.ready: Ready | None = None
        self._start, self._end, self._health, self._mask = start, end, health, mask
        self._closed = False
        self._kept = False
        """Whether the graph has resources of the plugin."""
        self._uses = 0
        """Number of current calls and watches."""
        self.calls = 0
        """Number of current calls: their own timeouts show whether the plugin hangs."""
        self._failures = 0
        self._next = 0.0
        """Loop time of the next start."""
        self._task: asyncio.Task[None] | None = None
        self._ending: asyncio.Future[None] | None = None
        """The end of the last process."""
        self._changed = asyncio.Event()
        self._suspect = asyncio.Event()
        """Set when a call has failed in transport."""
        self._lingering: asyncio.TimerHandle | None = None

    @property
    def condition(self) -> str:
        """Code of the health condition."""
        return f"plugin-failed:{self.name}"

    # -- users ------------------------------------------------------------------------------------------

    @contextmanager
    def use(self) -> Iterator[None]:
        """Keep the plugin during the block."""
        self._uses += 1
        try:
            yield
        finally:
            self._uses -= 1
            self._look_at_use()

    def keep(self, kept: bool) -> None:
        """Note whether the graph has resources of the plugin."""
        self._kept = kept
        self._look_at_use()

    def _look_at_use(self) -> None:
        if self._lingering is not None:
            self._lingering.cancel()
            self._lingering = None
        if self._kept or self._uses:
            return
        if self.state in ("stopped", "broken"):
            self._health.clear(self.condition)  # the trouble concerns nothing any more
        else:
            self._lingering = asyncio.get_running_loop().call_later(LINGER, self._leave)

    def _leave(self) -> None:
        if not self._kept and not self._uses and self._task is not None and not self._task.cancelling():
            self._task.cancel()

    # -- for calls ---------------------------------------------------------------------------------------------

    async def connection(self) -> Ready:
        """Return the plugin, which is started if necessary.

        Raises `Permanent` if it cannot be used as it is declared, and `Temporary` if it will not run for some time.
        """
        loop = asyncio.get_running_loop()
        while self._closed or self.ready is None or self.ready.ended.done() or self._suspect.is_set():
            if self._closed:
                raise Temporary(f"plugin {self.name}: it was ended, because its settings have changed")
            if self._task is None or self._task.done():
                if isinstance(self.trouble, Permanent) and loop.time() < self._next:
                    raise Permanent(str(self.trouble))
                self._task = asyncio.create_task(self._run(), name=f"plugin {self.name}")
            elif self.state == "waiting" and self._next - loop.time() > TIMEOUT:
                message = f"{self.trouble}; it is restarted later"  # the number of seconds would soon be wrong
                raise Temporary(message, delay=self._next - loop.time())
            await self._changed.wait()
            if self.state == "broken":
                raise Permanent(str(self.trouble))
        return self.ready

    def report_failed_call(self) -> None:
        """Note that a call has failed in transport: the plugin may hang, or be out of reach. Further calls wait."""
        self._suspect.set()

    # -- starts and ends ----------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        """Start the plugin, and restart it after each end, until it cannot be used or is not needed."""
        try:
            await self._go_on()
        except Exception as error:
            log.exception("plugin %s: its supervision has failed", self.name)
            self._failed(Permanent(f"plugin {self.name}: internal error: {type(error).__name__}"), REST)
            self._become("broken")
        finally:
            if self.state != "broken":
                self._become("stopped")
            self._look_at_use()

    async def _go_on(self) -> None:
        """Do as `_run`, but raise unexpected errors."""
        loop = asyncio.get_running_loop()
        while True:
            if (delay := self._next - loop.time()) > 0:
                self._become("waiting")
                await asyncio.sleep(delay)
            self.restarts += self.trouble is not None
            self._become("starting")
            try:
                ready = await self._start()
            except Permanent as error:
                self._failed(error, REST)
                self._become("broken")
                return
            except HoldfastError as error:
                self._failed(error, self._delay())
            else:
                await self._monitor(ready)
            if not self._kept and not self._uses:
                return

    async def _monitor(self, ready: Ready) -> None:
        """Monitor a running plugin until it ends, or is ended because it hangs."""
        loop = asyncio.get_running_loop()
        self.ready, began = ready, loop.time()
        self._become("running")
        log.info("plugin %s runs (pid %d)", self.name, ready.pid, code="plugin-started", plugin=self.name)
        steady = loop.call_later(STEADY, self._well)
        try:
            why = await self._end_of(ready)
            if loop.time() - began > STEADY:
                self._failures = 0
            self._failed(Temporary(f"plugin {self.name}: {why}"), self._delay())
        finally:
            steady.cancel()
            hangs = self.ready is not None and self._suspect.is_set()
            self.ready = None
            self._suspect.clear()
            self._ending = asyncio.ensure_future(self._end(ready, hangs))
            await asyncio.shield(self._ending)

    async def _end_of(self, ready: Ready) -> str:
        """Return how the plugin has ended, or that it hangs."""
        while True:
            suspected = asyncio.ensure_future(self._suspect.wait())
            try:
                waited: list[asyncio.Future[Any]] = [ready.ended, suspected]
                await asyncio.wait(waited, timeout=PROBE, return_when=asyncio.FIRST_COMPLETED)
            finally:
                suspected.cancel()
            if ready.ended.done():
                return f"it {ready.ended.result()}"
            if (self._suspect.is_set() or not self.calls) and not await self._answers(ready):
                await asyncio.wait([ready.ended], timeout=MOMENT)  # the plugin may just be ending
                why = "does not answer, and was ended" if ready.pid else "has gone or was restarted"
                return f"it {ready.ended.result() if ready.ended.done() else why}"
            if self._suspect.is_set():
                self._suspect.clear()
                self._become("running")

    async def _answers(self, ready: Ready) -> bool:
        """Check whether the plugin works."""
        with suppress(HoldfastError):
            answer: Any = await ready.client.call("Health", message["HealthRequest"](), ANSWER)
            if not answer.serving:
                told = self._mask(answer.message)[:500]
                self._health.set(self.condition, f"plugin {self.name} says that it cannot work: {told}")
            elif self.trouble is None:
                self._health.clear(self.condition)
            return True
        return False

    def _delay(self) -> float:
        self._failures += 1
        return float(min(LONGEST, DELAY * 2 ** min(self._failures - 1, 16)))

    def _failed(self, error: HoldfastError, delay: float) -> None:
        self.trouble, self._next = error, asyncio.get_running_loop().time() + delay
        self._health.set(self.condition, f"{error}; its resources are neither checked nor repaired meanwhile")

    def _well(self) -> None:
        self.trouble, self._failures = None, 0
        self._health.clear(self.condition)

    def _become(self, state: State) -> None:
        if state != self.state:
            self.state, self.since = state, time.time()
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def stop(self) -> None:
        """End the plugin permanently."""
        self._closed = True
        if self._lingering is not None:
            self._lingering.cancel()
        if (task := self._task) is not None:
            if not task.cancelling():
                task.cancel()
            await asyncio.wait([task])
        if self._ending is not None:
            await asyncio.wait([self._ending])
        self._become("stopped")  # the task may have ended before it began
        self._health.clear(self.condition)

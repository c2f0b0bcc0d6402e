"""The engine: maintains the resources of a graph, for one run or for years.

This module is its public face. `swap` installs a graph, watches report drift, the scheduler selects the next vertex,
`decisions` decides whether it has to run, `runner` runs it, `outcomes` records the outcome, and `deliveries` notifies
its subscribers. `parts` connects them.
The engine opens no log and no files of its own: the constructor receives all it needs, and `emit` receives all events.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from holdfast.agent.engine.deliver.journal import Journal
from holdfast.agent.engine.deliver.obstacles import Ask, nothing
from holdfast.agent.engine.inspect.status import View, gone, rows
from holdfast.agent.engine.model.events import Event, PassRecord
from holdfast.agent.engine.model.options import EngineOptions
from holdfast.agent.engine.model.outcome import Cause
from holdfast.agent.engine.model.vertex import Vertex
from holdfast.agent.engine.model.waits import Pause
from holdfast.agent.engine.parts import EngineHost, Parts
from holdfast.agent.engine.policy import Policy
from holdfast.agent.engine.schedule.pauses import Pauses
from holdfast.agent.engine.schedule.reservations import concerns
from holdfast.agent.engine.swap import SwapRequest, Swaps
from holdfast.resources.contract import Uid
from holdfast.states.data import Compilation


class Engine:
    """The engine of one host. Call all methods from its event loop."""

    def __init__(
        self,
        host: EngineHost,
        options: EngineOptions,
        journal: Journal,
        emit: Callable[[Event], None],
        *,
        watch: bool = True,
        obstacle: Ask = nothing,
    ) -> None:
        self.policy = Policy(options, daemon=watch)
        self._parts = parts = Parts(host, self.policy, journal, emit, obstacle)
        self._swaps = Swaps(parts)
        self._scheduler, self._passes, self._outcomes = parts.scheduler, parts.passes, parts.outcomes

    async def swap(
        self,
        compilation: Compilation,
        cause: Cause = "states changed",
        options: EngineOptions | None = None,
        outdated: Collection[str] = (),
        *,
        whole: bool = True,
        anew: Collection[str] = frozenset(),
        only: Collection[str] | None = None,
    ) -> int:
        """Replace the graph by one of a new compilation. An unchanged resource keeps its vertex, watch and state.

        The runs of resources that leave may take `stop_timeout` to finish; then they are cancelled. Only resources that
        replace them wait for that.

        - `options` take effect with the new graph.
        - `outdated` are identities of resources to check again, because something that they have read has changed.
          Failed resources are checked again too, unless only grains have changed.
        - `whole` is False if these are not all states: then the journal keeps what it knows about the others.
        - `anew` are identities of states to replace because their sources have changed, not their declaration.
        - `only` are identities of the resources that may run; pending deliveries of the others are kept.

        Returns how many resources have left the graph or were replaced. Does nothing after `stop`.
        """
        return await self._swaps.swap(SwapRequest(compilation, cause, options, outdated, whole, anew, only))

    async def settle(self) -> PassRecord:
        """Wait until nothing is dirty or running; return the record of the last pass."""
        await self._passes.over.wait()
        return self._passes.last

    def pause(self, why: Pause = "operator") -> None:
        """Start no run until `resume`; current runs may end.

        While the system is shutting down, a run that fails counts as interrupted, not as failed.
        """
        self._parts.pausing.pause(why)

    def resume(self, why: Pause = "operator") -> None:
        """End a pause; runs start again if no other pause is left."""
        self._parts.pausing.resume(why)

    def recheck(self, cause: Cause = "command") -> None:
        """Check each resource again."""
        self._parts.rechecks.begin(cause)

    def trigger(self, identity: str) -> None:
        """Run one resource now, an action even if it is done. Raises `KeyError` for an unknown identity."""
        vertex = self._swaps.graph.by_identity[identity]
        if gone(vertex):
            raise KeyError(identity)
        self._scheduler.force(vertex)
        self._parts.events.woken(vertex, "command")

    async def reserve(self, keys: Sequence[str]) -> None:
        """Reserve these resources for another process: no run of them starts here.

        Returns when their present runs, and calls that change them, have ended.
        """
        self._scheduler.reservations.reserve(keys)
        reserved = set(keys)
        await self._runs_end(lambda vertex: vertex.key in reserved)
        for claim in self._scheduler.reservations.claims_on(each for each in self._swaps.graph if each.key in reserved):
            await claim.over.wait()

    def unreserve(self, keys: Sequence[str]) -> None:
        """Run these resources here again, and make the deliveries that the other process has left pending."""
        self._scheduler.reservations.unreserve(keys)
        back = set(keys)
        for vertex in self._swaps.graph if back else ():
            if vertex.key in back:
                if self._parts.deliveries.note_pending(vertex):
                    self._parts.marker.mark(vertex, "refresh")
                self._scheduler.offer(vertex)
        self._scheduler.pump()

    @asynccontextmanager
    async def claim(self, things: Collection[Uid]) -> AsyncIterator[None]:
        """Claim these things for a call: no resource that manages one of them runs in the block.

        The block begins when the present runs of such resources, and the other calls and one-shot runs that work on one
        of the things, have ended. `reservations.ANY` as a name stands for all things of a kind.
        """
        reservations = self._scheduler.reservations
        claim = await reservations.claim(things, self._swaps.graph.vertices)
        try:
            await self._runs_end(lambda vertex: concerns(vertex, claim.things))
            yield
        finally:
            reservations.release(claim)
            for vertex in [each for each in self._scheduler.unsettled if concerns(each, claim.things)]:
                self._scheduler.offer(vertex)
            self._scheduler.pump()

    async def _runs_end(self, meant: Callable[[Vertex], bool]) -> None:
        """Wait until the present runs of these vertices have ended."""
        runs = [
            vertex.run.task
            for vertex in (*self._scheduler.unsettled, *self._swaps.retirement)
            if vertex.run.task and meant(vertex)
        ]
        if runs:
            await asyncio.wait(runs)

    async def stop(self, timeout: float | None = None) -> None:
        """Stop the engine. Runs may end within `timeout` seconds (default: `stop_timeout`), then they are cancelled."""
        self.policy.stopped = True
        self._scheduler.pause("stopped")
        self._parts.events.stop()
        self._parts.pausing.stop()
        self._parts.rechecks.stop()
        await self._swaps.stop(self.options.stop_timeout if timeout is None else timeout)
        self._passes.end(len(self._outcomes.failing), len(self._outcomes.differing), broken_off=True)

    def cancel_leaving(self) -> None:
        """Cancel runs of leaving vertices instead of waiting for them, in the current `stop` or a later one."""
        self._swaps.retirement.cancel_all()

    @property
    def options(self) -> EngineOptions:
        """The options in use."""
        return self.policy.options

    @property
    def pauses(self) -> Pauses:
        """The pauses that operators have begun; used by an engine that watches."""
        return self._parts.pausing.pauses

    @property
    def paused(self) -> bool:
        """Whether an operator has paused the engine."""
        return "operator" in self._scheduler.paused

    @property
    def alone(self) -> bool:
        """Whether at most one run is in progress: then it delays no other run if it waits for the disk."""
        return self._scheduler.workers.runs <= 1

    @property
    def going_down(self) -> bool:
        """Whether the system is shutting down, so that nothing is repaired."""
        return "going-down" in self._scheduler.paused

    @property
    def converged(self) -> bool:
        """Whether all resources are watched and as declared, and nothing has happened for `converged_timeout`.

        So no resource is dirty, running, failed, held off, unwatched, or different under noop.
        Routine polls and rechecks do not count as activity unless they find drift.
        """
        quiet, passes = asyncio.get_running_loop().time() - self._passes.ended, self._passes
        wrong = (
            self._outcomes.failing
            or self._outcomes.differing
            or self._parts.watches.unwatched
            or any(vertex.queue.noticed_at is not None for vertex in self._parts.events.held)
        )
        return not wrong and not (passes.running and not passes.calm) and quiet >= self.options.converged_timeout

    @property
    def stuck(self) -> bool:
        """Whether the host will not converge by itself before the next recheck.

        Some resource has failed or differs, nothing runs, and nothing waits for a retry or for the end of a pause.
        """
        timed = [each for each in self.pauses if each.until is not None]
        if self.paused or self.going_down:
            return all(each.pattern for each in timed) and not self._scheduler.workers.runs
        wrong = {*self._outcomes.failing, *self._outcomes.differing}
        if timed and all(vertex.paused for vertex in wrong):
            return False
        return bool(wrong) and not self._waits_for(wrong)

    def _waits_for(self, vertices: Iterable[Vertex]) -> bool:
        """Return whether a pass is running, or a watch, a delayed check or a timer of these vertices is to come."""
        waits = self._passes.running or self._parts.watches.unwatched or self._parts.events.held
        return bool(waits) or any(vertex.timer is not None for vertex in vertices)

    @property
    def view(self) -> View:
        """The parts of the engine, for status and explanations. Callers must not change them."""
        parts, outcomes = self._parts, self._outcomes
        return View(
            self._swaps.graph,
            self._scheduler,
            parts.deliveries,
            self._passes,
            outcomes.failing,
            outcomes.differing,
            parts.watches.unwatched,
            parts.census,
            self.policy,
            parts.rechecks.timer,
        )

    def status(self) -> list[dict[str, Any]]:
        """Return one object for each resource, ready for JSON, in order of execution."""
        return list(rows(lambda: self.view))

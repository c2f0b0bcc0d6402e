"""The engine: keeps a graph of resources right, for one run or for years.

It ties the parts together: a graph is swapped in, watches tell of drift, the scheduler says who may run, `attempt` runs it,
the requisite table decides whether it has to, the journal remembers who is to be told. It has no log, no files and no
settings of its own: everything comes in through the constructor, and goes out through `emit`.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Protocol

from holdfast.agent.engine import attempt, limits
from holdfast.agent.engine.attempt import Failure, Job
from holdfast.agent.engine.graph import Graph, Vertex, connect
from holdfast.agent.engine.journal import Edge, Journal
from holdfast.agent.engine.judge import Judge, digest, incoming
from holdfast.agent.engine.options import EngineOptions
from holdfast.agent.engine.report import Cause, Event, Notice, Outcome, PassEnded, PassRecord, PassStarted, Ran
from holdfast.agent.engine.scheduler import Scheduler
from holdfast.agent.engine.status import describe
from holdfast.agent.engine.watch import needs_watch, supervise
from holdfast.resources.context import Context
from holdfast.states.data import Call, Compilation


class Host(Protocol):
    """The part of `agent/host` that the engine needs."""

    def context(self, identity: str) -> Context:
        """What the resource of this identity sees of the world."""
        ...


class Engine:
    """One host's engine. All methods are called from its event loop."""

    def __init__(self, host: Host, options: EngineOptions, journal: Journal, emit: Callable[[Event], None], *, watch: bool = True) -> None:
        self.options = options
        self._host = host
        self._journal = journal
        self._emit = emit
        self._daemon = watch
        """Watches and timers keep the graph right after the first pass; without them: one-shot."""
        self._graph = Graph()
        self._scheduler = Scheduler(options.workers, self._start, self._quiet)
        self._pass: PassRecord | None = None
        self._outcomes: list[Outcome] = []
        self._last = PassRecord(0, "start", time.time(), converged=True)
        self._settled = asyncio.Event()
        self._settled.set()
        self._resumed = asyncio.Event()
        self._resumed.set()
        self._judge = Judge(journal, emit, self._wait_resumed, daemon=watch)
        self._swapping = asyncio.Lock()
        self._failing: set[Vertex] = set()
        """Vertices whose last run failed."""
        self._listeners: list[Vertex] = []
        self._listened: set[Vertex] = set()
        """Listeners that had their turn in this pass."""
        self._listening: asyncio.Task[None] | None = None
        self._recheck: asyncio.TimerHandle | None = None
        self._quiet_since = 0.0
        self._stopped = False

    # -- what operators and the daemon do ----------------------------------------------------------------------

    async def swap(self, compilation: Compilation, cause: Cause = "states changed") -> None:
        """Replace the graph by that of a new compilation; whatever is the same in both keeps its watch and its past.

        Resources that leave may finish what runs, for `stop_timeout`; then it is cancelled. Nothing else waits for that.
        """
        async with self._swapping:
            vertices = [self._keep(call) or Vertex(call, self._host.context(call.identity)) for call in compilation.calls]
            kept = {vertex for vertex in vertices if self._graph.by_identity.get(vertex.identity) is vertex}
            await self._remove([old for old in reversed(self._graph.vertices) if old not in kept])
            declared = {call.identity for call in compilation.calls}
            for old in self._graph:
                if old.identity not in declared:
                    self._emit(Notice("info", "left", old.identity, "is declared no more; left as it is"))
            shapes = {vertex: vertex.shape() for vertex in kept}
            for vertex, call in zip(vertices, compilation.calls, strict=True):
                vertex.call = call
            self._graph = connect(vertices)
            self._failing &= kept
            self._listeners = [vertex for vertex in vertices if "listen" in vertex.requisites]
            self._journal.adopt(self._graph.edges(), self._graph.by_identity)
            self._scheduler.rebuild(vertices)
            for vertex in vertices:
                if vertex not in kept:
                    vertex.first = self.options.ordering == "definition"
                    self._arm(vertex)
                if vertex not in kept or vertex.failed or vertex.shape() != shapes[vertex]:
                    self._mark(vertex, cause)
            self._schedule_recheck()
            self._scheduler.pump()

    async def settle(self) -> PassRecord:
        """Wait until nothing is dirty or running; the record of the last pass."""
        await self._settled.wait()
        return self._last

    def pause(self) -> None:
        """Start nothing any more; what runs may end."""
        self._scheduler.paused = True
        self._resumed.clear()
        self._emit(Notice("info", "paused", "", "paused: drift is noticed, nothing is repaired"))

    def resume(self) -> None:
        """Go on after a pause."""
        self._scheduler.paused = False
        self._resumed.set()
        self._emit(Notice("info", "resumed", "", "resumed"))
        self._scheduler.pump()

    def recheck(self, cause: Cause = "command") -> None:
        """Look at every resource again."""
        for vertex in self._graph:
            self._mark(vertex, cause)
        self._schedule_recheck()
        self._scheduler.pump()

    def trigger(self, identity: str) -> None:
        """Run one resource now; an action runs even if it is done already. Raises `KeyError` for an unknown identity."""
        vertex = self._graph.by_identity[identity]
        vertex.due = True
        vertex.not_before = 0.0
        self._mark(vertex, "command")
        self._scheduler.pump()

    def set_options(self, options: EngineOptions) -> None:
        """Take over changed settings; everything is looked at again when noop was turned on or off."""
        changed = options.noop != self.options.noop
        self.options = options
        self._scheduler.workers = options.workers
        self._schedule_recheck()
        if changed:
            self.recheck("states changed")

    async def stop(self, timeout: float | None = None) -> None:
        """Stop: nothing new starts, what runs may end within `timeout` (default: stop_timeout), the rest is cancelled."""
        self._stopped = self._scheduler.paused = True
        if self._recheck:
            self._recheck.cancel()
        self._resumed.set()
        await self._remove(list(reversed(self._graph.vertices)), timeout)
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait([self._listening])

    @property
    def paused(self) -> bool:
        """An operator has paused it."""
        return self._scheduler.paused

    @property
    def converged(self) -> bool:
        """Nothing dirty, running or failed, for `converged_timeout`."""
        quiet = asyncio.get_running_loop().time() - self._quiet_since
        return self._settled.is_set() and self._last.converged and quiet >= self.options.converged_timeout

    def status(self) -> list[dict[str, Any]]:
        """One JSON-ready object for each resource, in order of execution."""
        return [describe(vertex, self._journal, self.options, self._recheck) for vertex in self._graph]

    async def _wait_resumed(self) -> None:
        await self._resumed.wait()

    # -- swapping ----------------------------------------------------------------------------------------------

    def _keep(self, call: Call) -> Vertex | None:
        old = self._graph.by_identity.get(call.identity)
        same = old is not None and old.resource.cmp(call.resource) is None and old.call.meta == call.meta
        return old if same else None

    async def _remove(self, vertices: Iterable[Vertex], timeout: float | None = None) -> None:
        """End the watches of these vertices, and their runs: by waiting for `timeout`, then by cancelling."""
        leaving = list(vertices)
        for vertex in leaving:
            vertex.removed = True
            if vertex.timer:
                vertex.timer.cancel()
            if vertex.watcher:
                vertex.watcher.cancel()
        tasks = [vertex.task for vertex in leaving if vertex.task]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=self.options.stop_timeout if timeout is None else timeout)
            await _cancel(late)
        await _cancel([vertex.watcher for vertex in leaving if vertex.watcher])

    def _arm(self, vertex: Vertex) -> None:
        if not self._daemon or not needs_watch(vertex):
            vertex.armed = True
            return
        work = supervise(vertex, self._armed, self._event, self._watch_failed)
        vertex.watcher = asyncio.create_task(work, name=f"watch {vertex.identity}")

    def _armed(self, vertex: Vertex) -> None:
        vertex.armed = True
        if vertex.settled:  # the watch of before has failed; nobody knows what it has missed
            self._mark(vertex, "recovery")
        self._scheduler.offer(vertex)
        self._scheduler.pump()

    async def _watch_failed(self, vertex: Vertex, why: str, delay: float, error: BaseException) -> None:
        """The watch is down: what runs is cancelled, and until the next one is armed the resource counts as failed."""
        vertex.armed = False
        if vertex.task:
            await _cancel([vertex.task])
        self._emit(Notice("warning", "watch-failed", vertex.identity, f"cannot watch: {why}; again in {delay:.3g} s", error))
        if vertex.dirty:
            outcome = Outcome(vertex.identity, vertex.position, result=False, comment=f"cannot watch: {why}", ran=False)
            self._record(vertex, outcome)
            self._scheduler.settle(vertex)
            self._scheduler.pump()

    # -- events ------------------------------------------------------------------------------------------------

    def _event(self, vertex: Vertex, cause: Cause) -> None:
        """Something may have changed: look, unless too many looks or repairs lie behind us."""
        if not vertex.dirty:
            now = asyncio.get_running_loop().time()
            if self.paused:
                self._emit(Notice("info", "noticed", vertex.identity, "may have drifted; nothing is repaired while paused"))
            wait = max(limits.take(vertex, self.options, now), limits.hold_off(vertex, now))
            if wait > 0:
                self._emit(Notice("info", "held-off", vertex.identity, f"may have drifted; looked at in {wait:.3g} s"))
                vertex.not_before = now + wait
                self._wake(vertex, wait, cause)
                return
        self._mark(vertex, cause)
        self._scheduler.pump()

    def _wake(self, vertex: Vertex, delay: float, cause: Cause) -> None:
        """Look at it again after `delay` seconds, unless it is to be looked at sooner."""
        when = asyncio.get_running_loop().time() + delay
        if vertex.timer and not vertex.timer.cancelled() and vertex.timer.when() <= when:
            return
        if vertex.timer:
            vertex.timer.cancel()
        vertex.timer = asyncio.get_running_loop().call_later(delay, self._woken, vertex, cause)

    def _woken(self, vertex: Vertex, cause: Cause) -> None:
        vertex.timer = None
        vertex.not_before = 0.0
        self._mark(vertex, cause)
        self._scheduler.pump()

    def _mark(self, vertex: Vertex, cause: Cause) -> None:
        """Make it dirty, and those that have it as their prereq: they go first."""
        if self._stopped or vertex.removed:
            return
        if self._pass is None:
            self._begin(cause)
        for before in vertex.prerequired:
            if not before.dirty and not before.running:
                self._mark(before, cause)
        self._scheduler.mark(vertex, cause)

    def _schedule_recheck(self) -> None:
        if self._recheck:
            self._recheck.cancel()
            self._recheck = None
        if self._daemon and self.options.recheck > 0:
            delay = self.options.recheck + random.uniform(0, self.options.recheck_splay)  # noqa: S311 - spreads load
            self._recheck = asyncio.get_running_loop().call_later(delay, self.recheck, "recheck")

    # -- runs --------------------------------------------------------------------------------------------------

    def _start(self, vertex: Vertex) -> None:
        vertex.task = asyncio.create_task(self._run(vertex), name=vertex.identity)

    async def _run(self, vertex: Vertex) -> None:
        """Decide, run, record; the scheduler is told in any case."""
        try:
            seen = [(edge, self._journal.count(edge)) for edge in incoming(vertex)]
            decision = await self._judge.decide(vertex)
            if not decision.run:
                self._finish(vertex, self._judge.not_run(vertex, decision), None, seen)
                return
            done = self._judge.done(vertex, decision)
            if done is not None:
                self._finish(vertex, done, None, seen)
                return
            job = Job(
                vertex.call, vertex.ctx, self._applies(vertex), refresh=decision.refresh, cause=vertex.cause, one_shot=not self._daemon
            )
            outcome, failure = await self._attempt(vertex, job)
            self._finish(vertex, outcome, failure, seen)
        except asyncio.CancelledError:
            vertex.again = not vertex.removed  # it has not come to an end: look again
            raise
        finally:
            vertex.task = None
            self._scheduler.finished(vertex)
            if not self._stopped:
                self._scheduler.pump()

    async def _attempt(self, vertex: Vertex, job: Job) -> tuple[Outcome, Failure | None]:
        """Run, with the intent of a change that others wait for written down before."""
        if job.apply and vertex.notify:
            self._journal.intend(vertex.identity, vertex.carriers())
        return await attempt.run(job, self._emit, self._wait_resumed)

    def _applies(self, vertex: Vertex) -> bool:
        noop = vertex.call.meta.noop
        return not (self.options.noop if noop is None else noop)

    # -- outcomes ----------------------------------------------------------------------------------------------

    def _finish(self, vertex: Vertex, outcome: Outcome, failure: Failure | None, seen: list[tuple[Edge, int]]) -> None:
        """A run has come to its end: remember, deliver, wake whoever it concerns."""
        before, real = vertex.outcome, self._applies(vertex)
        vertex.probe = None
        vertex.due = False
        vertex.would_change = outcome.ran and outcome.changed and not real
        if real and outcome.result is not False:
            self._journal.deliver(seen)
        changed = real and outcome.ran and (outcome.changed or (outcome.touched and self._daemon))
        self._tell(vertex, outcome, changed=changed, newly=not (before and before.result is False))
        self._record(vertex, outcome)
        if outcome.ran and outcome.result and real and self._judge.is_action(vertex):
            self._journal.done(vertex.identity, digest(vertex), time.time())
        if before is not None and before.result is False and outcome.result is not False:
            for below in vertex.downstream:
                if below.outcome is not None and below.outcome.reason == "requisite_failed":
                    self._mark(below, "recovery")
        self._later(vertex, outcome, failure, pending=any(self._journal.pending(edge) for edge, _ in seen))

    def _tell(self, vertex: Vertex, outcome: Outcome, *, changed: bool, newly: bool) -> None:
        """Count its change or failure, and make those dirty that are to be told."""
        if not vertex.notify:
            return
        if changed:
            self._journal.changed(vertex.identity, vertex.carriers())
        else:
            self._journal.unchanged(vertex.identity)
        if outcome.result is False and newly:
            self._journal.failed(vertex.identity, vertex.carriers(failure=True))
        for who, kind in vertex.notify:
            pending = self._journal.pending((vertex.identity, who.identity, kind)) or vertex.would_change
            told = outcome.result is False if kind == "onfail" else outcome.result is not False and kind != "listen"
            if pending and told:
                self._mark(who, "refresh")

    def _record(self, vertex: Vertex, outcome: Outcome) -> None:
        vertex.outcome = outcome
        if outcome.result is False:
            vertex.failures += 1
            self._failing.add(vertex)
        elif vertex.failures:
            vertex.failures = 0
            self._failing.discard(vertex)
        if outcome.changed and outcome.result:
            vertex.last_change = outcome
        self._outcomes.append(outcome)
        self._emit(Ran(self._pass.number if self._pass else self._last.number, outcome))
        failhard = vertex.call.meta.failhard
        if (
            outcome.result is False
            and not self._daemon
            and (self.options.failhard if failhard is None else failhard)
            and not self.options.noop
        ):
            self._give_up()

    def _later(self, vertex: Vertex, outcome: Outcome, failure: Failure | None, *, pending: bool) -> None:
        """In the daemon: when this one is to be looked at again without an event."""
        if not self._daemon or vertex.removed:
            return
        now = asyncio.get_running_loop().time()
        meta = vertex.call.meta
        if outcome.cause == "drift" and outcome.changed and outcome.result and limits.repaired(vertex, self.options, now):
            text = (
                f"flapping: repaired more than {self.options.flap_limit} times in {self.options.flap_window:g} s; somebody undoes it. "
                f"From now on repairs are spaced, up to {self.options.flap_window:g} s apart"
            )
            self._emit(Notice("error", "flapping", vertex.identity, text))
        if outcome.result is False and failure is not None:
            endless = meta.retry is not None and meta.retry.attempts < 0
            if endless or failure.temporary or pending:
                self._wake(vertex, attempt.backoff(meta.retry if endless else None, vertex.failures, failure), "retry")
        elif isinstance(meta.rerun, float) and outcome.ran:
            if vertex.timer:
                vertex.timer.cancel()
            vertex.timer = asyncio.get_running_loop().call_later(meta.rerun, self._rerun, vertex)

    def _rerun(self, vertex: Vertex) -> None:
        vertex.due = True
        self._woken(vertex, "poll")

    def _give_up(self) -> None:
        """Failhard: whatever has not run is not run any more."""
        for vertex in self._graph:
            if vertex.dirty:
                vertex.removed = True
        self._scheduler.rebuild(vertex for vertex in self._graph if not vertex.removed)

    # -- passes ------------------------------------------------------------------------------------------------

    def _begin(self, cause: Cause) -> None:
        self._pass = PassRecord(self._last.number + 1, cause, time.time())
        self._pass_began = asyncio.get_running_loop().time()
        self._outcomes = []
        self._listened = set()
        self._settled.clear()
        self._emit(PassStarted(self._pass.number, cause))

    def _quiet(self) -> None:
        """Nothing is dirty or running: listeners have their turn, then the pass is over."""
        if self._pass is None or self._listening is not None:
            return
        due = [vertex for vertex in self._listeners if vertex not in self._listened and self._heard(vertex)]
        if due and not self._stopped:
            self._listening = asyncio.create_task(self._listen(due), name="listeners")
            return
        now = asyncio.get_running_loop().time()
        converged = not self._failing and not any(outcome.result is False for outcome in self._outcomes)
        self._last = replace(self._pass, duration=now - self._pass_began, outcomes=tuple(self._outcomes), converged=converged)
        self._pass = None
        self._quiet_since = now
        self._settled.set()
        self._emit(PassEnded(self._last))

    def _heard(self, vertex: Vertex) -> list[Vertex]:
        """Those it listens to that have changed."""
        edges = ((target, (target.identity, vertex.identity, "listen")) for target in vertex.requisites.get("listen", ()))
        return [target for target, edge in edges if self._journal.pending(edge) or target.would_change]

    async def _listen(self, due: list[Vertex]) -> None:
        """Refresh each listener once, in order of execution."""
        try:
            for vertex in due:
                self._listened.add(vertex)
                await self._refresh_listener(vertex)
        finally:
            self._listening = None
            if not self._stopped:
                self._scheduler.pump()

    async def _refresh_listener(self, vertex: Vertex) -> None:
        edges = [(target.identity, vertex.identity, "listen") for target in vertex.requisites["listen"]]
        seen = [(edge, self._journal.count(edge)) for edge in edges]
        job = Job(vertex.call, vertex.ctx, self._applies(vertex), cause="refresh", only_refresh=True, one_shot=not self._daemon)
        if vertex.refreshable is None:
            comment = f"cannot refresh: {vertex.call.kind} has no refresh action; use require"
            outcome = Outcome(vertex.identity, vertex.position, result=False, comment=comment, ran=False)
        else:
            outcome, _ = await attempt.run(job, self._emit, self._wait_resumed)
        outcome = replace(outcome, listener=True)
        if job.apply and outcome.result is not False:
            self._journal.deliver(seen)
        self._outcomes.append(outcome)
        self._emit(Ran(self._pass.number if self._pass else 0, outcome))


async def _cancel(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel and wait for the end."""
    ending = list(tasks)
    for task in ending:
        task.cancel()
    if ending:
        await asyncio.wait(ending)

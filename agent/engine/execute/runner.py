"""Runs vertices: from the start of a vertex until its outcome is recorded, published and acted upon."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from holdfast.agent.engine.call import attempt
from holdfast.agent.engine.call.attempt import Job
from holdfast.agent.engine.decide import probes
from holdfast.agent.engine.decide.decisions import Decisions, digest, wanted
from holdfast.agent.engine.deliver.deliveries import Deliveries, Seen
from holdfast.agent.engine.deliver.journal import Journal
from holdfast.agent.engine.deliver.obstacles import unwritable
from holdfast.agent.engine.deliver.store import WAITS, Unwritable
from holdfast.agent.engine.deliver.transfer import Prepared, Transfers, wanted_from
from holdfast.agent.engine.execute.reversals import ONCE, Reversals
from holdfast.agent.engine.execute.rivals import Rivals
from holdfast.agent.engine.model.events import GUARDS, WATCHED, Cause, Event, Notice, Obstacle, Outcome, Started
from holdfast.agent.engine.model.failure import Failure, backoff
from holdfast.agent.engine.model.options import EngineOptions
from holdfast.agent.engine.model.vertex import NO_RUN, Run, Vertex
from holdfast.agent.engine.schedule import limits
from holdfast.agent.engine.schedule.passes import Passes
from holdfast.agent.engine.schedule.scheduler import Scheduler
from holdfast.agent.engine.schedule.timers import Timers
from holdfast.resources.context import IDLE
from holdfast.resources.contract import Resource
from holdfast.resources.dependencies import BY_NUMBER
from holdfast.resources.errors import Temporary
from holdfast.resources.traits import Edgeable, Reactive, Reversible
from holdfast.states.requisite_kinds import WAITING


class Links(NamedTuple):
    """What runs need from the engine."""

    emit: Callable[[Event], None]
    mark: Callable[[Vertex, Cause, Vertex], None]
    """Makes a vertex dirty, for this cause, after an outcome of another vertex."""
    scheduler: Callable[[], Scheduler]
    timers: Timers
    """Timers that start runs later."""
    finished: Callable[[Vertex, bool, Cause | None], None]
    """Called when the task of a run has ended: vertex, whether it waits for its next attempt, why it runs again."""
    give_up: Callable[[], None]
    """Starts no further vertex, as `failhard` requires."""
    applies: Callable[[Vertex], bool]
    """Whether a vertex may change the machine now, according to noop of the state or of the agent."""
    disabled: Callable[[Vertex], str]
    """Returns the pattern in the settings that disables a vertex; empty if none does."""
    obstacle: Callable[[Resource], Awaitable[Obstacle | None]]
    """Returns what prevents the repair of a resource now, if anything does."""
    hold_back: Callable[[Vertex, Obstacle], None]
    """Holds a vertex back until its obstacle is gone; then the vertex runs."""
    vertices: Callable[[], Iterable[Vertex]]
    """All vertices of the present graph."""
    going_down: Callable[[], bool]
    """Whether the system is shutting down: a failure is then an interruption."""


class Runs:
    """Runs vertices for one engine."""

    def __init__(
        self,
        options: EngineOptions,
        journal: Journal,
        deliveries: Deliveries,
        passes: Passes,
        links: Links,
        *,
        reversals: Reversals,
        daemon: bool,
    ) -> None:
        self.options = options
        self.failing: set[Vertex] = set()
        """Vertices whose last run failed."""
        self.differing: set[Vertex] = set()
        """Vertices that differ from their declaration, and that noop keeps from being repaired."""
        self._journal = journal
        self._deliveries = deliveries
        self._passes = passes
        self._reversals = reversals
        self._of_scheduler = links.scheduler
        self._emit, self._mark, self._timers = links.emit, links.mark, links.timers
        self._finished, self._give_up, self._applies, self._disabled = (
            links.finished,
            links.give_up,
            links.applies,
            links.disabled,
        )
        self._vertices = links.vertices
        self._going_down, self._obstacle, self._hold_back = links.going_down, links.obstacle, links.hold_back
        self._daemon = daemon
        self._transfers = Transfers(journal)
        self._rivals = Rivals()
        self._decisions = Decisions(
            journal,
            self._transfers,
            links.emit,
            self._found,
            applies=links.applies,
            disabled=links.disabled,
            daemon=daemon,
        )

    @property
    def _scheduler(self) -> Scheduler:
        return self._of_scheduler()

    def start(self, vertex: Vertex) -> None:
        """Run the vertex in a task of its own."""
        earlier, listening = vertex.run, vertex.queue.listening
        if not listening:
            self._timers.clear(vertex)
        limits.forget_failure(vertex)
        task = asyncio.create_task(self._run(vertex), name=vertex.identity)
        task.add_done_callback(partial(self._ended, vertex))
        vertex.run = Run(
            applying=self._applies(vertex),
            forced=vertex.queue.force_next and not listening,
            before=earlier.rest,
            obstacle=earlier.obstacle,
            task=task,
        )

    async def _run(self, vertex: Vertex) -> None:
        """Run the vertex. If there is an obstacle, hold the vertex back: it stays dirty and runs later."""
        before, vertex.run.obstacle = vertex.run.obstacle, None
        obstacle = await self._obstacle(vertex.resource) if vertex.run.applying else None
        if obstacle and not vertex.queue.removed:
            vertex.run.obstacle = obstacle
        else:
            await self._decide(vertex)
        if vertex.run.obstacle:
            self._leave_alone(
                vertex, vertex.run.obstacle, reported=before is not None and before.over is vertex.run.obstacle.over
            )

    async def _decide(self, vertex: Vertex) -> None:
        """Decide whether to run the vertex, run it, and conclude."""
        noticed_at = self._scheduler.answer(vertex)
        self._rivals.begin(vertex)
        self._emit(
            Started(vertex.identity, 0.0 if noticed_at is None else asyncio.get_running_loop().time() - noticed_at)
        )
        if vertex.queue.listening:
            await self._listen(vertex)
            return
        seen = self._deliveries.seen(vertex)
        if spent := self._decisions.spent(vertex):
            self.conclude(vertex, spent, seen)
            return
        decision = await self._decisions.decide(vertex)
        if vertex.queue.removed:
            raise asyncio.CancelledError  # start no attempt: the journal has already forgotten the vertex
        ahead = wanted(vertex)
        done = self._decisions.done(vertex, decision) if decision.run else self._decisions.not_run(vertex, decision)
        if done is not None:
            failure = vertex.probe.result.outcome.failure if vertex.probe.result else None
            self.conclude(vertex, done._replace(failure=failure), seen)
            return
        prepared = self._transfers.prepare(vertex, real=vertex.run.applying)
        if isinstance(prepared, Outcome):
            self.conclude(vertex, prepared, seen)
            return
        outcome = await self._attempt(vertex, self._job(vertex, prepared, refresh=decision.refresh))
        outcome = self._rivals.attribute(vertex, outcome, noticed_at)
        if self._rests(vertex, outcome):
            return
        if vertex.run.applying and outcome.result:
            vertex.run.forced = self._decisions.once(
                vertex
            )  # run the action again if the following steps are interrupted
            vertex.last.satisfied_prereqs = ahead
            self._transfers.used(vertex, prepared.values)
        self.conclude(vertex, outcome, seen)
        vertex.run.forced = False
        await self._reversals.tidy()

    def _leave_alone(self, vertex: Vertex, obstacle: Obstacle, *, reported: bool) -> None:
        if not reported:
            self._emit(Notice("info", "held-off", vertex.identity, f"left alone for now: {obstacle.text}"))
        vertex.run.rest = vertex.run.before
        self._force_again(vertex)
        self._passes.calm = False
        if vertex.queue.listening:
            self._deliveries.listened.discard(vertex)
        self._hold_back(vertex, obstacle)

    async def _listen(self, vertex: Vertex) -> None:
        """Run a listener: only its refresh, without its requisites."""
        seen = self._deliveries.seen(vertex, listen=True)
        if spent := self._decisions.spent(vertex):
            outcome = spent
        elif vertex.refreshable is None:
            comment = f"cannot refresh: {vertex.call.kind} has no refresh action; use require"
            outcome = Outcome.failed(vertex, comment, "refresh")
            self._deliveries.delivered(seen, outcome)  # otherwise it would fail again and again
        else:
            prepared = self._transfers.prepare(vertex, real=vertex.run.applying)
            if isinstance(prepared, Outcome):
                outcome = prepared
            else:
                outcome = await self._attempt(vertex, self._job(vertex, prepared, only_refresh=True))
                if self._rests(vertex, outcome):
                    return
        self.conclude(vertex, outcome._replace(listener=True), seen)

    async def _attempt(self, vertex: Vertex, job: Job) -> Outcome:
        """Run the job after any probe for a prereq has ended: one call of a resource at a time."""
        if vertex.probe.task:
            await asyncio.wait([vertex.probe.task])
        outcome = await attempt.run(job, self._emit)
        if outcome.result is False and self._going_down():
            raise asyncio.CancelledError
        return outcome

    def _rests(self, vertex: Vertex, outcome: Outcome) -> bool:
        """Return whether the vertex stays dirty: another attempt follows, or the attempt met an obstacle.

        What the attempt may have changed is delivered already now.
        """
        if vertex.run.obstacle:
            if vertex.queue.removed:
                raise asyncio.CancelledError
            self._deliveries.interrupted(vertex, begun=outcome.touched or outcome.changed)
            return True
        began = vertex.run.before.began if vertex.run.before else asyncio.get_running_loop().time() - outcome.duration
        rest = (
            attempt.rest(vertex.call.meta, outcome, began, endless=not self._daemon)
            if vertex.run.applying and not vertex.queue.removed
            else None
        )
        if rest is None:
            return False
        if self._daemon or outcome.changed:
            self._deliveries.interrupted(vertex, begun=outcome.touched or outcome.changed)
        vertex.last.failures += 1
        delay = backoff(vertex.call.meta, vertex.last.failures, outcome.failure)
        text = f"attempt {rest.attempt} of {rest.attempts}: {outcome.comment}; tried again in {delay:.3g} s"
        self._emit(Notice("warning", "attempt-failed", vertex.identity, text))
        vertex.run.rest = rest
        self._force_again(vertex)
        self._passes.calm = False
        self._count(vertex, outcome)
        self._timers.hold(vertex, delay, "retry")
        return True

    def _job(self, vertex: Vertex, prepared: Prepared, *, refresh: bool = False, only_refresh: bool = False) -> Job:
        remember = self._daemon and vertex.run.applying and self._reversals.wanted(vertex)
        return Job(
            prepared.call,
            vertex.ctx,
            vertex.run.applying,
            refresh,
            vertex.queue.cause,
            only_refresh,
            received=prepared.values,
            wanted=wanted_from(vertex),
            unsure=()
            if vertex.run.applying
            else tuple(
                up.identity for up in vertex.links.upstream if up.last.outcome and up.last.outcome.result is None
            ),
            disabled=self._disabled(vertex),
            before=vertex.run.before,
            batch=vertex.queue.batch,
            remember=partial(self._remember, vertex) if remember else None,
            announce=partial(self._announce, vertex)
            if vertex.run.applying and vertex.links.subscribers and not only_refresh
            else None,
            leaf=_is_leaf(vertex),
        )

    async def _announce(self, vertex: Vertex) -> None:
        with self._journal_writable(vertex):
            await self._deliveries.announce(vertex)

    async def _remember(self, vertex: Vertex, resource: Reversible) -> None:
        with self._journal_writable(vertex):
            await self._reversals.remember(vertex, resource)

    @contextmanager
    def _journal_writable(self, vertex: Vertex) -> Iterator[None]:
        """If the journal cannot be written, raise `Temporary`; in the daemon, the vertex gets an obstacle, too."""
        try:
            yield
        except Unwritable as error:
            if self._daemon:
                vertex.run.obstacle = unwritable(self._journal, error)
            raise Temporary(f"{WAITS}: {error}") from error

    def _force_again(self, vertex: Vertex) -> None:
        """Make the next run execute the action if this run was to execute it and has not done so."""
        if vertex.run.forced:
            self._scheduler.force(vertex)

    def _ended(self, vertex: Vertex, task: asyncio.Task[None]) -> None:
        """Clean up after the task of a run has ended; it may have been cancelled before its first step."""
        run, again = vertex.run, None
        run.task = None
        self._rivals.end(vertex)
        if task.cancelled() or task.exception():
            run.obstacle = None
        if vertex.queue.listening and task.cancelled():
            self._deliveries.listened.discard(vertex)  # the listener has not run
        if vertex.queue.batch:
            vertex.queue.batch.leave(vertex.identity)
        try:
            if task.cancelled():
                again = self._interrupted(vertex)
            elif error := task.exception():
                self._broken(vertex, error)
        finally:
            run.forced = False
            vertex.ctx.report = IDLE
            waits = (run.rest is not None or run.obstacle is not None) and not vertex.queue.removed
            if not waits:
                vertex.run = NO_RUN
            self._finished(vertex, waits, again)

    def _interrupted(self, vertex: Vertex) -> Cause:
        """After a cancelled run, deliver what it may have changed. Returns the cause for which the vertex runs again."""
        cause = vertex.queue.pending_cause or vertex.queue.cause
        self._force_again(vertex)
        report = vertex.ctx.report
        if self._daemon:
            self._emit(Notice("info", "interrupted", vertex.identity, "its run was interrupted"))
        if vertex.run.applying:
            begun = report.touched or bool(report.changes) or self._decisions.is_action(vertex)
            self._deliveries.interrupted(vertex, begun=begun)
        # "recovery" is not held back, unlike the causes of watches: the state of the resource is unknown.
        return "recovery" if cause in WATCHED else cause

    def to_act(self, vertex: Vertex) -> bool:
        """Return whether a superseded vertex has not run yet for this version of its sequence."""
        return bool(vertex.links.successors) and self._decisions.spent(vertex) is None

    def unwatched(self, vertex: Vertex, why: str) -> None:
        """Conclude a dirty vertex whose watch has failed: it counts as failed until the watch is armed again."""
        try:
            self.conclude(vertex, Outcome.failed(vertex, f"cannot watch: {why}"))
        except Exception as error:  # noqa: BLE001 - handled as in a run
            self._broken(vertex, error)
        vertex.run = NO_RUN

    def _found(self, target: Vertex, vertex: Vertex) -> None:
        """Make the target of a prereq dirty: a probe for `vertex` found that the target needs a repair."""
        self._mark(target, "drift", vertex)

    def _broken(self, vertex: Vertex, error: BaseException) -> None:
        """Conclude a run that raised outside the attempt as failed, and try again later.

        Such an error is a bug in the engine, or in a method of a kind that must not raise.
        """
        text = f"its run failed: {type(error).__name__}: {error}; a bug in Holdfast or in the kind"
        self._emit(Notice("error", "engine-trouble", vertex.identity, text, error))
        outcome = Outcome.failed(vertex, text, vertex.queue.cause, ran=True, failure=Failure(temporary=True))
        self._record(vertex, outcome)
        self._later(vertex, outcome)

    # -- outcomes ----------------------------------------------------------------------------------------------

    def conclude(self, vertex: Vertex, outcome: Outcome, seen: Seen | None = None) -> None:
        """Record and publish the outcome of a vertex, then wake the vertices that depend on it.

        `seen`: the change counts that the run acknowledges if it succeeded.
        """
        recovered, real = vertex.last.outcome is None or vertex.failed, vertex.run.applying
        if self._daemon and real and outcome.ran:
            self._rivals.changed(vertex, outcome)
        newly_failed = outcome.result is False and not vertex.failed
        probes.forget(vertex)
        would_before = vertex.last.would_change
        if not outcome.listener:
            vertex.last.would_change = outcome.ran and outcome.changed and not real
        if real and outcome.result is not False and outcome.reason != "disabled":
            self._deliveries.delivered(seen or [], outcome)
        would = vertex.last.would_change and not would_before
        notified = (
            []
            if outcome.listener
            else self._deliveries.tell(vertex, outcome, real=real, newly_failed=newly_failed, newly_would=would)
        )
        if outcome.ran and outcome.result and real and not outcome.listener and self._decisions.once(vertex):
            self._journal.done(vertex.key, digest(vertex), time.time())
        if outcome.ran and outcome.result and not outcome.listener:
            notified += self._transfers.publish(vertex)
        self._record(vertex, outcome)
        for each in notified:
            self._mark(each, "refresh", vertex)
        self._succeed(vertex, outcome)
        self._wake_below(vertex, outcome, recovered=recovered)
        self._later(vertex, outcome)

    def _succeed(self, vertex: Vertex, outcome: Outcome) -> None:
        """After a run of a superseded vertex, make the later vertices of its sequence dirty."""
        if outcome.ran:
            vertex.last.closes = False
            if vertex.links.successors and self._daemon and vertex.run.applying and outcome.result:
                kept = vertex.links.successors[-1].identity
                text = f"has run, as one of several states of one thing; only the last, {kept}, is maintained"
                self._emit(Notice("info", "superseded", vertex.identity, text))
            for successor in vertex.links.successors:
                successor.last.closes = True
                self._mark(successor, "refresh", vertex)

    def _wake_below(self, vertex: Vertex, outcome: Outcome, *, recovered: bool) -> None:
        """Make vertices dirty that failed or were blocked because of this one, if this one is right now."""
        if recovered and not vertex.failed:
            for below in vertex.links.downstream:
                if any(
                    vertex.identity in found.because
                    for found in (below.last.outcome, below.probe.result and below.probe.result.outcome)
                    if found
                ):
                    self._mark(below, "recovery", vertex)
        if not outcome.listener and not vertex.failed and (recovered or (outcome.changed and outcome.result)):
            for below in vertex.links.downstream:
                if below.run.rest or (below.failed and self._daemon and (below.timer or vertex in below.links.auto)):
                    self._mark(below, "recovery", vertex)
        if self._daemon and vertex.run.applying and outcome.changed and outcome.result and not outcome.listener:
            for below in _users_by_number(vertex):
                self._mark(below, "refresh", vertex)

    def _record(self, vertex: Vertex, outcome: Outcome) -> None:
        kept = outcome.outline() if self._daemon else outcome
        if outcome.listener and outcome.result is not False:
            self._passes.add(outcome, kept)  # a successful refresh does not show that the resource is as declared
            if vertex.run.applying and outcome.reason != "disabled" and outcome.reason not in GUARDS:
                self._deliveries.listened.discard(vertex)  # changes from now on are new to the listener
            return
        vertex.last.outcome = kept
        self._classify(vertex, outcome)
        if vertex.run.forced and _still_due(vertex, outcome):
            self._scheduler.force(vertex)
        if outcome.changed and outcome.result:
            vertex.last.change = kept
        self._passes.add(outcome, kept)
        if outcome.result and vertex.run.applying and self._reversals.holds(vertex):
            self._scheduler.remove([vertex])
        if outcome.result is False and self._fails_hard(vertex):
            self._give_up()

    def _classify(self, vertex: Vertex, outcome: Outcome) -> None:
        """Update the failures of a vertex, and the sets of vertices that fail or differ."""
        if outcome.result is None and not vertex.queue.removed:
            self.differing.add(vertex)
        else:
            self.differing.discard(vertex)
        if outcome.result is False:
            vertex.last.failures += 1
            if not vertex.queue.removed:
                self.failing.add(vertex)
        elif vertex.last.failures:
            vertex.last.failures = 0
            self._passes.calm = False
            self.failing.discard(vertex)
            self._deliveries.listened.discard(vertex)  # a refresh that failed before may succeed now

    def _fails_hard(self, vertex: Vertex) -> bool:
        """Return whether a failure of the vertex ends a one-shot run."""
        failhard = self.options.failhard if vertex.call.meta.failhard is None else vertex.call.meta.failhard
        return failhard and not self._daemon and not self.options.noop

    def _later(self, vertex: Vertex, outcome: Outcome) -> None:
        """In the daemon, set the timer for the next retry or periodic run."""
        if not self._daemon or vertex.queue.removed:
            return
        meta, failure = vertex.call.meta, outcome.failure
        self._count(vertex, outcome)
        if failure is not None:
            endless = meta.retry is not None and meta.retry.attempts < 0
            if endless or failure.temporary or self._deliveries.pending(vertex):
                self._timers.wake(vertex, backoff(meta, vertex.last.failures, failure), "retry")
        if isinstance(meta.rerun, float):
            self._timers.wake(vertex, self._until_rerun(vertex, meta.rerun), "poll")

    def _count(self, vertex: Vertex, outcome: Outcome) -> None:
        """Count repairs of drift, failed ones included, and space them out if there are too many.

        The time of a failed attempt is kept: events just after it are probably caused by the attempt itself.
        """
        now, failed = asyncio.get_running_loop().time(), outcome.result is False
        tried = outcome.ran and (failed or (outcome.changed and outcome.result))
        if failed and tried:
            limits.failed(vertex, now)
        if self._daemon and outcome.cause == "drift" and tried and limits.repaired(vertex, self.options, now):
            many = f"more than {self.options.flap_limit} times"
            who = self._rivals.advice(vertex, self._vertices(), now - self.options.flap_window)
            within = f"repaired {many} in {self.options.flap_window:g} s; {who}"
            what = f"failed {many} in a row, each time after an event of its watch" if failed else within
            text = f"flapping: {what}. From now on repairs are spaced, up to {self.options.flap_window:g} s apart"
            self._emit(Notice("error", "flapping", vertex.identity, text))

    def _until_rerun(self, vertex: Vertex, period: float) -> float:
        """Return the seconds until an action with a period runs again.

        An action that was due but failed or was skipped waits for a whole period.
        """
        done = self._journal.done_at(vertex.key, digest(vertex))
        left = period if done is None else done + period - time.time()
        return left if 0 < left < period else period


def _is_leaf(vertex: Vertex) -> bool:
    """Return whether no other vertex depends on this one, and the journal records nothing about it."""
    alone = (
        not vertex.links.downstream
        and not vertex.links.subscribers
        and not vertex.links.prereq_owners
        and vertex.links.requisites.keys() <= WAITING
    )
    return alone and not vertex.call.meta.reverse and vertex.call.meta is not ONCE


def _still_due(vertex: Vertex, outcome: Outcome) -> bool:
    """Return whether a forced action must still run.

    That is so if the action failed, or if it reacts to something and noop or the settings kept it from running.
    """
    postponed = outcome.result is None or outcome.reason == "disabled"
    return outcome.result is False or (postponed and isinstance(vertex.resource, Reactive))


def _users_by_number(vertex: Vertex) -> Iterator[Vertex]:
    """Yield vertices downstream that refer to this one by number, as a file to a user who was created again."""
    offered = (
        {uid for uid in vertex.resource.offers() if uid[0] in BY_NUMBER}
        if isinstance(vertex.resource, Edgeable)
        else set()
    )
    for below in vertex.links.downstream if offered else ():
        if isinstance(below.resource, Edgeable) and any(
            (dependency.type, dependency.value) in offered for dependency in below.resource.dependencies()
        ):
            yield below

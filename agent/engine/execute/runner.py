"""Runs vertices: from the start of a vertex until its outcome is recorded, published and acted upon."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial

from holdfast.agent.engine.call import attempt
from holdfast.agent.engine.call.attempt import Job
from holdfast.agent.engine.decide.decisions import Decisions
from holdfast.agent.engine.decide.done import Done, is_action, once, wanted
from holdfast.agent.engine.deliver.deliveries import Deliveries
from holdfast.agent.engine.deliver.journal import Journal
from holdfast.agent.engine.deliver.obstacles import Ask, unwritable
from holdfast.agent.engine.deliver.store import WAITS, Unwritable
from holdfast.agent.engine.deliver.transfer import Prepared, Transfers, wanted_from
from holdfast.agent.engine.execute.authors import attributed
from holdfast.agent.engine.execute.deletions import users_of
from holdfast.agent.engine.execute.event_handler import EventHandler
from holdfast.agent.engine.execute.listeners import Listeners
from holdfast.agent.engine.execute.outcomes import Outcomes
from holdfast.agent.engine.execute.reversals import ONCE, Reversals
from holdfast.agent.engine.execute.undoers import Undoers
from holdfast.agent.engine.execute.undone import perhaps_undone, with_undone
from holdfast.agent.engine.model.events import Event, Interrupted, Notice, Started
from holdfast.agent.engine.model.failure import Failure
from holdfast.agent.engine.model.outcome import WATCHED, Cause, Outcome
from holdfast.agent.engine.model.vertex import NO_RUN, Run, Vertex
from holdfast.agent.engine.model.waits import Obstacle, RetryWait
from holdfast.agent.engine.policy import Policy
from holdfast.agent.engine.schedule import limits
from holdfast.agent.engine.schedule.passes import Passes
from holdfast.agent.engine.schedule.scheduler import Scheduler
from holdfast.agent.engine.schedule.timers import Timers
from holdfast.resources.assignment import no_users
from holdfast.resources.errors import Temporary
from holdfast.resources.report import IDLE
from holdfast.resources.traits import Reversible
from holdfast.states.requisite_kinds import WAITING


class Runner:
    """Runs vertices for one engine."""

    def __init__(
        self,
        policy: Policy,
        journal: Journal,
        emit: Callable[[Event], None],
        obstacle: Ask,
        unwatched: Mapping[Vertex, str],
        *,
        scheduler: Scheduler,
        timers: Timers,
        passes: Passes,
        deliveries: Deliveries,
        transfers: Transfers,
        reversals: Reversals,
        undoers: Undoers,
        done: Done,
        decisions: Decisions,
        outcomes: Outcomes,
        events: EventHandler,
        listeners: Listeners,
    ) -> None:
        self._policy, self._loop = policy, asyncio.get_running_loop()
        self._journal = journal
        self._emit = emit
        self._obstacle = obstacle
        self._unwatched = unwatched
        """Vertex whose watch has failed -> why it failed."""
        self._scheduler = scheduler
        self._timers = timers
        self._passes = passes
        self._deliveries = deliveries
        self._transfers = transfers
        self._reversals = reversals
        self._undoers = undoers
        self._done = done
        self._decisions = decisions
        self._outcomes = outcomes
        self._events = events
        self._listeners = listeners
        self._context = copy_context()
        """The context variables with which each run begins."""

    def idle(self) -> None:
        """Run listeners, or end the pass: no run is in progress.

        Before that, conclude vertices that cannot start because their watches have failed: the pass must not wait.
        """
        held = [each for each in self._unwatched if each.queue.dirty and not each.queue.removed]
        for vertex in held:
            self.conclude_unwatched(vertex)
        if held:
            self._scheduler.pump()
        else:
            self._listeners.run_due()

    def start(self, vertex: Vertex) -> None:
        """Run the vertex in a task of its own."""
        earlier, listening = vertex.run, vertex.queue.listening
        if not listening:
            self._timers.clear(vertex)
        if vertex.rate.failed_at is not None:
            limits.forget_failure(vertex)
        never_began = partial(self._never_began, vertex)
        # Without a context of its own, the run would have that of the run whose end has started it.
        run = self._run(vertex, never_began)
        task = self._loop.create_task(run, name=vertex.identity, context=self._context.copy())
        task.add_done_callback(never_began)
        vertex.run = Run(
            applying=self._policy.applies(vertex),
            forced=vertex.queue.force_next and not listening,
            before=earlier.retry_wait,
            obstacle=earlier.obstacle,
            task=task,
        )

    async def _run(self, vertex: Vertex, never_began: Callable[[asyncio.Task[None]], None]) -> None:
        """Run the vertex, and clean up.

        The end of a task would be reported in a further callback of the loop, at a tenth of the cost of a check. So the
        task itself cleans up; `never_began` does so only if the task is cancelled before it gets here.
        """
        if vertex.run.task is not None:
            vertex.run.task.remove_done_callback(never_began)
        try:
            await self._unless_obstacle(vertex)
        except Exception as error:  # noqa: BLE001 - a bug, which must not end the engine
            self._ended(vertex, error)
        except asyncio.CancelledError as error:
            self._ended(vertex, error)
            raise
        else:
            self._ended(vertex)

    async def _unless_obstacle(self, vertex: Vertex) -> None:
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
        noticed_at, now = self._scheduler.answer(vertex), self._loop.time()
        self._undoers.begin(vertex, now)
        self._emit(Started(vertex.identity, 0.0 if noticed_at is None else now - noticed_at))
        if vertex.queue.listening:
            await self._listen(vertex)
            return
        seen = self._deliveries.seen(vertex)
        if spent := self._done.without_run(vertex):
            self._outcomes.record(vertex, spent, seen)
            return
        decision = await self._decisions.decide(vertex)
        if vertex.queue.removed:
            raise asyncio.CancelledError  # start no attempt: the journal has already forgotten the vertex
        ahead = wanted(vertex)
        done = self._done.done(vertex, decision) if decision.run else self._decisions.not_run(vertex, decision)
        if done is not None:
            failure = vertex.probe.result.outcome.failure if vertex.probe.result else None
            self._outcomes.record(vertex, done._replace(failure=failure), seen)
            return
        prepared = self._transfers.prepare(vertex, real=vertex.run.applying)
        if isinstance(prepared, Outcome):
            self._outcomes.record(vertex, prepared, seen)
            return
        outcome = await self._attempt(vertex, self._job(vertex, prepared, refresh=decision.refresh))
        outcome = await attributed(vertex, self._undoers.attribute(vertex, outcome, noticed_at), noticed_at)
        if await self._stays_dirty(vertex, outcome):
            return
        outcome = with_undone(outcome, vertex.run.before)
        if vertex.run.applying and outcome.result:
            vertex.run.forced = once(vertex)  # run the action again if the following steps are interrupted
            if ahead is not vertex.last.satisfied_prereqs:
                self._outcomes.satisfied(vertex, ahead)
            self._transfers.used(vertex, prepared.values)
        self._outcomes.record(vertex, outcome, seen)
        vertex.run.forced = False
        await self._reversals.tidy()

    def _leave_alone(self, vertex: Vertex, obstacle: Obstacle, *, reported: bool) -> None:
        if not reported:
            self._emit(Notice("info", "held-off", vertex.identity, f"left alone for now: {obstacle.text}"))
        vertex.run.retry_wait = vertex.run.before
        self._force_again(vertex)
        self._passes.found_something()
        if vertex.queue.listening:
            self._deliveries.listened.discard(vertex)
        self._events.hold_back(vertex, obstacle)

    async def _listen(self, vertex: Vertex) -> None:
        """Run a listener: only its refresh, without its requisites."""
        seen = self._deliveries.seen(vertex, listen=True)
        if spent := self._done.without_run(vertex):
            outcome = spent
        elif vertex.refreshable is None:
            comment = f"cannot refresh: {vertex.call.kind} has no refresh action; use require"
            outcome = Outcome.failed(vertex, comment, "refresh")
            self._deliveries.delivered(seen, outcome)  # otherwise it would fail repeatedly
        else:
            prepared = self._transfers.prepare(vertex, real=vertex.run.applying)
            if isinstance(prepared, Outcome):
                outcome = prepared
            else:
                outcome = await self._attempt(vertex, self._job(vertex, prepared, only_refresh=True))
                if await self._stays_dirty(vertex, outcome):
                    return
        self._outcomes.record(vertex, outcome._replace(listener=True), seen)

    async def _attempt(self, vertex: Vertex, job: Job) -> Outcome:
        """Run the job after any probe for a prereq has ended: one call of a resource at a time."""
        if vertex.probe.task:
            await asyncio.wait([vertex.probe.task])
        outcome = await attempt.run(job, self._emit)
        if outcome.result is False and "going-down" in self._scheduler.paused:
            raise asyncio.CancelledError
        return outcome

    async def _stays_dirty(self, vertex: Vertex, outcome: Outcome) -> bool:
        """Return whether the vertex stays dirty: another attempt follows, or the attempt met an obstacle.

        Possible changes by the attempt are delivered now.
        """
        if vertex.run.obstacle:
            if vertex.queue.removed:
                raise asyncio.CancelledError
            self._deliveries.interrupted(vertex, begun=outcome.touched or outcome.changed)
            return True
        if not vertex.run.applying or (vertex.call.meta.retry is None and not outcome.differs):
            return False
        wait = await self._retry_wait(vertex, outcome)
        if wait is None or vertex.queue.removed:
            return False
        if self._policy.daemon or outcome.changed:
            self._deliveries.interrupted(vertex, begun=outcome.touched or outcome.changed)
        delay = self._outcomes.again(vertex, outcome, wait)
        vertex.run.retry_wait = wait
        self._force_again(vertex)
        self._passes.found_something()
        self._timers.hold(vertex, delay, "retry")
        return True

    async def _retry_wait(self, vertex: Vertex, outcome: Outcome) -> RetryWait | None:
        """Return the wait before the next attempt, or None if no other attempt follows."""
        began = vertex.run.before.began if vertex.run.before else self._loop.time() - outcome.duration
        if self._policy.daemon and await perhaps_undone(vertex, outcome):
            number = outcome.attempts
            return RetryWait(number, number + 1, outcome.comment, began, outcome.started, undone=outcome)
        return attempt.retry_wait(vertex.call.meta, outcome, began, endless=not self._policy.daemon)

    def _job(self, vertex: Vertex, prepared: Prepared, *, refresh: bool = False, only_refresh: bool = False) -> Job:
        remember = self._policy.daemon and vertex.run.applying and self._reversals.wanted(vertex)
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
            disabled=self._policy.disabled(vertex),
            before=vertex.run.before,
            batch=vertex.queue.batch,
            remember=partial(self._remember, vertex) if remember else None,
            announce=partial(self._announce, vertex)
            if vertex.run.applying and vertex.links.subscribers and not only_refresh
            else None,
            leaf=_is_leaf(vertex),
            release_worker=partial(self._scheduler.release_worker, vertex),
            users=partial(users_of, vertex, self._policy)
            if vertex.links.downstream or vertex.links.upstream
            else no_users,
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
            if self._policy.daemon:
                vertex.run.obstacle = unwritable(self._journal, error)
            raise Temporary(f"{WAITS}: {error}") from error

    def _force_again(self, vertex: Vertex) -> None:
        """Make the next run execute the action if this run was to execute it and has not done so."""
        if vertex.run.forced:
            self._scheduler.force(vertex)

    def _never_began(self, vertex: Vertex, _: asyncio.Task[None]) -> None:
        """Clean up after a task that was cancelled before its first step."""
        self._ended(vertex, asyncio.CancelledError())

    def _ended(self, vertex: Vertex, error: BaseException | None = None) -> None:
        """Clean up after a run. `error`: the exception that has ended the run."""
        run, again = vertex.run, None
        cancelled = isinstance(error, asyncio.CancelledError)
        run.task = None
        self._undoers.end(vertex)
        if error:
            run.obstacle = None
        if vertex.queue.listening and cancelled:
            self._deliveries.listened.discard(vertex)  # the listener has not run
        if vertex.queue.batch:
            vertex.queue.batch.leave(vertex.identity)
        try:
            if cancelled:
                again = self._interrupted(vertex)
            elif error:
                self._broken(vertex, error)
        finally:
            run.forced = False
            attempt.clear(vertex.ctx)
            waits = (run.retry_wait is not None or run.obstacle is not None) and not vertex.queue.removed
            if not waits:
                vertex.run = NO_RUN
            if marks := self._scheduler.finished(vertex, waits=waits, again=again):
                self._events.marked(marks)
            if not self._policy.stopped:
                self._scheduler.pump()

    def _interrupted(self, vertex: Vertex) -> Cause:
        """Deliver and report the possible changes of a cancelled run. Return the cause of the vertex's next run."""
        cause = vertex.queue.pending_cause or vertex.queue.cause
        self._force_again(vertex)
        report = vertex.ctx.report
        if self._policy.daemon:
            self._emit(Notice("info", "interrupted", vertex.identity, "its run was interrupted"))
        if vertex.run.applying:
            begun = report.touched or bool(report.changes) or is_action(vertex)
            self._deliveries.interrupted(vertex, begun=begun)
            if begun and report is not IDLE:
                self._emit(Interrupted(attempt.interrupted(vertex.call, vertex.ctx, vertex.queue.cause)))
        # "recovery" is not held back, unlike the causes of watches: the state of the resource is unknown.
        return "recovery" if cause in WATCHED else cause

    def conclude_unwatched(self, vertex: Vertex) -> None:
        """Conclude a dirty vertex whose watch has failed: it counts as failed until the watch is armed again."""
        if vertex.run.retry_wait or vertex.run.obstacle:
            self._timers.clear(vertex)
        try:
            self._outcomes.record(vertex, Outcome.failed(vertex, f"cannot watch: {self._unwatched[vertex]}"))
        except Exception as error:  # noqa: BLE001 - handled as in a run
            self._broken(vertex, error)
        vertex.run = NO_RUN
        self._events.marked(self._scheduler.settle(vertex))

    def _broken(self, vertex: Vertex, error: BaseException) -> None:
        """Conclude a run that raised outside the attempt as failed, and try again later.

        Such an error is a bug in the engine, or in a method of a kind that must not raise.
        """
        text = f"its run failed: {type(error).__name__}: {error}; a bug in Holdfast or in the kind"
        self._emit(Notice("error", "engine-trouble", vertex.identity, text, error))
        outcome = Outcome.failed(vertex, text, vertex.queue.cause, ran=True, failure=Failure(temporary=True))
        self._outcomes.record_broken(vertex, outcome)


def _is_leaf(vertex: Vertex) -> bool:
    """Return whether no other vertex depends on this one, and the journal records nothing about it."""
    alone = (
        not vertex.links.downstream
        and not vertex.links.subscribers
        and not vertex.links.prereq_owners
        and vertex.links.requisites.keys() <= WAITING
    )
    return alone and not vertex.call.meta.reverse and vertex.call.meta is not ONCE

"""Outcomes: after each run, its outcome is recorded and published, and other vertices are marked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator

from holdfast.agent.engine import kinds
from holdfast.agent.engine.decide import probes
from holdfast.agent.engine.decide.done import Done
from holdfast.agent.engine.decide.marker import Marker
from holdfast.agent.engine.deliver.deliveries import Deliveries, Seen
from holdfast.agent.engine.deliver.transfer import Transfers
from holdfast.agent.engine.execute.reversals import Reversals
from holdfast.agent.engine.execute.undoers import Undoers
from holdfast.agent.engine.model.events import Event, Notice
from holdfast.agent.engine.model.failure import backoff
from holdfast.agent.engine.model.outcome import GUARDS, Cause, LastChange, Outcome
from holdfast.agent.engine.model.vertex import Vertex
from holdfast.agent.engine.model.waits import RetryWait
from holdfast.agent.engine.policy import Policy
from holdfast.agent.engine.schedule import limits
from holdfast.agent.engine.schedule.passes import Passes
from holdfast.agent.engine.schedule.scheduler import Scheduler
from holdfast.agent.engine.schedule.timers import Timers
from holdfast.resources.dependencies import BY_NUMBER
from holdfast.resources.traits import Reactive, Referring
from holdfast.states.requisite_kinds import RECV


class Outcomes:
    """The outcomes of one engine."""

    def __init__(
        self,
        policy: Policy,
        emit: Callable[[Event], None],
        *,
        scheduler: Scheduler,
        timers: Timers,
        marker: Marker,
        passes: Passes,
        deliveries: Deliveries,
        transfers: Transfers,
        reversals: Reversals,
        undoers: Undoers,
        done: Done,
    ) -> None:
        self.failing: set[Vertex] = set()
        """Vertices whose last run failed."""
        self.differing: set[Vertex] = set()
        """Vertices that differ from their declaration, and that noop keeps from being repaired."""
        self.deleting: set[Vertex] = set()
        """Vertices with a deletion that is still to be made."""
        self._policy = policy
        self._emit = emit
        self._scheduler = scheduler
        self._timers = timers
        self._marker = marker
        self._passes = passes
        self._deliveries = deliveries
        self._transfers = transfers
        self._reversals = reversals
        self._undoers = undoers
        self._done = done

    def keep(self, vertices: Collection[Vertex]) -> None:
        """Forget all other vertices, which have left the graph."""
        self.failing.intersection_update(vertices)
        self.differing.intersection_update(vertices)
        self.deleting.intersection_update(vertices)

    def again(self, vertex: Vertex, outcome: Outcome, wait: RetryWait) -> float:
        """Count and report an attempt that another one follows. Returns the seconds until then.

        An attempt that was perhaps undone counts as a repair, and the next one follows at once, within the limits.
        """
        if wait.undone:
            self.count(vertex, outcome, undone=True)
            now = asyncio.get_running_loop().time()
            delay = max(limits.hold_off(vertex, now), limits.take(vertex, self._policy.options, now))
            when = f"in {delay:.3g} s" if delay else "at once"
            text = f"{outcome.comment}; its watch has reported an event meanwhile: repaired again {when}"
            self._emit(Notice("info", "undone-meanwhile", vertex.identity, text))
            return delay
        vertex.last.failures += 1
        delay = backoff(vertex.call.meta, vertex.last.failures, outcome.failure)
        text = f"attempt {wait.attempt} of {wait.attempts}: {outcome.comment}; tried again in {delay:.3g} s"
        self._emit(Notice("warning", "attempt-failed", vertex.identity, text))
        self.count(vertex, outcome)
        return delay

    def satisfied(self, vertex: Vertex, prereqs: frozenset[tuple[Vertex, int]]) -> None:
        """Note the prereqs for which the vertex has run, by target and generation."""
        vertex.last.satisfied_prereqs = prereqs

    def record(self, vertex: Vertex, outcome: Outcome, seen: Seen | None = None) -> None:
        """Record and publish the outcome of a vertex, then wake the vertices that depend on it.

        `seen`: the change counts that the run acknowledges if it succeeded.
        """
        recovered = vertex.last.outcome is None or vertex.blocks
        if self._policy.daemon and vertex.run.applying and outcome.ran:
            self._undoers.changed(vertex, outcome)
        if vertex.probe.result is not None:
            probes.forget(vertex)
        notified = self._deliver(vertex, outcome, seen or [])
        self._record(vertex, outcome)
        for each in notified:
            self._marker.mark(each, "refresh", vertex)
        self._succeed(vertex, outcome)
        self._wake_below(vertex, outcome, recovered=recovered)
        self._later(vertex, outcome)

    def _deliver(self, vertex: Vertex, outcome: Outcome, seen: Seen) -> list[Vertex]:
        """Acknowledge deliveries that the run has handled, and record new ones. Returns the vertices to mark."""
        real, last = vertex.run.applying, vertex.last
        if seen and real and outcome.result is not False and outcome.reason != "disabled":
            self._deliveries.delivered(seen, outcome)
        if outcome.listener:
            return []
        would_before, last.would_change = last.would_change, outcome.ran and outcome.changed and not real
        notified = self._deliveries.tell(
            vertex,
            outcome,
            real=real,
            newly_failed=outcome.result is False and not vertex.failed,
            newly_would=last.would_change and not would_before,
        )
        if outcome.ran and outcome.result:
            if real:
                self._done.record(vertex)
            notified += self._transfers.publish(vertex)
        elif outcome.known:
            notified += self._transfers.publish(vertex)
        return notified

    def record_broken(self, vertex: Vertex, outcome: Outcome) -> None:
        """Record the outcome of a run that raised outside the attempt, and try again later."""
        self._record(vertex, outcome)
        self._later(vertex, outcome)

    def _succeed(self, vertex: Vertex, outcome: Outcome) -> None:
        """After a run of a superseded vertex, make the later vertices of its sequence dirty."""
        if outcome.ran:
            vertex.last.closes = False
            if vertex.links.successors and self._policy.daemon and vertex.run.applying and outcome.result:
                kept = vertex.links.successors[-1].identity
                text = f"has run, as one of several states of one thing; only the last, {kept}, is maintained"
                self._emit(Notice("info", "superseded", vertex.identity, text))
            for successor in vertex.links.successors:
                successor.last.closes = True
                self._marker.mark(successor, "refresh", vertex)

    def _wake_below(self, vertex: Vertex, outcome: Outcome, *, recovered: bool) -> None:
        """Make vertices dirty that failed or were blocked because of this one, if this one is now as declared.

        `recovered`: it was not right before.
        """
        below = vertex.links.downstream
        if vertex.blocks or not below:
            return
        repaired = outcome.repaired and not outcome.listener
        if recovered:
            self._mark_all((each for each in below if _blames(each, vertex)), "recovery", vertex)
        if repaired or (recovered and not outcome.listener):
            self._mark_all((each for each in below if self._may_succeed(each, vertex)), "recovery", vertex)
        if repaired and self._policy.daemon and vertex.run.applying:
            self._mark_all(_referrers(vertex), "refresh", vertex)

    def _mark_all(self, vertices: Iterable[Vertex], cause: Cause, by: Vertex) -> None:
        for each in vertices:
            self._marker.mark(each, cause, by)

    def _may_succeed(self, vertex: Vertex, upstream: Vertex) -> bool:
        """Return whether a vertex has failed and may succeed after a repair of this upstream."""
        if vertex.run.retry_wait:
            return True
        return vertex.failed and self._policy.daemon and bool(vertex.timer or upstream in vertex.links.auto)

    def _record(self, vertex: Vertex, outcome: Outcome) -> None:
        kept = outcome.outline() if self._policy.daemon else outcome
        if outcome.listener and outcome.result is not False:
            self._passes.add(outcome, kept)  # a successful refresh does not show that the resource is as declared
            if vertex.run.applying and outcome.reason != "disabled" and outcome.reason not in GUARDS:
                self._deliveries.listened.discard(vertex)  # changes from now on are new to the listener
            return
        vertex.last.outcome = kept
        self._classify(vertex, outcome)
        if vertex.run.forced and _still_due(vertex, outcome):
            self._scheduler.force(vertex)
        if outcome.repaired:
            vertex.last.change = LastChange.of(outcome)
        self._passes.add(outcome, kept)
        self._complete(vertex, outcome)

    def _complete(self, vertex: Vertex, outcome: Outcome) -> None:
        """End a reversal that is complete, or a one-shot run that gives up after a failure."""
        if outcome.result and vertex.run.applying and self._reversals.holds(vertex):
            self._scheduler.remove([vertex])
        if outcome.result is False and self._policy.fails_hard(vertex):
            self._policy.gave_up = True
            self._scheduler.give_up()

    def _classify(self, vertex: Vertex, outcome: Outcome) -> None:
        """Update the failures of a vertex, and the sets of vertices that fail, differ, or have something to delete."""
        if outcome.result is None and not vertex.queue.removed:
            self.differing.add(vertex)
        else:
            self.differing.discard(vertex)
        if outcome.deletes_later:
            self.deleting.add(vertex)
        else:
            self.deleting.discard(vertex)
        if outcome.result is False:
            vertex.last.failures += 1
            if not vertex.queue.removed:
                self.failing.add(vertex)
        elif vertex.last.failures:
            vertex.last.failures = 0
            self._passes.found_something()
            self.failing.discard(vertex)
            self._deliveries.listened.discard(vertex)  # a refresh that failed before may succeed now

    def _later(self, vertex: Vertex, outcome: Outcome) -> None:
        """In the daemon, set the timer for the next retry or periodic run."""
        if not self._policy.daemon or vertex.queue.removed:
            return
        meta, failure = vertex.call.meta, outcome.failure
        self.count(vertex, outcome)
        if failure is not None:
            endless = meta.retry is not None and meta.retry.attempts < 0
            if endless or failure.temporary or self._deliveries.pending(vertex):
                self._timers.wake(vertex, backoff(meta, vertex.last.failures, failure), "retry")
        if isinstance(meta.rerun, float):
            self._timers.wake(vertex, self._done.until_rerun(vertex, meta.rerun), "poll")

    def count(self, vertex: Vertex, outcome: Outcome, *, undone: bool = False) -> None:
        """Count repairs of drift, failed and perhaps undone ones included, and space them out if there are too many.

        The time of a failed attempt is kept: events just after it are probably caused by the attempt itself.
        """
        failed = outcome.result is False and not undone
        if not outcome.ran or not (failed or undone or outcome.repaired):
            return
        now, options = asyncio.get_running_loop().time(), self._policy.options
        if failed:
            limits.failed(vertex, now)
        if self._policy.daemon and outcome.cause == "drift" and limits.repaired(vertex, options, now):
            many = f"more than {options.flap_limit} times"
            who = self._undoers.advice(vertex, self._scheduler.vertices, now - options.flap_window)
            within = f"repaired {many} in {options.flap_window:g} s; {who}"
            what = f"failed {many} in a row, each time after an event of its watch" if failed else within
            text = f"flapping: {what}. From now on repairs are spaced, up to {options.flap_window:g} s apart"
            self._emit(Notice("error", "flapping", vertex.identity, text))


def _blames(vertex: Vertex, upstream: Vertex) -> bool:
    """Return whether a vertex did not run, or would not run, because of this upstream."""
    probe = vertex.probe.result
    outcomes = (vertex.last.outcome, probe.outcome if probe else None)
    return any(upstream.identity in outcome.because for outcome in outcomes if outcome)


def _still_due(vertex: Vertex, outcome: Outcome) -> bool:
    """Return whether a forced action must still run.

    That is so if the action failed, or if it reacts to something and noop or the settings kept it from running.
    """
    postponed = outcome.result is None or outcome.reason == "disabled"
    return outcome.result is False or (postponed and isinstance(vertex.resource, Reactive))


def _referrers(vertex: Vertex) -> Iterator[Vertex]:
    """Yield vertices downstream that refer to this one by number or identifier: its repair may have created it again.

    A file refers to its owner, for example, and a schema to its database, whose identifier may be the same as before.
    """
    offered = {uid for uid in kinds.offers(vertex.resource) if uid[0] in BY_NUMBER}
    referred = isinstance(vertex.resource, Referring)
    for below in vertex.links.downstream if offered or referred else ():
        by_identifier = isinstance(below.resource, Referring) and vertex in below.links.requisites.get(RECV, ())
        if by_identifier or any((each.type, each.value) in offered for each in kinds.dependencies(below.resource)):
            yield below

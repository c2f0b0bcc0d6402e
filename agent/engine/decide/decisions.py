"""Whether a vertex runs now: the requisite table fed with what the graph and the journal know, with a look ahead for prereqs."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from functools import partial

from holdfast.agent.engine.call import attempt
from holdfast.agent.engine.call.attempt import Job
from holdfast.agent.engine.decide.probes import Prober, Probes
from holdfast.agent.engine.decide.requisites import Decision, Upstream, decide
from holdfast.agent.engine.deliver.deliveries import incoming
from holdfast.agent.engine.deliver.journal import Journal
from holdfast.agent.engine.deliver.transfer import Transfers
from holdfast.agent.engine.model.events import Notice, Outcome, Reason
from holdfast.agent.engine.model.failure import Failure
from holdfast.agent.engine.model.graph import CARRIES, Vertex
from holdfast.resources.traits import Reactive

CLOCK = 0.05
"""Seconds by which the clock of the loop and that of the world may differ when a time has come."""

RUN = Decision(run=True)
"""For what has no requisites."""
NOBODY: frozenset[tuple[Vertex, int]] = frozenset()
"""One for all that have no prereq: each vertex keeps what `wanted` has found, and an empty set takes up 216 bytes."""


class Decisions:
    """Decides for one engine. `daemon` remembers actions that are done; one-shot runs repeat them, as in Salt.

    `found` is told of the target of a prereq that turned out to be wrong though nobody had marked it, and whose prereq that is.
    `applies` says whether a vertex may change the machine. One that may is not moved by what noop keeps another from changing.
    """

    def __init__(
        self,
        journal: Journal,
        transfers: Transfers,
        emit: Callable[[Notice], None],
        found: Callable[[Vertex, Vertex], None],
        *,
        applies: Callable[[Vertex], bool],
        disabled: Callable[[Vertex], str],
        daemon: bool,
    ) -> None:
        self._journal = journal
        self._transfers = transfers
        self._emit = emit
        self._prober = Prober(self._probe, found)
        self._applies = applies
        self._disabled = disabled
        self._daemon = daemon

    async def decide(self, vertex: Vertex) -> Decision:
        """The requisite table for this vertex; its prereqs' targets are probed on the way."""
        own = RUN
        if not vertex.requisites and not vertex.prereq_owners:
            return own
        before = next((before for before in vertex.prereq_owners if before.failed), None)
        blamed = before is not None and before.outcome is not None and vertex.identity in before.outcome.because
        if vertex.requisites and (before is None or (blamed and not vertex.probe)):
            own = self._table(vertex, await self._prober.ahead(vertex))
        if (
            before is None or own.reason == "requisite_failed"
        ):  # who blame each other would wait for each other for ever
            return own
        return Decision(run=False, reason="prereq" if vertex.probe else "requisite_failed", because=(before.identity,))

    def _table(self, vertex: Vertex, probes: Probes, *, probing: bool = False) -> Decision:
        """Probing, upstreams that can only run later count as good: what came of them before may be for want of this very run."""
        upstreams: dict[str, list[Upstream]] = {}
        real = self._applies(vertex) if probing else vertex.applying
        for kind, targets in vertex.requisites.items():
            if kind != "listen":
                words = (
                    kind if vertex.refreshable else kind.replace("watch", "require")
                )  # nothing to refresh: it means require
                for target in targets:
                    outcome = None if probing and _later(vertex, target) else target.outcome
                    if kind == "prereq":  # one that a swap has just added is looked at later, when this is done again
                        outcome = (
                            self._promised(probes[target].outcome, target, real=real) if target in probes else None
                        )
                    upstreams.setdefault(words, []).append(self._upstream(vertex, kind, target, outcome, real=real))
        return decide(upstreams)

    def _promised(self, outcome: Outcome, target: Vertex, *, real: bool) -> Outcome:
        """What comes of the target of a prereq: a change that noop keeps from being made does not come."""
        return (
            outcome._replace(result=True) if real and outcome.result is None and not self._applies(target) else outcome
        )

    def _upstream(self, vertex: Vertex, kind: str, target: Vertex, outcome: Outcome | None, *, real: bool) -> Upstream:
        counted = CARRIES.get(kind)
        edge = (target.key, vertex.key, counted or "")
        pending = counted is not None and self._journal.pending(edge)
        unsure = outcome is not None and outcome.result is None and not real
        failed = unsure or (pending and target.failed)
        return Upstream(target.identity, outcome, changed=pending or (target.would_change and not real), failed=failed)

    async def _probe(self, target: Vertex, probes: Probes) -> tuple[Outcome, Failure | None]:
        """What the target of a prereq would do if it ran now."""
        if spent := self.spent(target):
            return spent, None
        decision = self._table(target, probes, probing=True)
        if not decision.run:
            return self.not_run(target, decision), None
        done = self.done(target, decision)
        if done is not None:
            return done, None
        prepared = self._transfers.prepare(target, real=True, later=partial(_later, target))
        if isinstance(prepared, Outcome):
            return prepared, None
        job = Job(prepared.call, target.ctx, apply=False, received=prepared.values, disabled=self._disabled(target))
        outcome, failure = await attempt.run(job, self._emit)
        if decision.refresh and outcome.ran and not outcome.changes and outcome.result:
            outcome = outcome._replace(result=None, changes={"watch": "would refresh"})
        return outcome, failure

    def not_run(self, vertex: Vertex, decision: Decision) -> Outcome:
        """The outcome of a vertex whose requisites keep it from running."""
        because = ", ".join(decision.because)
        if (
            decision.reason == "prereq"
            and vertex.probe
            and any(before.identity in decision.because for before in vertex.prereq_owners)
        ):
            return self._withheld(vertex, vertex.probe.outcome, decision)
        comment = {
            "requisite_failed": f"skipped because of {because}",
            "onfail": f"not run: {because} did not fail",
            "onchanges": f"not run: {because} failed or did not change",
            "prereq": f"not run: {because} would not change",
        }.get(decision.reason, "")
        return Outcome(
            vertex.identity,
            vertex.position,
            result=decision.reason != "requisite_failed",
            comment=comment,
            ran=False,
            reason=decision.reason,
            because=decision.because,
            cause=vertex.cause,
            started=time.time(),
        )

    @staticmethod
    def _withheld(vertex: Vertex, probe: Outcome, decision: Decision) -> Outcome:
        """The outcome of the target of a prereq that failed: what the look at it found, without the changes.

        Where that look failed itself, its own words stay: they are the cause of the other's failure.
        """
        if probe.result is not False:
            comment = f"not run: its prerequisite {', '.join(decision.because)} failed"
            probe = probe._replace(comment=comment, reason="", because=decision.because)
        return probe._replace(
            changes={},
            diff="",
            ran=False,
            reason=probe.reason or "prereq",
            cause=vertex.cause,
            started=time.time(),
        )

    def spent(self, vertex: Vertex) -> Outcome | None:
        """The outcome of a superseded vertex that has acted for this version of its sequence; None: it is to act, or is not superseded."""
        if not self._daemon or not vertex.successors or vertex.force_next or vertex.forced:
            return None
        at = self._journal.done_at(vertex.key, digest(vertex))
        if at is None:
            return None
        return self._as_before(
            vertex, "superseded", f"superseded by {vertex.successors[-1].identity}; it has acted once, at {_when(at)}"
        )

    def done(self, vertex: Vertex, decision: Decision) -> Outcome | None:
        """The outcome of an action that has run already and has no reason to run again; None: run."""
        if not self._daemon or not self.is_action(vertex) or vertex.force_next or vertex.forced:
            return None
        if decision.delivered and not (vertex.satisfied_prereqs and vertex.satisfied_prereqs == wanted(vertex)):
            return None
        if any(
            self._journal.pending(edge) for edge, _ in incoming(vertex) if edge[2] != "listen"
        ) or self._transfers.changed(vertex):
            return None
        at = self._journal.done_at(vertex.key, digest(vertex))
        if (
            at is None
            or _overdue(vertex, at)
            or self._transfers.owes(vertex)
            or (vertex.call.meta.rerun == "start" and vertex.outcome is None)
        ):
            return None
        return self._as_before(vertex, "action", f"done already, at {_when(at)}")

    @staticmethod
    def _as_before(vertex: Vertex, reason: Reason, comment: str) -> Outcome:
        """The outcome of a vertex that is not run because what it did before still counts."""
        return Outcome(
            vertex.identity,
            vertex.position,
            result=True,
            comment=comment,
            ran=False,
            reason=reason,
            cause=vertex.cause,
            started=time.time(),
        )

    @staticmethod
    def is_action(vertex: Vertex) -> bool:
        """It cannot tell whether it is needed: no guard, and its kind says so."""
        meta = vertex.call.meta
        return vertex.resource.action() and meta.onlyif is None and meta.unless is None and not meta.creates

    def once(self, vertex: Vertex) -> bool:
        """It is remembered that it was done: it cannot tell whether it is needed, or what it does does not last."""
        return bool(vertex.successors) or self.is_action(vertex)


def _when(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def _later(vertex: Vertex, upstream: Vertex) -> bool:
    """Whether this upstream can only run after the look at a vertex."""
    return upstream.position > vertex.probe_position or not upstream.settled


def wanted(vertex: Vertex) -> frozenset[tuple[Vertex, int]]:
    """For whom it runs as a prereq, if it does: each with its marks, so that it does not run again for what it has run for already."""
    targets = vertex.requisites.get("prereq", ())
    return frozenset((target, target.generation) for target in targets) if targets else NOBODY


def _overdue(vertex: Vertex, at: float) -> bool:
    """It runs every so many seconds, and was done longer ago; or in the future, by a clock that was wrong then."""
    period = vertex.call.meta.rerun
    return isinstance(period, float) and not at - CLOCK <= time.time() < at + period - CLOCK


def digest(vertex: Vertex) -> str:
    """Hash of a declaration: what an action, or a superseded vertex, was when it last succeeded.

    What it is to receive, and what its sources contain, belong to that, and the version of the sequence of a superseded one. What was done by an earlier version is done: a field of `later` counts only where it is not at its default.
    """
    recv = "".join(f" {wanted!r}" for wanted in vertex.call.meta.recv)
    resource = vertex.resource
    declared = type(resource).model_fields
    aside = {name for name in resource.later if getattr(resource, name) == declared[name].default}
    fields = resource.model_dump_json(exclude=aside.union(resource.reaction if isinstance(resource, Reactive) else ()))
    sequence = f" {vertex.call.superseded.version}" if vertex.call.superseded else ""
    return hashlib.sha256(
        f"{vertex.call.kind} {fields}{recv}{vertex.ctx.source_version()}{sequence}".encode()
    ).hexdigest()

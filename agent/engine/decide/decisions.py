"""Decisions: whether a vertex runs now, by the requisite table, the graph, the journal and the probes for prereqs."""

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
from holdfast.agent.engine.model.events import Notice, Outcome
from holdfast.agent.engine.model.vertex import Vertex
from holdfast.resources.traits import Reactive
from holdfast.states.requisite_kinds import CARRIES, KINDS, LISTENING, PROBED, WATCH, targets_of

CLOCK = 0.05
"""Seconds by which the loop's clock and Unix time may differ when a timer fires."""

RUN = Decision(run=True)
"""The decision for a vertex without requisites."""
NO_TARGETS: frozenset[tuple[Vertex, int]] = frozenset()
"""Shared by all vertices without a prereq: each vertex keeps its `wanted` set, and an empty set takes 216 bytes."""


class Decisions:
    """Decides for one engine. With `daemon`, finished actions do not run again; one-shot runs repeat them, as in Salt.

    `found` is called with a target of a prereq that is not as declared although it was not dirty, and with the vertex
    that has the prereq. `applies` says whether a vertex may change the machine. A vertex that may does not react to a
    change that noop prevents.
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
        """Apply the requisite table to a vertex, after probing the targets of its prereqs."""
        own = RUN
        if not vertex.links.requisites and not vertex.links.prereq_owners:
            return own
        owner = next((owner for owner in vertex.links.prereq_owners if owner.failed), None)
        blamed = owner is not None and owner.last.outcome is not None and vertex.identity in owner.last.outcome.because
        if vertex.links.requisites and (owner is None or (blamed and not vertex.probe.result)):
            own = self._table(vertex, await self._prober.ahead(vertex))
        # A failed requisite of the vertex itself comes first: two vertices that name each other would wait for ever.
        if owner is None or own.reason == "requisite_failed":
            return own
        return Decision(
            run=False, reason="prereq" if vertex.probe.result else "requisite_failed", because=(owner.identity,)
        )

    def _table(self, vertex: Vertex, probes: Probes, *, probing: bool = False) -> Decision:
        """Apply the requisite table, given the results of probes.

        With `probing`, an upstream that can run only after the probe counts as good: it may have failed earlier just
        because the vertex had not run.
        """
        upstreams: dict[str, list[Upstream]] = {}
        applying = self._applies(vertex) if probing else vertex.run.applying
        for kind, targets in vertex.links.requisites.items():
            if kind not in LISTENING:
                row = KINDS[kind].effective(refreshable=vertex.refreshable is not None)
                for target in targets:
                    outcome = None if probing and _runs_later(vertex, target) else target.last.outcome
                    if kind in PROBED:
                        outcome = None  # a target that a swap has just added is probed when this vertex runs again
                        if target in probes:
                            outcome = self._expected(probes[target].outcome, target, applying=applying)
                    upstreams.setdefault(row, []).append(
                        self._upstream(vertex, kind, target, outcome, applying=applying)
                    )
        return decide(upstreams)

    def _expected(self, outcome: Outcome, target: Vertex, *, applying: bool) -> Outcome:
        """Return the outcome to expect from the target of a prereq, without a change that noop prevents."""
        prevented = applying and outcome.result is None and not self._applies(target)
        return outcome._replace(result=True) if prevented else outcome

    def _upstream(
        self, vertex: Vertex, kind: str, target: Vertex, outcome: Outcome | None, *, applying: bool
    ) -> Upstream:
        counted = CARRIES.get(kind)
        edge = (target.key, vertex.key, counted or "")
        pending = counted is not None and self._journal.pending(edge)
        unsure = outcome is not None and outcome.result is None and not applying
        failed = unsure or (pending and target.failed)
        changed = pending or (target.last.would_change and not applying)
        return Upstream(target.identity, outcome, changed=changed, failed=failed)

    async def _probe(self, target: Vertex, probes: Probes) -> Outcome:
        """Return the outcome that the target of a prereq would have if it ran now."""
        if spent := self.spent(target):
            return spent
        decision = self._table(target, probes, probing=True)
        if not decision.run:
            return self.not_run(target, decision)
        done = self.done(target, decision)
        if done is not None:
            return done
        prepared = self._transfers.prepare(target, real=True, later=partial(_runs_later, target))
        if isinstance(prepared, Outcome):
            return prepared
        job = Job(prepared.call, target.ctx, apply=False, received=prepared.values, disabled=self._disabled(target))
        outcome = await attempt.run(job, self._emit)
        if decision.refresh and outcome.ran and not outcome.changes and outcome.result:
            outcome = outcome._replace(result=None, changes={WATCH: "would refresh"})
        return outcome

    def not_run(self, vertex: Vertex, decision: Decision) -> Outcome:
        """Return the outcome of a vertex whose requisites keep it from running."""
        because = ", ".join(decision.because)
        if (
            decision.reason == "prereq"
            and vertex.probe.result
            and any(before.identity in decision.because for before in vertex.links.prereq_owners)
        ):
            return self._withheld(vertex, vertex.probe.result.outcome, decision)
        comment = {
            "requisite_failed": f"skipped because of {because}",
            "onfail": f"not run: {because} did not fail",
            "onchanges": f"not run: {because} failed or did not change",
            "prereq": f"not run: {because} would not change",
        }.get(decision.reason, "")
        return Outcome.skipped(vertex, decision.reason, comment, vertex.queue.cause, because=decision.because)

    @staticmethod
    def _withheld(vertex: Vertex, probe: Outcome, decision: Decision) -> Outcome:
        """Return the outcome of the target of a failed prereq: the result of its probe, without the changes.

        The comment of a probe that failed stays, since it is the reason why the prereq failed.
        """
        if probe.result is not False:
            comment = f"not run: its prerequisite {', '.join(decision.because)} failed"
            probe = probe._replace(comment=comment, reason="", because=decision.because)
        return probe._replace(
            changes={},
            diff="",
            ran=False,
            reason=probe.reason or "prereq",
            cause=vertex.queue.cause,
            started=time.time(),
        )

    def spent(self, vertex: Vertex) -> Outcome | None:
        """Return the outcome of a superseded vertex that has acted for this version of its sequence.

        None: the vertex is to act, or is not superseded.
        """
        if not self._daemon or not vertex.links.successors or vertex.queue.force_next or vertex.run.forced:
            return None
        at = self._journal.done_at(vertex.key, digest(vertex))
        if at is None:
            return None
        comment = f"superseded by {vertex.links.successors[-1].identity}; it acted at {_when(at)}"
        return Outcome.skipped(vertex, "superseded", comment, vertex.queue.cause)

    def done(self, vertex: Vertex, decision: Decision) -> Outcome | None:
        """Return the outcome of an action that has already run and has no reason to run again; None: run it."""
        if not self._daemon or not self.is_action(vertex) or vertex.queue.force_next or vertex.run.forced:
            return None
        if decision.delivered and not (
            vertex.last.satisfied_prereqs and vertex.last.satisfied_prereqs == wanted(vertex)
        ):
            return None
        if any(
            self._journal.pending(edge) for edge, _ in incoming(vertex) if edge[2] not in LISTENING
        ) or self._transfers.changed(vertex):
            return None
        at = self._journal.done_at(vertex.key, digest(vertex))
        if (
            at is None
            or _overdue(vertex, at)
            or self._transfers.owes(vertex)
            or (vertex.call.meta.rerun == "start" and vertex.last.outcome is None)
        ):
            return None
        return Outcome.skipped(vertex, "action", f"already done at {_when(at)}", vertex.queue.cause)

    @staticmethod
    def is_action(vertex: Vertex) -> bool:
        """Whether a vertex cannot tell if it is needed: its kind is an action, and it has no guard."""
        meta = vertex.call.meta
        return vertex.resource.action() and meta.onlyif is None and meta.unless is None and not meta.creates

    def once(self, vertex: Vertex) -> bool:
        """Whether the journal records a successful run of a vertex: it is an action, or is superseded."""
        return bool(vertex.links.successors) or self.is_action(vertex)


def _when(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def _runs_later(vertex: Vertex, upstream: Vertex) -> bool:
    """Whether this upstream can run only after the probe of a vertex."""
    return upstream.position > vertex.probe_position or not upstream.settled


def wanted(vertex: Vertex) -> frozenset[tuple[Vertex, int]]:
    """Return the targets of a vertex's prereqs, each with its generation.

    By the generations, the vertex does not run again for a target for which it has already run.
    """
    requisites = vertex.links.requisites
    if requisites.keys().isdisjoint(PROBED):
        return NO_TARGETS
    return frozenset((target, target.queue.generation) for target in targets_of(requisites, PROBED))


def _overdue(vertex: Vertex, at: float) -> bool:
    """Whether an action with a `rerun` period must run again.

    An action that was done in the future also must: the system clock was wrong then.
    """
    period = vertex.call.meta.rerun
    return isinstance(period, float) and not at - CLOCK <= time.time() < at + period - CLOCK


def digest(vertex: Vertex) -> str:
    """Hash the declaration of an action or a superseded vertex, to see whether it has changed since its last success.

    The hash covers the fields, the values to receive, the content of the sources, and the version of the sequence of a
    superseded vertex. A field of `Resource.later` counts only if it is not at its default. So an action that ran before
    an upgrade of Holdfast added the field still counts as done.
    """
    recv = "".join(f" {wanted!r}" for wanted in vertex.call.meta.recv)
    resource = vertex.resource
    declared = type(resource).model_fields
    excluded = {name for name in resource.later if getattr(resource, name) == declared[name].default}
    fields = resource.model_dump_json(
        exclude=excluded.union(resource.reaction if isinstance(resource, Reactive) else ())
    )
    sequence = f" {vertex.call.superseded.version}" if vertex.call.superseded else ""
    return hashlib.sha256(
        f"{vertex.call.kind} {fields}{recv}{vertex.ctx.source_version()}{sequence}".encode()
    ).hexdigest()

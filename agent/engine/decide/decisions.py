"""Decisions: whether a vertex runs now, by the requisite table, the graph, the journal and the probes for prereqs."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from holdfast.agent.engine.call import attempt
from holdfast.agent.engine.call.attempt import Job
from holdfast.agent.engine.decide.done import Done
from holdfast.agent.engine.decide.marker import Marker
from holdfast.agent.engine.decide.probes import Prober, Probes
from holdfast.agent.engine.decide.requisites import COMMENTS, Decision, Upstream, decide
from holdfast.agent.engine.deliver.journal import Journal
from holdfast.agent.engine.deliver.transfer import Transfers
from holdfast.agent.engine.model.events import Notice
from holdfast.agent.engine.model.outcome import Outcome
from holdfast.agent.engine.model.vertex import Vertex
from holdfast.agent.engine.policy import Policy
from holdfast.states.requisite_kinds import CARRIES, KINDS, LISTENING, PROBED, WATCH

RUN = Decision(run=True)
"""The decision for a vertex without requisites."""


class Decisions:
    """Decides for one engine.

    A vertex that may change the machine does not react to a change that noop prevents.
    """

    def __init__(
        self,
        policy: Policy,
        journal: Journal,
        transfers: Transfers,
        emit: Callable[[Notice], None],
        *,
        done: Done,
        marker: Marker,
    ) -> None:
        self._policy = policy
        self._journal = journal
        self._transfers = transfers
        self._emit = emit
        self._done = done
        self._prober = Prober(self._probe, marker)

    async def decide(self, vertex: Vertex) -> Decision:
        """Apply the requisite table to a vertex, after probing the targets of its prereqs."""
        own = RUN
        if not vertex.links.requisites and not vertex.links.prereq_owners:
            return own
        owner = next((owner for owner in vertex.links.prereq_owners if owner.failed), None)
        blamed = owner is not None and owner.last.outcome is not None and vertex.identity in owner.last.outcome.because
        if vertex.links.requisites and (owner is None or (blamed and not vertex.probe.result)):
            probed = not vertex.links.requisites.keys().isdisjoint(PROBED)
            own = self._table(vertex, await self._prober.ahead(vertex) if probed else {})
        # A failed requisite of the vertex itself comes first: two vertices that name each other would wait forever.
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
        applying = self._policy.applies(vertex) if probing else vertex.run.applying
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
        prevented = applying and outcome.result is None and not self._policy.applies(target)
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
        if spent := self._done.without_run(target):
            return spent
        decision = self._table(target, probes, probing=True)
        if not decision.run:
            return self.not_run(target, decision)
        done = self._done.done(target, decision)
        if done is not None:
            return done
        prepared = self._transfers.prepare(target, real=True, later=partial(_runs_later, target))
        if isinstance(prepared, Outcome):
            return prepared
        job = Job(
            prepared.call, target.ctx, apply=False, received=prepared.values, disabled=self._policy.disabled(target)
        )
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
        comment = COMMENTS[decision.reason].format(because)
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


def _runs_later(vertex: Vertex, upstream: Vertex) -> bool:
    """Return whether this upstream can run only after the probe of a vertex."""
    return upstream.position > vertex.probe_position or not upstream.settled

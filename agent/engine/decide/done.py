"""Actions that are done: the journal records which action or superseded state has run, and with which declaration.

The agent runs such a vertex again only if something gives a reason. One-shot runs repeat actions, as in Salt.
"""

from __future__ import annotations

import hashlib
import time

from holdfast.agent.engine import kinds
from holdfast.agent.engine.decide.requisites import Decision
from holdfast.agent.engine.deliver.deliveries import incoming
from holdfast.agent.engine.deliver.journal import Journal
from holdfast.agent.engine.deliver.transfer import Transfers
from holdfast.agent.engine.model.outcome import Outcome
from holdfast.agent.engine.model.vertex import Vertex
from holdfast.agent.engine.policy import Policy
from holdfast.resources.traits import Reactive
from holdfast.states.requisite_kinds import LISTENING, PROBED, targets_of

CLOCK = 0.05
"""Seconds by which the loop's clock and Unix time may differ when a timer fires."""

NO_TARGETS: frozenset[tuple[Vertex, int]] = frozenset()
"""Shared by all vertices without a prereq: each vertex keeps its `wanted` set, and an empty set takes 216 bytes."""


class Done:
    """The finished actions of one engine."""

    def __init__(self, journal: Journal, transfers: Transfers, policy: Policy) -> None:
        self._journal = journal
        self._transfers = transfers
        self._policy = policy

    def without_run(self, vertex: Vertex) -> Outcome | None:
        """Return the outcome of a vertex that must not run: it has a requisite on nothing, or is spent."""
        if vertex.call.unmet:
            return Outcome.failed(vertex, vertex.call.unmet, vertex.queue.cause)
        return self.spent(vertex)

    def spent(self, vertex: Vertex) -> Outcome | None:
        """Return the outcome of a superseded vertex that has acted for this version of its sequence.

        None: the vertex is to act, or is not superseded.
        """
        if not self._policy.daemon or not vertex.links.successors or forced(vertex):
            return None
        at = self._journal.done_at(vertex.key, digest(vertex))
        if at is None:
            return None
        comment = f"superseded by {vertex.links.successors[-1].identity}; it acted at {_when(at)}"
        return Outcome.skipped(vertex, "superseded", comment, vertex.queue.cause)

    def done(self, vertex: Vertex, decision: Decision) -> Outcome | None:
        """Return the outcome of an action that has already run and has no reason to run again; None: run it."""
        if not self._policy.daemon or not is_action(vertex) or forced(vertex):
            return None
        if self._has_reason(vertex, decision):
            return None
        at = self._journal.done_at(vertex.key, digest(vertex))
        if at is None or _overdue(vertex, at):
            return None
        return Outcome.skipped(vertex, "action", f"already done at {_when(at)}", vertex.queue.cause)

    def _has_reason(self, vertex: Vertex, decision: Decision) -> bool:
        """Return whether a target, a value or the start of the agent is a reason to run an action again."""
        satisfied = vertex.last.satisfied_prereqs
        if decision.delivered and not (satisfied and satisfied == wanted(vertex)):
            return True
        edges = (edge for edge, _ in incoming(vertex) if edge[2] not in LISTENING)
        return (
            any(map(self._journal.pending, edges))
            or self._transfers.changed(vertex)
            or self._transfers.lacks_values(vertex)
            or (vertex.call.meta.rerun == "start" and vertex.last.outcome is None)
        )

    def to_act(self, vertex: Vertex) -> bool:
        """Return whether a superseded vertex is to act, in the current run or in a later one."""
        return bool(vertex.links.successors) and (vertex.queue.force_next or self.spent(vertex) is None)

    def record(self, vertex: Vertex) -> None:
        """Record that a run of the vertex has succeeded, if the journal keeps such a record."""
        if once(vertex):
            self._journal.done(vertex.key, digest(vertex), time.time())

    def until_rerun(self, vertex: Vertex, period: float) -> float:
        """Return the seconds until an action with a period runs again.

        An action that was due but failed or was skipped waits for a whole period.
        """
        done = self._journal.done_at(vertex.key, digest(vertex))
        left = period if done is None else done + period - time.time()
        return left if 0 < left < period else period


def is_action(vertex: Vertex) -> bool:
    """Return whether a vertex cannot tell if it is needed: its kind is an action, and it has no guard."""
    meta = vertex.call.meta
    return kinds.action(vertex.resource) and meta.onlyif is None and meta.unless is None and not meta.creates


def forced(vertex: Vertex) -> bool:
    """Return whether the current run, or else the next one, must execute the action even if it is done.

    A trigger that comes after the start of a run is for the next run. Otherwise, both runs would execute the action.
    """
    return vertex.run.forced if vertex.queue.running else vertex.queue.force_next


def once(vertex: Vertex) -> bool:
    """Return whether the journal records a successful run of a vertex: it is an action, or is superseded."""
    return bool(vertex.links.successors) or is_action(vertex)


def _when(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def wanted(vertex: Vertex) -> frozenset[tuple[Vertex, int]]:
    """Return the targets of a vertex's prereqs, each with its generation.

    By the generations, the vertex does not run again for a target for which it has already run.
    """
    requisites = vertex.links.requisites
    if requisites.keys().isdisjoint(PROBED):
        return NO_TARGETS
    return frozenset((target, target.queue.generation) for target in targets_of(requisites, PROBED))


def _overdue(vertex: Vertex, at: float) -> bool:
    """Return whether an action with a `rerun` period must run again.

    So must one whose last success lies in the future: the system clock was wrong then.
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
    fields = kinds.fields(resource, excluded.union(resource.reaction if isinstance(resource, Reactive) else ()))
    sequence = f" {vertex.call.superseded.version}" if vertex.call.superseded else ""
    return hashlib.sha256(
        f"{vertex.call.kind} {fields}{recv}{vertex.ctx.source_version()}{sequence}".encode()
    ).hexdigest()

"""Deferred deletions: a resource may leave a thing that is deleted at the end of the pass, after its users have run.

A replacement may create the new thing first. The users of the former thing switch to the new one when they run, and
only then can the former one be deleted. Likewise, a resource that is to be absent is deleted after the resources that
refer to it. Such a resource reports that it has left a deletion (`Report.deletes_later`), and runs once more when its
users have run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.agent.engine.decide.marker import Marker
from holdfast.agent.engine.execute.outcomes import Outcomes
from holdfast.agent.engine.model.outcome import WATCHED, Outcome
from holdfast.agent.engine.model.vertex import Vertex
from holdfast.agent.engine.policy import Policy
from holdfast.resources.assignment import Users
from holdfast.resources.traits import Referring
from holdfast.states.requisite_kinds import RECV


def users_of(vertex: Vertex, policy: Policy) -> Users:
    """Return the resources that may use what a run of this one would delete."""
    every = _users(vertex, policy)
    left = [each for each in every if not _has_run(each)] if _deletes_later(vertex) else every
    return Users(_identities(every), _identities(left))


class Deletions:
    """The deferred deletions of one engine."""

    def __init__(self, policy: Policy, marker: Marker, outcomes: Outcomes) -> None:
        self._policy = policy
        self._marker = marker
        self._outcomes = outcomes

    def begin_due(self) -> bool:
        """Mark the vertices whose deletions are due, and record those that a failure of a user prevents.

        Returns whether any was marked. Call this when no vertex runs.
        """
        if not self._outcomes.deleting:
            return False
        waiting = [vertex for vertex in self._outcomes.deleting if vertex.settled and self._policy.marks(vertex)]
        waiting.sort(key=lambda vertex: vertex.position)
        left = {vertex: [each for each in _users(vertex, self._policy) if not _has_run(each)] for vertex in waiting}
        due = [vertex for vertex in waiting if not left[vertex] and _may_try(vertex)]
        for vertex in due:
            cause = vertex.queue.cause
            self._marker.mark(vertex, "recovery" if cause in WATCHED else cause)  # the deletion repairs no drift
        for vertex in () if due else reversed(waiting):
            self._record_blocked(vertex, [each for each in left[vertex] if each.failed])
        return bool(due)

    def _record_blocked(self, vertex: Vertex, failed: Sequence[Vertex]) -> None:
        """Record that a deletion is not made because these users have failed, unless the last outcome is a failure."""
        if failed and not vertex.failed:
            because = _identities(failed)
            comment = f"its deletion is skipped because of {', '.join(because)}"
            outcome = Outcome.skipped(vertex, "requisite_failed", comment, vertex.queue.cause, because=because)
            self._outcomes.record(vertex, outcome._replace(deletes_later=True))


def _users(vertex: Vertex, policy: Policy) -> list[Vertex]:
    """Return the vertices that may use what this one leaves to be deleted.

    After a replacement, these are all vertices that run after it. For an absent resource, these are the vertices that
    refer to it, if they may run, and its requisites that are to be deleted as well.
    """
    below = vertex.links.downstream
    if not isinstance(vertex.resource, Referring) or not vertex.resource.is_absent():
        return [*below]
    referring = [each for each in below if vertex in each.links.requisites.get(RECV, ()) and policy.selects(each)]
    referred = vertex.links.requisites.get(RECV, ())
    return referring + [each for each in vertex.links.upstream if _deletes_later(each) and each not in referred]


def _deletes_later(vertex: Vertex) -> bool:
    return vertex.last.outcome is not None and vertex.last.outcome.deletes_later


def _has_run(vertex: Vertex) -> bool:
    """Return whether a user is as declared: then it no longer uses a thing that is to be deleted."""
    outcome = vertex.last.outcome
    return vertex.settled and outcome is not None and bool(outcome.result) and not outcome.deletes_later


def _may_try(vertex: Vertex) -> bool:
    """Return whether a deletion was not tried yet; one that has failed is tried again by the next check."""
    return not vertex.failed or (vertex.last.outcome is not None and vertex.last.outcome.blocked)


def _identities(vertices: Iterable[Vertex]) -> tuple[str, ...]:
    return tuple([vertex.identity for vertex in vertices])

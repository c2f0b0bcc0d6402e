"""Sequences: several states of one thing, such as a file that exists only while packages are installed.

The file is managed, the packages are installed, and the file is removed. The vertices must run in this order, however
long each of them takes. The order holds from the time when the superseded vertex is to act until the last vertex of
the sequence has run after it. Otherwise, the vertices do not wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from holdfast.agent.engine import kinds
from holdfast.agent.engine.model.vertex import Vertex
from holdfast.resources.contract import Uid


class Sequences:
    """The sequences of one graph."""

    def __init__(self) -> None:
        self._superseded: list[Vertex] = []
        """Superseded vertices, in order of execution."""
        self._begin: Mapping[Vertex, Vertex] = {}
        """Vertex that supersedes others -> the first of these."""

    def __bool__(self) -> bool:
        """Return whether the graph has sequences."""
        return bool(self._superseded)

    def rebuild(self, vertices: Iterable[Vertex]) -> None:
        """Find the sequences of a new graph; `vertices` are in order of execution."""
        self._superseded = [vertex for vertex in vertices if vertex.links.successors]
        self._begin = {
            successor: vertex for vertex in reversed(self._superseded) for successor in vertex.links.successors
        }

    def blocker(self, vertex: Vertex, unsettled: Iterable[Vertex]) -> Vertex | None:
        """Return a vertex of a sequence that keeps `vertex` from starting, or None.

        Of several vertices in between, return the last one, so that `vertex` is rarely queued too early.
        """
        if running := next((each for each in vertex.links.successors if each.queue.running), None):
            return running
        for each in self._superseded:
            if each.position >= vertex.position:
                break
            if vertex.position <= each.links.successors[-1].position and _holds(each):
                return each
        begin = self._begin.get(vertex) if vertex.last.closes else None
        if begin is None:
            return None
        between = (each for each in unsettled if begin.position < each.position < vertex.position and _holds(each))
        return max(between, key=lambda each: each.position, default=None)

    def things(self, vertex: Vertex) -> frozenset[Uid]:
        """Return the uids of the sequences to which a vertex belongs, or within which it lies."""
        around = (
            each for each in self._superseded if each.position <= vertex.position <= each.links.successors[-1].position
        )
        return frozenset(
            uid for each in around for one in (each, *each.links.successors) for uid in kinds.uids(one.resource)
        )


def _holds(vertex: Vertex) -> bool:
    """Return whether other vertices wait for this one: not while it waits for the next of endless attempts."""
    retry = vertex.call.meta.retry
    return not vertex.settled and not (vertex.run.retry_wait is not None and retry is not None and retry.attempts < 0)

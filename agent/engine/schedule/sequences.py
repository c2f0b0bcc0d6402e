"""Who waits for whom in a sequence: a superseded vertex, what stands between, and those that say something else of the same thing.

A file that is managed while packages are installed, and then removed: the installation must not overtake the one, nor the removal overtake
the installation, however long each of them takes. That holds while the earlier vertex is to act, and until the last has run after it;
then each vertex is on its own again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from holdfast.agent.engine.model.graph import Vertex
from holdfast.resources.contract import Uid


class Sequences:
    """The sequences of one graph."""

    def __init__(self) -> None:
        self._superseded: list[Vertex] = []
        """In order of execution."""
        self._begin: Mapping[Vertex, Vertex] = {}
        """Vertex that supersedes others -> the first of those."""

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._superseded)

    def rebuild(self, vertices: Iterable[Vertex]) -> None:
        """There is a new graph."""
        self._superseded = [vertex for vertex in vertices if vertex.successors]
        self._begin = {successor: vertex for vertex in reversed(self._superseded) for successor in vertex.successors}

    def blocker(self, vertex: Vertex, unsettled: Iterable[Vertex]) -> Vertex | None:
        """Who keeps a vertex from starting; of several the last, so that few are asked for again."""
        if running := next((each for each in vertex.successors if each.running), None):
            return running
        for each in self._superseded:
            if each.position >= vertex.position:
                break
            if vertex.position <= each.successors[-1].position and _holds(each):
                return each
        begin = self._begin.get(vertex) if vertex.closes else None
        if begin is None:
            return None
        between = (each for each in unsettled if begin.position < each.position < vertex.position and _holds(each))
        return max(between, key=lambda each: each.position, default=None)

    def things(self, vertex: Vertex) -> frozenset[Uid]:
        """What the sequences are about that a vertex belongs to, or stands in the midst of."""
        around = (each for each in self._superseded if each.position <= vertex.position <= each.successors[-1].position)
        return frozenset(uid for each in around for one in (each, *each.successors) for uid in one.resource.uids())


def _holds(vertex: Vertex) -> bool:
    """Whether others wait for it: not while it waits between attempts that have no end."""
    retry = vertex.call.meta.retry
    return not vertex.settled and not (vertex.rest is not None and retry is not None and retry.attempts < 0)

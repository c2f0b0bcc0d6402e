"""The graph: one vertex for each compiled call.

Edges come from requisites, or are automatic edges. Each edge points forward in the order of execution, which the
compiler has found, so the graph has no cycle.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType

from holdfast.agent.engine.model.edge_keys import Edge, thing
from holdfast.agent.engine.model.vertex import Vertex
from holdfast.resources.contract import acts
from holdfast.states.data import Call
from holdfast.states.requisite_kinds import CARRIES, RECV

Automatic = Mapping[int, tuple[int, ...]]
"""Position of a vertex -> positions of the vertices for which it waits by automatic edges."""


class Graph:
    """All vertices in order of execution, and by identity."""

    def __init__(self, vertices: Sequence[Vertex] = (), automatic: Automatic = MappingProxyType({})) -> None:
        self.vertices = list(vertices)
        self.automatic = automatic
        """The automatic edges, by positions."""
        self.by_identity = {vertex.identity: vertex for vertex in vertices}

    def __iter__(self) -> Iterator[Vertex]:
        """Iterate over the vertices in order of execution."""
        return iter(self.vertices)

    def __len__(self) -> int:
        """Return the number of vertices."""
        return len(self.vertices)


def edges(calls: Sequence[Call]) -> Iterator[Edge]:
    """Return each edge that carries changes or failures, by identities. `calls` are in order of execution."""
    for call in calls:
        for kind, targets in call.requisites.items():
            if kind in CARRIES:
                for target in targets:
                    yield calls[target].identity, call.identity, CARRIES[kind]


def remembered(calls: Sequence[Call]) -> dict[str, str]:
    """Return identity -> thing of the calls that the journal remembers.

    These are actions, superseded states, and the ends of edges that carry changes, failures or values.
    """
    found: dict[str, str] = {}
    for call in calls:
        carriers = [targets for kind, targets in call.requisites.items() if kind in CARRIES or kind == RECV]
        if carriers or call.superseded or acts(call.resource):
            for each in (call, *(calls[target] for targets in carriers for target in targets)):
                if each.identity not in found:
                    found[each.identity] = thing(each.kind, each.resource.name)
    return found


def others(calls: Sequence[Call], known: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Return (identity, thing) of all calls that are not in `known`."""
    return ((call.identity, thing(call.kind, call.resource.name)) for call in calls if call.identity not in known)


def same_to_remember(vertices: Sequence[Vertex], calls: Sequence[Call]) -> bool:
    """Return whether `edges`, `remembered` and `others` are equal for these calls and for those of the vertices."""
    return len(vertices) == len(calls) and all(map(_same_to_remember, vertices, calls))


def _same_to_remember(vertex: Vertex, new: Call) -> bool:
    old = vertex.call
    if old is new:
        return True
    one, other = old.resource, new.resource
    same = old.identity == new.identity and one.name == other.name and old.requisites == new.requisites
    return same and (one is other or acts(one) == acts(other))


def blames_others(vertex: Vertex) -> bool:
    """Return whether the vertex did not run because of a resource that it no longer depends on."""
    if vertex.last.outcome is None or not vertex.last.outcome.because:
        return False
    near = {
        each.identity
        for each in (*vertex.links.upstream, *vertex.links.prereq_owners, *chain(*vertex.links.requisites.values()))
    }
    return not near.issuperset(vertex.last.outcome.because)

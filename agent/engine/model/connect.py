"""Connects vertices into a graph: as a whole, or by replacing some vertices of a graph that keeps its edges.

Replacing costs time for the replaced vertices and their neighbours only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import TypeVar

from holdfast.agent.engine.model.graph import NONE, Automatic, Graph, Requisites, Vertex
from holdfast.states.data import Call
from holdfast.states.requisite_kinds import CARRIES, EARLIER, PROBED, targets_of


def tied_alike(graph: Graph, vertices: Sequence[Vertex], calls: Sequence[Call], automatic: Automatic) -> bool:
    """Return whether these vertices would have the edges of `graph`: then `exchange` can install the new ones.

    Each vertex must be the one at its position in `graph`, or not be in it. Call this before the vertices get these
    calls. Returns False if several states declare one thing: only `connect` sets their successors.
    """
    if len(vertices) != len(graph.vertices) or automatic != graph.automatic:
        return False
    known = {*graph.vertices}
    return all(
        (vertex is old or vertex not in known)
        and call.superseded is None is old.call.superseded
        and (old.call is call or old.call.requisites == call.requisites)
        for vertex, old, call in zip(vertices, graph.vertices, calls, strict=True)
    )


def exchange(graph: Graph, vertices: Sequence[Vertex]) -> Graph:
    """Return `graph` with these vertices in its positions, after `tied_alike` was true.

    Sets the edges of new vertices and of their neighbours; all others stay as they are.
    """
    exchanged = {old: new for old, new in zip(graph, vertices, strict=True) if old is not new}
    for old, new in exchanged.items():
        _tie(new, old, exchanged)
    for each in {near for old in exchanged for near in _near(old)} - exchanged.keys():
        _tie(each, each, exchanged)
    return Graph(vertices, graph.automatic)


def _near(vertex: Vertex) -> Iterable[Vertex]:
    """Return all vertices at the edges of a vertex."""
    subscribers = (each for each, _ in vertex.subscribers)
    return chain(vertex.upstream, vertex.downstream, vertex.prereq_owners, subscribers, *vertex.requisites.values())


def _tie(vertex: Vertex, old: Vertex, exchanged: Mapping[Vertex, Vertex]) -> None:
    """Give `vertex` the edges of `old`; `exchanged` maps replaced vertices at the other ends to new ones."""

    def current(vertices: Iterable[Vertex]) -> tuple[Vertex, ...]:
        return tuple([exchanged.get(each, each) for each in vertices])

    vertex.requisites = {kind: current(targets) for kind, targets in old.requisites.items()} or NONE
    vertex.upstream, vertex.downstream = current(old.upstream), current(old.downstream)
    vertex.auto = current(old.auto)
    vertex.subscribers = tuple([(exchanged.get(each, each), name) for each, name in old.subscribers])
    vertex.prereq_owners, vertex.probe_position = current(old.prereq_owners), old.probe_position


def connect(vertices: Sequence[Vertex], automatic: Automatic = MappingProxyType({})) -> Graph:
    """Make a graph of vertices in order of execution, from the requisites of their calls and the automatic edges.

    A vertex with a prereq probes its target before the target runs, so it also waits for what the target waits for.
    """
    above: list[dict[Vertex, None]] = [{} for _ in vertices]
    below: list[list[Vertex]] = [[] for _ in vertices]
    subscribers: dict[Vertex, dict[tuple[Vertex, str], None]] = {}
    prereq_owners: dict[Vertex, list[Vertex]] = {}
    for vertex, before in zip(vertices, above, strict=True):
        given = vertex.call.requisites
        requisites = (
            {kind: tuple([vertices[i] for i in targets]) for kind, targets in given.items() if targets}
            if given
            else NONE
        )
        vertex.requisites = _unless_equal(vertex.requisites, requisites)
        for kind, targets in requisites.items():
            for target in targets if kind in CARRIES else ():
                subscribers.setdefault(target, {})[vertex, CARRIES[kind]] = None
            for target in targets if kind in PROBED else ():
                prereq_owners.setdefault(target, []).append(vertex)
            if kind in EARLIER:
                before.update(dict.fromkeys(targets))
        waits_for = automatic.get(vertex.call.position) if automatic else None
        vertex.auto = _unless_equal(vertex.auto, tuple([vertices[i] for i in waits_for])) if waits_for else ()
        before.update(dict.fromkeys(vertex.auto))
    _put_owners_first(vertices, above, prereq_owners)
    for vertex, before in zip(vertices, above, strict=True):
        for target in before:
            below[target.call.position].append(vertex)
    for vertex, before, after in zip(vertices, above, below, strict=True):
        upstream = tuple(before)
        vertex.upstream = vertex.auto if upstream == vertex.auto else _unless_equal(vertex.upstream, upstream)
        vertex.downstream = _unless_equal(vertex.downstream, tuple(after))
        vertex.subscribers = _unless_equal(vertex.subscribers, tuple(subscribers.get(vertex, ())))
        vertex.prereq_owners = tuple(prereq_owners.get(vertex, ()))
        later = vertex.call.superseded
        vertex.successors = _unless_equal(vertex.successors, tuple([vertices[i] for i in later.by])) if later else ()
        vertex.probe_position = min(
            [owner.probe_position for owner in vertex.prereq_owners], default=vertex.call.position
        )
    return Graph(vertices, automatic)


def _put_owners_first(
    vertices: Sequence[Vertex], above: list[dict[Vertex, None]], prereq_owners: Mapping[Vertex, Sequence[Vertex]]
) -> None:
    """Put each vertex with a prereq before its target, and after what the target waits for."""
    for target, owners in prereq_owners.items():
        above[target.position].update(dict.fromkeys(owners))
    for owner in reversed(vertices) if prereq_owners else ():
        for target in targets_of(owner.requisites, PROBED):
            above[owner.position].update((up, None) for up in above[target.position] if up.position < owner.position)


Kept = TypeVar("Kept")


def _unless_equal(old: Kept, new: Kept) -> Kept:
    """Return the old object if it is equal: the garbage collector need not scan an old object again."""
    return old if old == new else new


def same_shape(one: Requisites, other: Requisites) -> bool:
    """Return whether requisites name the same targets: only then is the state of a vertex valid in a new graph."""
    if one is other or one == other:
        return True  # mostly the same objects
    return {kind: [target.identity for target in targets] for kind, targets in one.items()} == {
        kind: [target.identity for target in targets] for kind, targets in other.items()
    }

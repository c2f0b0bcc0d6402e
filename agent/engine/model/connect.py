"""Ties vertices together to a graph: anew, or by an exchange of some of its vertices for others that stand to the rest as those did."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import TypeVar

from holdfast.agent.engine.model.graph import CARRIES, NONE, Automatic, Graph, Requisites, Vertex
from holdfast.states.data import Call


def tied_alike(graph: Graph, vertices: Sequence[Vertex], calls: Sequence[Call], automatic: Automatic) -> bool:
    """Whether vertices with these calls are tied to each other as those of a graph: each is the one in its place there, or is new to it.

    To be asked before the vertices have these calls. Several states of one thing are always tied together anew.
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
    """The graph with these vertices, which stand to each other as its own do: those that are new, and their neighbours, are all that is touched."""
    exchanged = {old: new for old, new in zip(graph, vertices, strict=True) if old is not new}
    for old, new in exchanged.items():
        _tie(new, old, exchanged)
    for each in {near for old in exchanged for near in _near(old)} - exchanged.keys():
        _tie(each, each, exchanged)
    return Graph(vertices, graph.automatic)


def _near(vertex: Vertex) -> Iterable[Vertex]:
    """All that are tied to a vertex."""
    told = (who for who, _ in vertex.subscribers)
    return chain(vertex.upstream, vertex.downstream, vertex.prereq_owners, told, *vertex.requisites.values())


def _tie(vertex: Vertex, old: Vertex, exchanged: Mapping[Vertex, Vertex]) -> None:
    """Tie a vertex to what the old one was tied to, or to what has taken its place."""

    def now(several: Iterable[Vertex]) -> tuple[Vertex, ...]:
        return tuple([exchanged.get(each, each) for each in several])

    vertex.requisites = {kind: now(targets) for kind, targets in old.requisites.items()} or NONE
    vertex.upstream, vertex.downstream, vertex.auto = now(old.upstream), now(old.downstream), now(old.auto)
    vertex.subscribers = tuple([(exchanged.get(who, who), name) for who, name in old.subscribers])
    vertex.prereq_owners, vertex.probe_position = now(old.prereq_owners), old.probe_position


def connect(vertices: Sequence[Vertex], automatic: Automatic = MappingProxyType({})) -> Graph:
    """Make the graph of vertices that stand in order of execution, from the requisites of their calls and from automatic edges.

    One with a prereq looks at its target before the target's own turn: so it also waits for what comes before that.
    """
    above: list[dict[Vertex, None]] = [{} for _ in vertices]
    below: list[list[Vertex]] = [[] for _ in vertices]
    notify: dict[Vertex, dict[tuple[Vertex, str], None]] = {}
    prerequired: dict[Vertex, list[Vertex]] = {}
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
                notify.setdefault(target, {})[vertex, CARRIES[kind]] = None
            for target in targets if kind == "prereq" else ():
                prerequired.setdefault(target, []).append(vertex)
            if kind not in ("prereq", "listen"):
                before.update(dict.fromkeys(targets))
        waits_for = automatic.get(vertex.call.position) if automatic else None
        vertex.auto = _unless_equal(vertex.auto, tuple([vertices[i] for i in waits_for])) if waits_for else ()
        before.update(dict.fromkeys(vertex.auto))
    _look_ahead(vertices, above, prerequired)
    for vertex, before in zip(vertices, above, strict=True):
        for target in before:
            below[target.call.position].append(vertex)
    for vertex, before, after in zip(vertices, above, below, strict=True):
        upstream = tuple(before)
        vertex.upstream = vertex.auto if upstream == vertex.auto else _unless_equal(vertex.upstream, upstream)
        vertex.downstream = _unless_equal(vertex.downstream, tuple(after))
        vertex.subscribers = _unless_equal(vertex.subscribers, tuple(notify.get(vertex, ())))
        vertex.prereq_owners = tuple(prerequired.get(vertex, ()))
        later = vertex.call.superseded
        vertex.successors = _unless_equal(vertex.successors, tuple([vertices[i] for i in later.by])) if later else ()
        vertex.probe_position = min(
            [owner.probe_position for owner in vertex.prereq_owners], default=vertex.call.position
        )
    return Graph(vertices, automatic)


def _look_ahead(
    vertices: Sequence[Vertex], above: list[dict[Vertex, None]], prerequired: Mapping[Vertex, Sequence[Vertex]]
) -> None:
    """One with a prereq comes before its target, and after what comes before that."""
    for target, owners in prerequired.items():
        above[target.position].update(dict.fromkeys(owners))
    for owner in reversed(vertices) if prerequired else ():
        for target in owner.requisites.get("prereq", ()):
            above[owner.position].update((up, None) for up in above[target.position] if up.position < owner.position)


Kept = TypeVar("Kept")


def _unless_equal(old: Kept, new: Kept) -> Kept:
    """The old one where it is equal: what lives long already costs the garbage collector nothing."""
    return old if old == new else new


def same_shape(one: Requisites, other: Requisites) -> bool:
    """Whether requisites name the same: what must be so for the past of a vertex to count in a new graph."""
    if one is other or one == other:
        return True  # the very same vertices, as mostly
    return {kind: [target.identity for target in targets] for kind, targets in one.items()} == {
        kind: [target.identity for target in targets] for kind, targets in other.items()
    }

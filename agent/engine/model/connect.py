"""Connects vertices into a graph: as a whole, or by replacing some vertices of a graph that keeps its edges.

Replacing costs time for the replaced vertices and their neighbours only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from types import MappingProxyType

from holdfast.agent.engine.model.graph import Automatic, Graph
from holdfast.agent.engine.model.vertex import NO_LINKS, NONE, Links, Requisites, Vertex
from holdfast.states.data import Call
from holdfast.states.requisite_kinds import CARRIES, EARLIER, PROBED, targets_of


def same_edges(graph: Graph, vertices: Sequence[Vertex], calls: Sequence[Call], automatic: Automatic) -> bool:
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
    """Return `graph` with these vertices in its positions, after `same_edges` was true.

    Sets the edges of new vertices and of their neighbours; all others stay as they are.
    """
    exchanged = {old: new for old, new in zip(graph, vertices, strict=True) if old is not new}
    concerned = {each: each.links for each in {near for old in exchanged for near in _near(old)} - exchanged.keys()}
    concerned |= {new: old.links for old, new in exchanged.items()}
    replaced: dict[int, Links] = {}
    """Edges, by the `id` of the edges that they replace: vertices that shared one object share its replacement."""
    for vertex, links in concerned.items():
        if id(links) not in replaced:
            replaced[id(links)] = _exchanged_links(links, exchanged)
        vertex.links = replaced[id(links)]
    return Graph(vertices, graph.automatic)


def _near(vertex: Vertex) -> Iterable[Vertex]:
    """Return all vertices at the edges of a vertex."""
    links = vertex.links
    subscribers = (each for each, _ in links.subscribers)
    return chain(links.upstream, links.downstream, links.prereq_owners, subscribers, *links.requisites.values())


def _exchanged_links(links: Links, exchanged: Mapping[Vertex, Vertex]) -> Links:
    """Return these edges between other vertices: `exchanged` maps replaced vertices to new ones."""

    def current(vertices: Iterable[Vertex]) -> tuple[Vertex, ...]:
        return tuple([exchanged.get(each, each) for each in vertices])

    return Links(
        requisites={kind: current(targets) for kind, targets in links.requisites.items()} or NONE,
        upstream=current(links.upstream),
        downstream=current(links.downstream),
        auto=current(links.auto),
        subscribers=tuple([(exchanged.get(each, each), name) for each, name in links.subscribers]),
        prereq_owners=current(links.prereq_owners),
        first_probe=links.first_probe,
    )


def connect(vertices: Sequence[Vertex], automatic: Automatic = MappingProxyType({})) -> Graph:
    """Make a graph of vertices in order of execution, from the requisites of their calls and the automatic edges.

    A vertex with a prereq probes its target before the target runs, so it also waits for what the target waits for.
    """
    calls = [vertex.call for vertex in vertices]
    subscribers, owners = _dependents(calls)
    above = _above(calls, automatic, owners)
    below: list[list[int]] = [[] for _ in calls]
    for place, before in enumerate(above):
        for target in before:
            below[target].append(place)
    first: dict[int, int] = {}
    previous = NO_LINKS

    def at(places: Iterable[int]) -> tuple[Vertex, ...]:
        return tuple([vertices[place] for place in places])

    for place, vertex in enumerate(vertices):
        call = vertex.call
        probers = owners.get(place, ())
        if probers:
            first[place] = min([first.get(owner, owner) for owner in probers])
        auto, upstream = at(automatic.get(place, ())), at(above[place])
        links = Links(
            {kind: at(targets) for kind, targets in call.requisites.items() if targets} or NONE,
            auto if upstream == auto else upstream,
            at(below[place]),
            auto,
            tuple([(vertices[each], kind) for each, kind in subscribers.get(place, ())]),
            at(probers),
            at(call.superseded.by) if call.superseded else (),
            first.get(place),
        )
        # Neighbours, such as the files of one directory, often have equal edges: they share one object.
        previous = vertex.links = previous if links == previous else _as_before(vertex.links, links)
    return Graph(vertices, automatic)


def _dependents(
    calls: Sequence[Call],
) -> tuple[Mapping[int, Iterable[tuple[int, str]]], Mapping[int, list[int]]]:
    """Return position -> its subscribers, and position -> its prereq owners, for each that has some."""
    subscribers: dict[int, dict[tuple[int, str], None]] = {}
    owners: dict[int, list[int]] = {}
    for place, call in enumerate(calls):
        for kind, targets in call.requisites.items():
            for target in targets if kind in CARRIES else ():
                subscribers.setdefault(target, {})[place, CARRIES[kind]] = None
            for target in targets if kind in PROBED else ():
                owners.setdefault(target, []).append(place)
    return subscribers, owners


def _above(calls: Sequence[Call], automatic: Automatic, owners: Mapping[int, Sequence[int]]) -> list[dict[int, None]]:
    """Return for each position those that must be settled before its vertex may start.

    A vertex with a prereq comes before its target, and after what the target waits for.
    """
    above: list[dict[int, None]] = []
    for place, call in enumerate(calls):
        before: dict[int, None] = {}
        for kind, targets in call.requisites.items():
            if kind in EARLIER:
                before.update(dict.fromkeys(targets))
        before.update(dict.fromkeys(automatic.get(place, ())))
        above.append(before)
    for target, places in owners.items():
        above[target].update(dict.fromkeys(places))
    for place in range(len(calls) - 1, -1, -1) if owners else ():
        for target in targets_of(calls[place].requisites, PROBED):
            above[place].update((up, None) for up in above[target] if up < place)
    return above


def _as_before(old: Links, new: Links) -> Links:
    """Return `new` with the objects of `old` that are equal: the garbage collector need not scan these again."""
    return (
        old
        if old == new
        else Links._make([one if one == other else other for one, other in zip(old, new, strict=True)])
    )


def same_shape(one: Requisites, other: Requisites) -> bool:
    """Return whether requisites name the same targets: only then is the state of a vertex valid in a new graph."""
    if one is other or one == other:
        return True  # mostly the same objects
    return {kind: [target.identity for target in targets] for kind, targets in one.items()} == {
        kind: [target.identity for target in targets] for kind, targets in other.items()
    }

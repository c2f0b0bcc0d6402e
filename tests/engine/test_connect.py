"""Exchanging vertices of a graph connects it like a new one, at a cost in proportion to the exchange."""

from __future__ import annotations

import gc
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from effort import effort
from engine_bench import Bench, compilation, state
from holdfast.agent.engine.model.connect import connect, exchange, same_edges
from holdfast.agent.engine.model.graph import Graph
from holdfast.agent.engine.model.vertex import Vertex
from holdfast.states.requisite_kinds import PROBED, REQUISITES

SIZE = 8


def vertices(requisites: list[list[tuple[str, int]]]) -> list[Vertex]:
    """Return one vertex for each list of requisites, which name earlier vertices; `prereq` names later ones."""
    states = []
    for position, wanted in enumerate(requisites):
        found: dict[str, list[str]] = {}
        for kind, other in wanted:
            there = position + 1 + other if kind in PROBED else other
            if there < (len(requisites) if kind in PROBED else position):
                found.setdefault(kind, []).append(f"s{there}")
        states.append(state(f"s{position}", **{kind: list(dict.fromkeys(names)) for kind, names in found.items()}))
    return [Vertex(call, None) for call in compilation(*states).calls]  # type: ignore[arg-type]  # needs no context


def shape(graph: Graph) -> list[Any]:
    """Return all edges, by positions."""

    def places(several: Any) -> list[int]:
        return [each.position for each in several]

    return [
        (
            {kind: places(targets) for kind, targets in each.links.requisites.items()},
            places(each.links.upstream),
            sorted(places(each.links.downstream)),
            places(each.links.auto),
            sorted((who.position, name) for who, name in each.links.subscribers),
            places(each.links.prereq_owners),
            each.probe_position,
        )
        for each in graph
    ]


GIVEN = st.lists(st.tuples(st.sampled_from(REQUISITES), st.integers(0, SIZE)), max_size=4)


@given(
    st.lists(GIVEN, min_size=SIZE, max_size=SIZE),
    st.sets(st.integers(0, SIZE - 1)),
    st.dictionaries(st.integers(1, SIZE - 1), st.just((0,)), max_size=3),
)
def test_an_exchange_connects_as_a_new_graph_does(
    wanted: list[Any], which: set[int], automatic: dict[int, tuple[int, ...]]
) -> None:
    """For all requisites and new vertices, no edge leads to an old vertex."""
    graph = connect(vertices(wanted), automatic)
    before = shape(graph)
    new = [Vertex(each.call, each.ctx) if each.position in which else each for each in graph]
    assert same_edges(graph, new, [each.call for each in graph], automatic)
    exchanged = exchange(graph, new)

    assert shape(exchanged) == before
    assert exchanged.vertices == new
    tied = {
        near
        for each in new
        for near in (*each.links.upstream, *each.links.downstream, *each.links.auto, *each.links.prereq_owners)
    }
    tied |= {near for each in new for targets in each.links.requisites.values() for near in targets} | {
        who for each in new for who, _ in each.links.subscribers
    }
    assert tied <= set(new)
    assert all(exchanged.by_identity[each.identity] is each for each in new)


def test_other_edges_are_no_exchange() -> None:
    """Another requisite, automatic edge or order, or one more vertex, needs a new graph."""
    graph = connect(vertices([[], [("require", 0)], []]))
    same, calls = graph.vertices, [each.call for each in graph]
    assert same_edges(graph, same, calls, {})
    assert not same_edges(graph, same, [each.call for each in vertices([[], [], []])], {})
    assert not same_edges(graph, same, calls, {2: (0,)})
    assert not same_edges(graph, same[:2], calls[:2], {})
    assert not same_edges(graph, [same[2], same[1], same[0]], calls, {})


def test_an_exchange_costs_what_was_exchanged(bench: Bench) -> None:
    """One of two thousand vertices that require each other takes less than a third of connecting all."""
    assert bench
    graph = connect(vertices([[("require", position - 1)] if position else [] for position in range(2000)]))
    new = [*graph.vertices]
    new[1000] = Vertex(new[1000].call, new[1000].ctx)
    assert effort(lambda: exchange(graph, new), 0.33, than=lambda: connect(graph.vertices)) < 0.33


async def test_the_garbage_collector_is_paused_during_a_swap(bench: Bench) -> None:
    """The new objects live long, so collections during the swap would find nothing."""
    engine, states = bench.engine(), compilation(*[state(f"s{number}") for number in range(3000)])
    before = sum(each["collections"] for each in gc.get_stats())
    await engine.swap(states)
    collections = sum(each["collections"] for each in gc.get_stats()) - before
    await engine.stop(0)
    assert collections < 15

"""The layout of the graph: no overlaps, edges between the right boxes, good order, and limited time."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from effort import effort
from holdfast.agent.pictures.layout import Layout, _rising, layout

SIZE = (100.0, 30.0)


def drawn(count: int, edges: list[tuple[int, int]]) -> Layout:
    """Lay out this many nodes of equal size."""
    return layout(dict.fromkeys(range(count), SIZE), edges)


def overlapping(found: Layout) -> list[tuple[object, object]]:
    """Return pairs of boxes that overlap."""
    boxes = sorted(found.boxes.items(), key=lambda item: item[1].x)
    pairs = []
    for place, (key, box) in enumerate(boxes):
        for other, beside in boxes[place + 1 :]:
            if beside.x >= box.x + box.width:
                break
            if abs(beside.y - box.y) < (beside.height + box.height) / 2 - 0.01:
                pairs.append((key, other))
    return pairs


EDGES = st.integers(1, 25).flatmap(
    lambda count: st.tuples(
        st.just(count), st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=60)
    )
)


@given(EDGES)
def test_any_graph_is_drawn_completely(given_graph: tuple[int, list[tuple[int, int]]]) -> None:
    """Each node is drawn once, within the picture, without overlap; each edge connects its two nodes."""
    count, edges = given_graph
    found = drawn(count, edges)

    assert sorted(found.boxes) == list(range(count))
    assert overlapping(found) == []
    assert all(box.x >= 0 and box.x + box.width <= found.width + 0.01 for box in found.boxes.values())
    assert all(
        box.y - box.height / 2 + 0.01 >= 0 and box.y + box.height / 2 <= found.height + 0.01
        for box in found.boxes.values()
    )
    assert set(found.paths) == {(before, after) for before, after in edges if before != after}
    for (before, after), points in found.paths.items():
        ends = {(found.boxes[key].x, found.boxes[key].y) for key in (before, after)}
        starts = {(box.x + box.width, box.y) for box in (found.boxes[before], found.boxes[after])}
        assert {points[0], points[-1]} <= ends | starts


def test_layers_follow_the_longest_path() -> None:
    """A resource is drawn to the right of all resources that it waits for."""
    found = drawn(4, [(0, 1), (1, 2), (0, 2), (2, 3)])

    assert [found.boxes[key].x for key in range(4)] == [0.0, 170.0, 340.0, 510.0]


def test_a_node_with_one_dependent_is_next_to_it() -> None:
    """The node is not at the far left, with an edge through the whole picture."""
    found = drawn(5, [(0, 1), (1, 2), (3, 4), (2, 4)])

    assert found.boxes[3].x == found.boxes[2].x


def test_a_long_edge_avoids_boxes() -> None:
    """The edge passes through no box."""
    found = drawn(3, [(0, 1), (1, 2), (0, 2)])
    middle, points = found.boxes[1], found.paths[0, 2]

    inside = [y for x, y in points if middle.x <= x <= middle.x + middle.width]
    assert inside
    assert all(abs(y - middle.y) > middle.height / 2 for y in inside)


def test_avoidable_crossings_are_removed() -> None:
    """The order within one layer follows that of the next."""
    found = drawn(8, [(0, 7), (1, 6), (2, 5), (3, 4), (0, 6), (1, 5), (2, 4)])
    left = sorted(range(4), key=lambda key: found.boxes[key].y)
    right = sorted(range(4, 8), key=lambda key: found.boxes[key].y)

    assert right in ([7 - key for key in left], [7 - key for key in left])


def test_an_edge_that_points_back_is_drawn_from_right_to_left() -> None:
    """Such an edge belongs to a listener that comes before its target."""
    found = drawn(2, [(1, 0)])

    assert found.boxes[0].x < found.boxes[1].x
    assert found.paths[1, 0][0][0] > found.paths[1, 0][-1][0]


def test_unconnected_nodes_fill_a_block() -> None:
    """They are not one long row."""
    found = drawn(100, [])

    assert overlapping(found) == []
    assert found.width < 1500
    assert found.height < 1500


@given(st.lists(st.floats(-100, 100)))
def test_the_nearest_monotonic_values(values: list[float]) -> None:
    """They keep the mean; values that already rise are not changed."""
    risen = _rising(values)

    assert all(before <= after + 1e-9 for before, after in pairwise(risen))
    assert sum(risen) == pytest.approx(sum(values), abs=1e-6)
    assert _rising(sorted(values)) == pytest.approx(sorted(values))


@pytest.mark.parametrize("shape", ["tree", "wide", "chain", "fan", "full"])
def test_a_thousand_nodes_take_little_time_whatever_their_shape(shape: str) -> None:
    """Half a second on an idle machine.

    A complete graph of three hundred nodes, whose edges would bend a million times, is limited, too.
    """
    draw = random.Random(1)
    edges = {
        "tree": [(draw.randrange(max(0, key - 10), key), key) for key in range(1, 1000)],
        "wide": [(draw.randrange(key), key) for key in range(1, 1000) for _ in range(3)],
        "chain": [(key - 1, key) for key in range(1, 1000)],
        "fan": [(0, key) for key in range(1, 1000)],
        "full": [(before, after) for after in range(300) for before in range(after)],
    }[shape]

    assert effort(lambda: drawn(1000, edges), 80) < 80
    assert overlapping(drawn(1000, edges)) == []

"""A layered layout of a graph without cycles, from left to right, after Sugiyama, Tagawa and Toda.

Each group of connected nodes is laid out separately, and the groups are stacked; unconnected nodes fill a separate
block. Within a group, the layer of a node follows from its longest path, and an edge over several layers gets a bend in
each. The order within each layer is found by barycentre sweeps: the order with the fewest crossings is used.
Coordinates are the means of the neighbours, kept in order and apart by isotonic regression. A thousand nodes take about
a second.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

SWEEPS = 8
"""Sweeps for a better order."""
SETTLE = 6
"""Sweeps for better coordinates."""
THREADS = 6000
"""Most bends of long edges in one group; the longest edges beyond that are drawn straight."""
GAP, LAYER_GAP, GROUP_GAP = 12.0, 70.0, 34.0
"""Points between two nodes of a layer, two layers, two groups."""
THREAD = 6.0
"""Height of an edge where it passes a layer."""

Key = Hashable


class Box(NamedTuple):
    """The place of a node: its left edge, its middle line, its size."""

    x: float
    y: float
    width: float
    height: float


@dataclass(slots=True)
class Layout:
    """The places of all nodes and edges, in points; the origin is at the upper left."""

    boxes: dict[Key, Box] = field(default_factory=dict)
    paths: dict[tuple[Key, Key], list[tuple[float, float]]] = field(default_factory=dict)
    """Edge -> the points it passes, from the right edge of the first node to the left edge of the second; reversed for
    back edges."""
    width: float = 0.0
    height: float = 0.0


def layout(sizes: Mapping[Key, tuple[float, float]], edges: Iterable[tuple[Key, Key]]) -> Layout:
    """Lay out nodes of these sizes (width, height), given in reading order.

    Edges that point back lead from right to left.
    """
    place = {key: number for number, key in enumerate(sizes)}
    given = set(edges)
    backward = {pair for pair in given if place[pair[0]] > place[pair[1]]}
    forward = {pair for pair in given if place[pair[0]] < place[pair[1]]} | {
        (after, before) for before, after in backward
    }
    pairs = sorted(forward, key=lambda pair: (place[pair[0]], place[pair[1]]))
    found, alone = Layout(), []
    for group in _groups(sizes, pairs):
        if len(group) == 1:
            alone.append(group[0])
            continue
        inside = set(group)
        _put(found, _Group(sizes, group, [pair for pair in pairs if pair[0] in inside]).laid_out())
    _put(found, _block(sizes, alone, found.width))
    found.paths.update({(before, after): found.paths[after, before][::-1] for before, after in backward})
    found.paths = {pair: points for pair, points in found.paths.items() if pair in given}
    return found


def _groups(keys: Iterable[Key], pairs: Iterable[tuple[Key, Key]]) -> list[list[Key]]:
    """Return groups of keys that edges connect, each in the order of the keys."""
    leader = {key: key for key in keys}

    def find(key: Key) -> Key:
        while leader[key] != key:
            leader[key] = leader[leader[key]]
            key = leader[key]
        return key

    for before, after in pairs:
        leader[find(after)] = find(before)
    groups: dict[Key, list[Key]] = {}
    for key in leader:
        groups.setdefault(find(key), []).append(key)
    return list(groups.values())


def _put(whole: Layout, part: Layout) -> None:
    """Stack a part below the existing layout."""
    if not part.boxes:
        return
    down = whole.height + GROUP_GAP if whole.boxes else 0.0
    whole.boxes.update({key: box._replace(y=box.y + down) for key, box in part.boxes.items()})
    whole.paths.update({pair: [(x, y + down) for x, y in points] for pair, points in part.paths.items()})
    whole.width, whole.height = max(whole.width, part.width), down + part.height


def _block(sizes: Mapping[Key, tuple[float, float]], keys: Sequence[Key], width: float) -> Layout:
    """Return unconnected nodes in rows as wide as the rest, or in a block that is approximately square."""
    found = Layout()
    if not keys:
        return found
    column = max(sizes[key][0] for key in keys) + GAP
    row = max(sizes[key][1] for key in keys) + GAP
    across = max(1, int(width // column), round((len(keys) * row / column) ** 0.5))
    for number, key in enumerate(keys):
        found.boxes[key] = Box(number % across * column, number // across * row + row / 2, *sizes[key])
    found.width, found.height = min(across, len(keys)) * column - GAP, -(-len(keys) // across) * row
    return found


class _Group:
    """One connected group during its layout. Where an edge passes a layer, its key is a tuple (edge, layer)."""

    def __init__(
        self, sizes: Mapping[Key, tuple[float, float]], keys: Sequence[Key], pairs: Sequence[tuple[Key, Key]]
    ) -> None:
        self._sizes = sizes
        self._keys = keys
        self._pairs = pairs
        self._layer: dict[Key, int] = dict.fromkeys(keys, 0)
        for before, after in pairs:  # sorted by `before`, whose layer is known when its turn comes
            self._layer[after] = max(self._layer[after], self._layer[before] + 1)
        self._pull_right()
        self._rows: list[list[Key]] = [[] for _ in range(max(self._layer.values()) + 1)]
        for key in keys:
            self._rows[self._layer[key]].append(key)
        self._chains: dict[tuple[Key, Key], list[Key]] = {}
        self._left: dict[Key, list[Key]] = {}
        self._right: dict[Key, list[Key]] = {}
        self._thread()
        self._y: dict[Key, float] = {}

    def laid_out(self) -> Layout:
        """Return the layout of the group alone."""
        self._order()
        self._place()
        left, widths = [0.0], [max((self._width(key) for key in row), default=0.0) for row in self._rows]
        for width in widths:
            left.append(left[-1] + width + LAYER_GAP)
        top = min(self._y[key] - self._height(key) / 2 for row in self._rows for key in row)
        found = Layout(width=left[-1] - LAYER_GAP)
        for key in self._keys:
            found.boxes[key] = Box(left[self._layer[key]], self._y[key] - top, *self._sizes[key])
        for pair, chain in self._chains.items():
            found.paths[pair] = self._path(pair, chain, left, widths, top)
        found.height = max(self._y[key] + self._height(key) / 2 for row in self._rows for key in row) - top
        return found

    def _path(
        self, pair: tuple[Key, Key], chain: list[Key], left: list[float], widths: list[float], top: float
    ) -> list[tuple[float, float]]:
        start = left[self._layer[pair[0]]] + self._sizes[pair[0]][0]
        points = [(start, self._y[pair[0]] - top)]
        column = left[self._layer[pair[0]]] + widths[self._layer[pair[0]]]
        points += [(column, points[0][1])] if column > start else []
        for key in chain:
            where, y = self._layer[key], self._y[key] - top
            points += [(left[where], y), (left[where] + widths[where], y)]
        return [*points, (left[self._layer[pair[1]]], self._y[pair[1]] - top)]

    def _pull_right(self) -> None:
        """Move nodes without predecessors directly before the first node that waits for them."""
        after: dict[Key, int] = {}
        waits = {pair[1] for pair in self._pairs}
        for before, below in self._pairs:
            after[before] = min(after.get(before, self._layer[below]), self._layer[below])
        for key, layer in after.items():
            if key not in waits:
                self._layer[key] = layer - 1

    def _thread(self) -> None:
        """Insert edges into the layers that they pass, short edges first, and record neighbours."""
        threads = 0
        for pair in sorted(self._pairs, key=lambda pair: self._layer[pair[1]] - self._layer[pair[0]]):
            first, last = self._layer[pair[0]], self._layer[pair[1]]
            threads += last - first - 1
            chain: list[Key] = [(pair, layer) for layer in range(first + 1, last)] if threads <= THREADS else []
            self._chains[pair] = chain
            for key in chain:
                assert isinstance(key, tuple)  # noqa: S101 - for the type checker
                self._layer[key] = key[1]
                self._rows[key[1]].append(key)
            if chain or last - first == 1:
                hops = [pair[0], *chain, pair[1]]
                for before, after in pairwise(hops):
                    self._right.setdefault(before, []).append(after)
                    self._left.setdefault(after, []).append(before)

    # -- order within layers -----------------------------------------------------------------------------------

    def _order(self) -> None:
        best, rows = self._crossings(), [list(row) for row in self._rows]
        for sweep in range(SWEEPS):
            if not best:
                break
            forward = sweep % 2 == 0
            for number in range(1, len(self._rows)) if forward else range(len(self._rows) - 2, -1, -1):
                beside = self._rows[number - 1 if forward else number + 1]
                self._sort(self._rows[number], beside, self._left if forward else self._right)
            crossings = self._crossings()
            if crossings < best:
                best, rows = crossings, [list(row) for row in self._rows]
        self._rows = rows

    @staticmethod
    def _sort(row: list[Key], beside: list[Key], neighbours: Mapping[Key, list[Key]]) -> None:
        """Sort by the mean place of the neighbours; a node without neighbours keeps its place."""
        places = {key: place for place, key in enumerate(beside)}
        wanted = {}
        for own, key in enumerate(row):
            near = [places[each] for each in neighbours.get(key, ())]
            wanted[key] = sum(near) / len(near) if near else own * len(beside) / len(row)
        row.sort(key=wanted.__getitem__)

    def _crossings(self) -> int:
        """Return the number of edge crossings between all pairs of layers."""
        total = 0
        for row, following in pairwise(self._rows):
            places = {key: place for place, key in enumerate(following)}
            seen: list[int] = []
            for key in row:
                ends = sorted(places[each] for each in self._right.get(key, ()))
                total += sum(len(seen) - bisect_left(seen, end + 1) for end in ends)
                for end in ends:
                    insort(seen, end)
        return total

    # -- places ------------------------------------------------------------------------------------------------

    def _place(self) -> None:
        """Start with layers packed, then pull each node to its neighbours, forward and back."""
        for row in self._rows:
            offset = -sum(self._height(key) + GAP for key in row) / 2
            for key in row:
                self._y[key] = offset + self._height(key) / 2
                offset += self._height(key) + GAP
        for sweep in range(SETTLE):
            forward = sweep % 2 == 0
            for row in self._rows if forward else reversed(self._rows):
                self._pull(row, self._left if forward else self._right)
        for row in self._rows:
            self._pull(row, {key: [*self._left.get(key, ()), *self._right.get(key, ())] for key in row})

    def _pull(self, row: list[Key], neighbours: Mapping[Key, list[Key]]) -> None:
        """Place each node as near to the mean of its neighbours as order and distance allow."""
        offsets, wanted, offset = [], [], 0.0
        for number, key in enumerate(row):
            offset += (self._height(row[number - 1]) + self._height(key)) / 2 + GAP if number else 0.0
            near = [self._y[each] for each in neighbours.get(key, ())]
            offsets.append(offset)
            wanted.append((sum(near) / len(near) if near else self._y[key]) - offset)
        for key, value, offset in zip(row, _rising(wanted), offsets, strict=True):
            self._y[key] = value + offset

    def _width(self, key: Key) -> float:
        return self._sizes[key][0] if key in self._sizes else 0.0

    def _height(self, key: Key) -> float:
        return self._sizes[key][1] if key in self._sizes else THREAD


def _rising(values: Sequence[float]) -> list[float]:
    """Return the nearest non-decreasing values by least squares.

    Values that would decrease are pooled with neighbours.
    """
    pools: list[tuple[float, int]] = []
    for value in values:
        mean, count = value, 1
        while pools and pools[-1][0] > mean:
            before, number = pools.pop()
            mean, count = (before * number + mean * count) / (number + count), number + count
        pools.append((mean, count))
    return [mean for mean, count in pools for _ in range(count)]

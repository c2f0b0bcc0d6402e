"""Blockers: the unsettled vertex for which a vertex waits, near or far above it in its requisites, or in its sequence.

The search upward stops at the earliest unsettled position, and at vertices that were found clear since a vertex last
became unsettled.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from heapq import heappop

from holdfast.agent.engine.model.vertex import Vertex
from holdfast.agent.engine.schedule.definition_order import Heap, Item, item_of
from holdfast.agent.engine.schedule.sequences import Sequences

SPARE = 64
"""Outdated entries that the heap may have, in addition to one for each current entry."""


class Blockers:
    """The search for blockers in one graph."""

    def __init__(self) -> None:
        self.sequences = Sequences()
        self._lowest = Heap()
        """Unsettled vertices, and some that have settled since."""
        self._epoch = 0
        """Grows when a vertex becomes unsettled: what was found clear in the current epoch is still clear."""

    def rebuild(self, vertices: Iterable[Vertex]) -> None:
        """Start again for a new graph; `vertices` are in order of execution."""
        self._lowest.clear()
        self._epoch += 1
        self.sequences.rebuild(vertices)

    def enter(self, item: Item, unsettled: Collection[Vertex]) -> None:
        """Add a vertex that has become unsettled. `unsettled` are all of them."""
        self._epoch += 1
        # A settled vertex leaves the heap only when it comes first, so a vertex that waits for long would keep many.
        if len(self._lowest) > 2 * len(unsettled) + SPARE:
            self._lowest.rebuild(item_of(each) for each in unsettled if each is not item[-1])
        self._lowest.push(item)

    def of(self, vertex: Vertex, unsettled: Iterable[Vertex]) -> Vertex | None:
        """Return an unsettled vertex that this one requires, directly or not, or that precedes it in a sequence."""
        if self.sequences and (holder := self.sequences.blocker(vertex, unsettled)):
            return holder
        heap, position = self._lowest, vertex.position
        while heap and heap.first.settled:
            heappop(heap)
        lowest = heap.first.position if heap else position
        return self._search(vertex, lowest) if lowest < position and vertex.links.upstream else None

    def _search(self, vertex: Vertex, lowest: int) -> Vertex | None:
        """Return an unsettled vertex above this one; `lowest` is the earliest unsettled position."""
        seen: set[Vertex] = set()
        stack = list(vertex.links.upstream)
        while stack:
            above = stack.pop()
            if above.position < lowest or above in seen:
                continue
            if not above.settled:
                return above
            seen.add(above)
            if above.clear_epoch != self._epoch:
                stack.extend(above.links.upstream)
        for above in (vertex, *seen):
            above.clear_epoch = self._epoch
        return None

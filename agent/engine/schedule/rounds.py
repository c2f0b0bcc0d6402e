"""Rounds over the vertices of a graph, such as a recheck, in slices, so that events are answered in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator

from holdfast.agent.engine.model.outcome import Cause
from holdfast.agent.engine.model.vertex import Vertex

SLICE = 100
"""Vertices in one callback of the loop: about a millisecond."""


class Rounds:
    """The current round, if there is one. `visit` is called for each vertex, `after` after each slice."""

    def __init__(self, visit: Callable[[Vertex, Cause], None], after: Callable[[], None]) -> None:
        self._visit = visit
        self._after = after
        self._left: Iterator[Vertex] | None = None
        self._next: asyncio.Handle | None = None

    @property
    def under_way(self) -> bool:
        """Whether some vertices are still to be visited."""
        return self._left is not None

    def begin(self, vertices: Iterable[Vertex], cause: Cause) -> None:
        """Visit these vertices, the first slice at once.

        This replaces a current round, so `vertices` must include those that the current round has not visited yet.
        """
        self.stop()
        self._left = iter(vertices)
        self._slice(cause)

    def stop(self) -> None:
        """End the current round."""
        self._left = None
        if self._next:
            self._next.cancel()
            self._next = None

    def _slice(self, cause: Cause) -> None:
        self._next = None
        left, more = self._left or iter(()), True
        try:
            for _ in range(SLICE):
                vertex = next(left, None)
                if vertex is None:
                    more = False
                    break
                self._visit(vertex, cause)
        finally:  # an exception for one vertex must not end the round
            if more:
                self._next = asyncio.get_running_loop().call_soon(self._slice, cause)
            else:
                self._left = None
            self._after()

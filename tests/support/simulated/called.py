"""Rules for calls beside the engine: nothing else works on a setting while a call changes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator

from holdfast.agent.engine.model.vertex import Vertex


class Called:
    """The calls of one life. `wrong` reports a fault; `active` are the vertices that run."""

    def __init__(self, wrong: Callable[[Vertex | None, str], None], active: Collection[Vertex]) -> None:
        self._wrong, self._active = wrong, active
        self._calls: Counter[str] = Counter()
        """Setting -> number of calls that wait to change it, or change it."""
        self._changed: set[str] = set()
        """Settings that calls change now."""

    def __contains__(self, vertex: Vertex) -> bool:
        """Return whether a vertex may have to wait for a call."""
        return self._calls[vertex.resource.name] > 0

    def waits(self, name: str) -> None:
        """Note that a call wants to change a setting."""
        self._calls[name] += 1

    def begins(self, name: str) -> None:
        """Check that nothing else works on the setting that a call begins to change."""
        if name in self._changed:
            self._wrong(None, f"two calls change {name}")
        self._changed.add(name)
        for vertex in self._active:
            if vertex.run.task and self._concerned(vertex):
                self._wrong(vertex, "runs while a call begins to change its setting")

    def ends(self, name: str) -> None:
        """Note the end of a call."""
        self._changed.discard(name)
        self._calls[name] -= 1

    def against(self, vertex: Vertex) -> Iterator[str]:
        """Yield a message if the vertex starts while a call changes its setting."""
        if self._concerned(vertex):
            yield "starts while a call changes its setting"

    def _concerned(self, vertex: Vertex) -> bool:
        return any(kind == "setting" and name in self._changed for kind, name in vertex.resource.uids())

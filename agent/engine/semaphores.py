"""Counting semaphores: how many of the resources that name one may run at once, whatever the graph would allow.

`id:N` lets N in, `id` one; the number is part of the name. All that a resource names are taken at once when it starts, or none: nobody
holds one while it waits for another, so there is no deadlock and no wait to cancel.
"""

from __future__ import annotations

from collections import Counter

from holdfast.agent.engine.graph import Vertex


class Semaphores:
    """Who is in, and who waits outside."""

    def __init__(self) -> None:
        self._inside: Counter[str] = Counter()
        self._outside: dict[str, list[Vertex]] = {}

    def full(self, vertex: Vertex) -> str | None:
        """The first semaphore, by name, that has no place for it; None when it may start."""
        return next((name for name in sorted(vertex.call.meta.sema) if self._inside[name] >= places(name)), None)

    def wait(self, vertex: Vertex, name: str) -> None:
        """Remember that it waits for a place."""
        self._outside.setdefault(name, []).append(vertex)

    def take(self, vertex: Vertex) -> None:
        """It starts."""
        if vertex.call.meta.sema:  # hardly anybody names one, and counting takes its time
            self._inside.update(set(vertex.call.meta.sema))

    def give(self, vertex: Vertex) -> list[Vertex]:
        """It has ended; those that waited for one of its places."""
        names = set(vertex.call.meta.sema)
        if not names:
            return []
        self._inside.subtract(names)
        return [waiter for name in names for waiter in self._outside.pop(name, ())]


def places(name: str) -> int:
    """How many may be in at once."""
    return int(name.partition(":")[2] or 1)

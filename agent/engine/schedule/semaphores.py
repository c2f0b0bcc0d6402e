"""Counting semaphores: how many of the resources that name one may run at once, whatever the graph would allow.

`id:N` lets N in, `id` one; the number is part of the name. Members of one batch are one run, and take one place. All that a resource names are taken
at once when it starts, or none: nobody holds one while it waits for another, so there is no deadlock and no wait to cancel.
"""

from __future__ import annotations

from holdfast.agent.engine.model.graph import Vertex


class Semaphores:
    """Who is in, and who waits outside."""

    def __init__(self) -> None:
        self._inside: dict[str, dict[Vertex, set[Vertex]]] = {}
        """Name -> who leads a batch, or runs alone -> those of the batch that are in."""
        self._leaders: dict[Vertex, Vertex] = {}
        """Who is in -> who leads its batch."""
        self._outside: dict[str, list[Vertex]] = {}

    def full(self, vertex: Vertex, leader: Vertex | None = None) -> str | None:
        """The first semaphore, by name, that has no place for it, and is not held by its batch either; None when it may start."""
        for name in sorted(vertex.call.meta.sema):
            inside = self._inside.get(name, {})
            if len(inside) >= places(name) and leader not in inside:
                return name
        return None

    def wait(self, vertex: Vertex, name: str) -> None:
        """Remember that it waits for a place."""
        self._outside.setdefault(name, []).append(vertex)

    def take(self, vertex: Vertex, leader: Vertex) -> None:
        """It starts, in the batch of that one, or alone."""
        if not vertex.call.meta.sema:
            return
        self._leaders[vertex] = leader
        for name in vertex.call.meta.sema:
            self._inside.setdefault(name, {}).setdefault(leader, set()).add(vertex)

    def give(self, vertex: Vertex) -> list[Vertex]:
        """It has ended; those that waited for one of its places."""
        leader = self._leaders.pop(vertex, None)
        if leader is None:
            return []
        freed = []
        for name in sorted(set(vertex.call.meta.sema)):
            members = self._inside[name][leader]
            members.discard(vertex)
            if not members:
                del self._inside[name][leader]
                freed += self._outside.pop(name, [])
        return freed


def places(name: str) -> int:
    """How many may be in at once."""
    return int(name.partition(":")[2] or 1)

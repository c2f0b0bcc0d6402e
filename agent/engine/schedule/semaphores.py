"""Counting semaphores: how many of the resources that name one may run at once.

`id:N` has N places, `id` has one; the number is part of the name. The members of one batch count as one run and take
one place. A resource takes all its semaphores at once when it starts. So no resource holds one semaphore while it
waits for another: a deadlock is impossible, and no wait has to be cancelled.
"""

from __future__ import annotations

from holdfast.agent.engine.model.vertex import Vertex


class Semaphores:
    """The semaphores of one engine, with the vertices that hold them and the vertices that wait for them."""

    def __init__(self) -> None:
        self._inside: dict[str, dict[Vertex, set[Vertex]]] = {}
        """Name -> leader of a batch, or vertex that runs alone -> members of the batch that hold the semaphore."""
        self._leaders: dict[Vertex, Vertex] = {}
        """Vertex that holds semaphores -> leader of its batch."""
        self._outside: dict[str, list[Vertex]] = {}
        """Name -> vertices that wait for a place."""

    def full(self, vertex: Vertex, leader: Vertex | None = None) -> str | None:
        """Return the first semaphore, by name, that has no place for a vertex; None if the vertex may start.

        A semaphore that the batch of `leader` holds already has a place for each member.
        """
        names = vertex.call.meta.sema
        for name in sorted(names) if names else ():
            inside = self._inside.get(name, {})
            if len(inside) >= places(name) and leader not in inside:
                return name
        return None

    def wait(self, vertex: Vertex, name: str) -> None:
        """Note that a vertex waits for a place of this semaphore."""
        self._outside.setdefault(name, []).append(vertex)

    def take(self, vertex: Vertex, leader: Vertex) -> None:
        """Take all semaphores of a vertex that starts. `leader` leads its batch, or is the vertex if it runs alone."""
        if not vertex.call.meta.sema:
            return
        self._leaders[vertex] = leader
        for name in vertex.call.meta.sema:
            self._inside.setdefault(name, {}).setdefault(leader, set()).add(vertex)

    def give(self, vertex: Vertex) -> list[Vertex]:
        """Release the semaphores of a vertex whose run has ended. Returns the vertices that waited for a free place."""
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
    """Return the number of places of a semaphore."""
    return int(name.partition(":")[2] or 1)

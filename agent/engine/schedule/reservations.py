"""Reservations: resources on which something other than a run of this engine works, so that no run of them starts.

A one-shot run beside the agent reserves resources by their keys, one after the other, until it ends. A call of a
function (`holdfast call`) claims the things that it changes, all at once. Resources that manage these things do not
start, even if they join the graph meanwhile. A call waits for other calls and for one-shot runs before it claims
anything, so no two of them wait for each other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from typing import NamedTuple

from holdfast.agent.engine import kinds
from holdfast.agent.engine.model.vertex import Vertex
from holdfast.resources.contract import Uid

ANY = "*"
"""Name in a claim that stands for all things of its kind: `("pkg", "*")`."""


class Claim(NamedTuple):
    """The things that one call changes."""

    things: frozenset[Uid]
    over: asyncio.Event
    """Set when the call has ended."""


class Reservations:
    """The reservations and claims of one engine."""

    def __init__(self) -> None:
        self._keys: set[str] = set()
        """Keys of the resources that a one-shot run works on."""
        self._unreserved = asyncio.Event()
        """Set when the one-shot run releases resources; a new event takes its place."""
        self._claims: list[Claim] = []

    def covers(self, vertex: Vertex) -> bool:
        """Return whether a vertex must not start."""
        if not self._keys and not self._claims:
            return False  # fast path: called for each start
        return self.reserved(vertex) or self.claimed(vertex)

    # -- one-shot runs -------------------------------------------------------------------------------------------

    def reserve(self, keys: Iterable[str]) -> None:
        """Reserve resources for a one-shot run."""
        self._keys.update(keys)

    def unreserve(self, keys: Iterable[str]) -> None:
        """End the reservation of these resources."""
        self._keys.difference_update(keys)
        self._unreserved.set()
        self._unreserved = asyncio.Event()

    def reserved(self, vertex: Vertex) -> bool:
        """Return whether a one-shot run works on a vertex."""
        return vertex.key in self._keys

    def claims_on(self, vertices: Iterable[Vertex]) -> list[Claim]:
        """Return the claims of the calls that work on one of these vertices."""
        if not self._claims:
            return []
        every = tuple(vertices)
        return [claim for claim in self._claims if any(concerns(vertex, claim.things) for vertex in every)]

    # -- calls ---------------------------------------------------------------------------------------------------

    def claimed(self, vertex: Vertex) -> bool:
        """Return whether a call works on a vertex."""
        return any(concerns(vertex, claim.things) for claim in self._claims)

    async def claim(self, things: Collection[Uid], vertices: Collection[Vertex]) -> Claim:
        """Wait until no other call and no one-shot run works on these things, and claim them.

        `vertices` are all vertices of the present graph.
        """
        wanted = frozenset(things)
        while over := self._busy(wanted, vertices):
            await over.wait()
        claim = Claim(wanted, asyncio.Event())
        self._claims.append(claim)
        return claim

    def _busy(self, wanted: frozenset[Uid], vertices: Collection[Vertex]) -> asyncio.Event | None:
        """Return the event for which a new claim has to wait; None if there is none."""
        for claim in self._claims:
            if overlap(wanted, claim.things) or overlap(claim.things, wanted):
                return claim.over
        if self._keys and any(self.reserved(vertex) and concerns(vertex, wanted) for vertex in vertices):
            return self._unreserved
        return None

    def release(self, claim: Claim) -> None:
        """End a claim."""
        self._claims.remove(claim)
        claim.over.set()


def concerns(vertex: Vertex, things: Collection[Uid]) -> bool:
    """Return whether a vertex manages one of these things."""
    return overlap(things, kinds.uids(vertex.resource))


def overlap(things: Collection[Uid], uids: Iterable[Uid]) -> bool:
    """Return whether `things` contain one of these uids."""
    return any((kind, name) in things or (kind, ANY) in things for kind, name in uids)

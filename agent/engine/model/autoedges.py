"""Automatic edges of each new graph, before anything is touched: found by `states.automatic`, packages asked of this host's provider."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from holdfast.agent.engine.model.events import Notice
from holdfast.resources.context import Context
from holdfast.resources.traits import Edgeable
from holdfast.states.automatic import Automatic, Shipped, automatic, describe, interesting, packages, remedy
from holdfast.states.data import Call

Edges = Mapping[int, tuple[int, ...]]
"""Position of who waits -> positions of whom."""
NOTHING: Edges = {}
PATIENCE = 10.0
"""Seconds for which new states wait for the package database."""


class AutoEdges:
    """Finds the edges of one graph after the other. `context` opens this host's package database; what is odd is told once."""

    def __init__(self, context: Callable[[str], Context], emit: Callable[[Notice], None]) -> None:
        self._context, self._emit = context, emit
        self._calls: Sequence[Call] = ()
        self._packages: list[str] = []
        self._paths: frozenset[str] = frozenset()
        """The paths of which it matters whether one of these packages ships them."""
        self._shipped: Shipped = {}
        self._found = Automatic({}, [])
        self._told: set[str] = set()

    async def find(self, calls: Sequence[Call]) -> Edges:
        """The edges of these calls; none where a kind raises when it is asked."""
        try:
            return await self._find(calls)
        except Exception as error:  # noqa: BLE001 - kinds' own code; without it the order is that of the states
            self._calls = ()
            text = f"there are no automatic edges: a kind cannot say what it offers or needs: {type(error).__name__}: {error}"
            self._emit(Notice("error", "edges-unknown", "", text, error))
            return NOTHING

    async def _find(self, calls: Sequence[Call]) -> Edges:
        """Where they stand to each other as those of before did, the edges are those of before."""
        same = len(calls) == len(self._calls) and all(map(_alike, calls, self._calls))
        if not same:
            self._packages = packages(calls)
            self._paths = interesting(calls) if self._packages else frozenset()
        shipped = await self._ask() if self._packages else {}
        if not same or shipped != self._shipped:
            self._found = automatic(calls, shipped)
        self._calls, self._shipped = calls, shipped
        said = {
            f"{describe(calls, drop)}; {remedy(calls, drop)}": calls[drop.who].identity for drop in self._found.dropped
        }
        for text, identity in said.items():
            if text not in self._told:
                self._emit(Notice("warning", "edge-dropped", identity, text))
        self._told = set(said)
        return self._found.edges

    async def _ask(self) -> Shipped:
        """Which packages the paths that matter belong to; nothing where no provider knows."""
        try:
            owners: Any = self._context("automatic edges").interface("pkg").owners
            async with asyncio.timeout(PATIENCE):
                found: Shipped = await owners(self._packages, self._paths)
        except Exception as error:  # noqa: BLE001 - a provider's own code; without an answer there are some edges less
            why = f"the provider has not answered for {PATIENCE:g} s" if isinstance(error, TimeoutError) else error
            self._emit(Notice("debug", "packages-unknown", "", f"the files of packages are not known: {why}", error))
            return {}
        return found


def _alike(new: Call, old: Call) -> bool:
    """Whether two calls in one place have the same edges."""
    if new is old:
        return True
    if new.requisites != old.requisites or new.meta.autoedge is not old.meta.autoedge or new.identity != old.identity:
        return False
    ours, theirs = new.resource, old.resource
    if ours is theirs or (type(ours) is type(theirs) and ours.__dict__ == theirs.__dict__):
        return True
    if not isinstance(ours, Edgeable) or not isinstance(theirs, Edgeable):
        return isinstance(ours, Edgeable) is isinstance(theirs, Edgeable)
    return ours.offers() == theirs.offers() and ours.dependencies() == theirs.dependencies()

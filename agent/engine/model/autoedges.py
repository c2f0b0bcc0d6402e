"""Automatic edges of each new graph, found before any resource is changed.

`states.automatic` derives the edges from the calls. This module adds the paths that packages ship: it asks the host's
package provider for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from holdfast.agent.engine.model.events import Notice
from holdfast.resources.context import Context
from holdfast.resources.errors import RAISED
from holdfast.resources.traits import Edgeable
from holdfast.states.compile.automatic import Automatic, Shipped, automatic, describe, interesting, packages, remedy
from holdfast.states.data import Call

Edges = Mapping[int, tuple[int, ...]]
"""Position of the vertex that waits -> positions of the vertices that it waits for."""
NOTHING: Edges = {}
TIMEOUT = 10.0
"""Seconds for which a swap waits for an answer of the package database."""


class AutoEdges:
    """Finds the automatic edges of each graph, and reuses the previous edges while they are valid.

    `context` returns the context through which the package provider is asked. A dropped edge is reported once, not
    again for each swap that drops it.
    """

    def __init__(self, context: Callable[[str], Context], emit: Callable[[Notice], None]) -> None:
        self._context, self._emit = context, emit
        self._calls: Sequence[Call] = ()
        self._packages: list[str] = []
        self._paths: frozenset[str] = frozenset()
        """Paths that lead to an edge if one of `_packages` ships them."""
        self._shipped: Shipped = {}
        self._found = Automatic({}, [])
        self._reported: set[str] = set()
        """Messages about the edges that the previous graph dropped."""

    async def find(self, calls: Sequence[Call]) -> Edges:
        """Return the automatic edges of these calls; none if the code of a kind raises."""
        try:
            return await self._find(calls)
        except RAISED as error:  # requisites still order the states
            self._calls = ()
            text = f"cannot find automatic edges: the code of a kind raised {type(error).__name__}: {error}"
            self._emit(Notice("error", "edges-unknown", "", text, error))
            return NOTHING

    async def _find(self, calls: Sequence[Call]) -> Edges:
        """Return the edges. Reuse the previous ones if neither the calls nor the shipped paths differ.

        All of this is done in a thread: with many calls it takes tens of milliseconds.
        """
        blocking = self._context("automatic edges").blocking
        same = await blocking(self._same, calls)
        if not same:
            self._packages, self._paths = await blocking(_wanted, calls)
        shipped = await self._ask() if self._packages else {}
        if not same or shipped != self._shipped:
            self._found = await blocking(automatic, calls, shipped)
        self._calls, self._shipped = calls, shipped
        messages = {
            f"{describe(calls, drop)}; {remedy(calls, drop)}": calls[drop.who].identity for drop in self._found.dropped
        }
        for text, identity in messages.items():
            if text not in self._reported:
                self._emit(Notice("warning", "edge-dropped", identity, text, named=True))
        self._reported = set(messages)
        return self._found.edges

    def _same(self, calls: Sequence[Call]) -> bool:
        return len(calls) == len(self._calls) and all(map(_alike, calls, self._calls))

    async def _ask(self) -> Shipped:
        """Return which packages ship the paths that matter; nothing if no provider knows."""
        try:
            from holdfast.resources.interfaces.pkg import PkgInterface  # noqa: PLC0415 - few states need it

            owners = self._context("automatic edges").interface(PkgInterface).owners
            async with asyncio.timeout(TIMEOUT):
                found: Shipped = await owners(self._packages, self._paths)
        except RAISED as error:  # some edges are missing then
            why = f"the provider did not answer within {TIMEOUT:g} s" if isinstance(error, TimeoutError) else error
            self._emit(Notice("debug", "packages-unknown", "", f"the files of packages are unknown: {why}", error))
            return {}
        return found


def _wanted(calls: Sequence[Call]) -> tuple[list[str], frozenset[str]]:
    """Return the packages that the calls install, and the paths that lead to an edge if one of these ships them."""
    names = packages(calls)
    return names, interesting(calls) if names else frozenset()


def _alike(new: Call, old: Call) -> bool:
    """Return whether two calls at the same position have the same automatic edges."""
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

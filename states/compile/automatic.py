"""Automatic edges: dependencies that follow from the states themselves.

A file waits for its directory, a service for its package. Such an edge orders two resources, and causes a check of the
later one if it has failed and the earlier one changes. An edge never prevents a resource from running. Automatic edges
follow the order of execution, because the author has chosen this order.

Each kind declares what it offers and what it needs (`traits.Edgeable`). Offers are indexed by uid, so that each need
costs one or two lookups, however many states there are. The directories above a path are looked up once for all paths
in one directory.
"""

from __future__ import annotations

import posixpath
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from holdfast.resources.contract import Uid
from holdfast.resources.dependencies import UNIT_FILE, UNITS, Dependency, unit_parts
from holdfast.resources.traits import Edgeable
from holdfast.states.compile.check import CONDITIONAL
from holdfast.states.data import Call
from holdfast.states.requisite_kinds import LISTENING

Shipped = Mapping[str, Sequence[str]]
"""Path -> the packages that ship it."""


NOBODY: Sequence[int] = ()


class Dropped(NamedTuple):
    """A dependency whose provider comes later in the order."""

    who: int
    dependency: Dependency
    provider: int
    """The first call that offers it, later in the order."""


class Automatic(NamedTuple):
    """The edges of a list of calls, as positions."""

    edges: dict[int, tuple[int, ...]]
    """Position -> positions for which it waits, ascending; without entries for calls that wait for nothing."""
    dropped: list[Dropped]
    """Vital dependencies that are offered only later in the order."""


def automatic(calls: Sequence[Call], shipped: Shipped | None = None) -> Automatic:
    """Find the edges of calls in order of execution.

    `shipped` has the packages of the paths that `interesting` returns.
    """
    return _Search(calls, shipped or {}).run()


def packages(calls: Sequence[Call]) -> list[str]:
    """Return the names of the packages that the calls install."""
    offers = (offer for call in calls if isinstance(call.resource, Edgeable) for offer in call.resource.offers())
    return list(dict.fromkeys(value for kind, value in offers if kind == "pkg"))


def interesting(calls: Sequence[Call]) -> frozenset[str]:
    """Return the paths for which it matters whether a package ships them."""
    found: set[str] = set()
    for call in calls:
        if isinstance(call.resource, Edgeable):
            for kind, value in call.resource.offers():
                if kind == "path":
                    _climb(value, found)
            for dependency in call.resource.dependencies():
                if dependency.type == "path":
                    _climb(dependency.value, found)
                elif dependency.type == UNIT_FILE:
                    found.update(f"{directory}/{dependency.value}" for directory in UNITS)
    return frozenset(found)


def _climb(path: str, found: set[str]) -> None:
    while len(path) > 1 and path not in found:
        found.add(path)
        path = posixpath.dirname(path)


class _Search:
    """State of one search."""

    def __init__(self, calls: Sequence[Call], shipped: Shipped) -> None:
        self.calls = calls
        self.takers = [
            (call.position, call, call.resource)
            for call in calls
            if isinstance(call.resource, Edgeable) and call.meta.autoedge
        ]
        self.offers: dict[Uid, list[int]] = {}
        """Uid -> positions of the calls that offer it, ascending."""
        self.paths: dict[str, list[int]] = {}
        """Path -> positions of the calls that offer it; apart from `offers`, because most uids are paths."""
        self._above: dict[str, Sequence[int]] = {}
        """Path -> positions of the calls that offer it, or the nearest path above it."""
        self._shipped: dict[str, list[int]] = {}
        """Path -> positions of the calls whose packages ship it."""
        self._shipped_above: dict[str, Sequence[int]] = {}
        self._index(shipped)

    def _index(self, shipped: Shipped) -> None:
        for position, _, resource in self.takers:
            for offer in resource.offers():
                (
                    self.paths.setdefault(offer[1], []) if offer[0] == "path" else self.offers.setdefault(offer, [])
                ).append(position)
        for path, names in shipped.items():
            owners = sorted({position for name in names for position in self.offers.get(("pkg", name), ())})
            self._shipped[path] = owners
            for uid in unit_parts(path):
                self.offers[uid] = sorted({*self.offers.get(uid, ()), *owners})

    def run(self) -> Automatic:
        """Find all edges. One loop on purpose: it runs for each dependency of up to 50 000 resources."""
        edges: dict[int, tuple[int, ...]] = {}
        dropped: list[Dropped] = []
        paths, offers = self.paths, self.offers
        for position, call, resource in self.takers:
            found: set[int] = set()
            for dependency in resource.dependencies():
                type_, value, vital, above, every = dependency
                if type_ != "path":
                    providers = offers.get((type_, value), NOBODY)
                else:
                    providers = _nearest(paths, self._above, value) if above else paths.get(value, NOBODY)
                if providers:
                    if providers[0] < position:
                        last = bisect_left(providers, position)
                        found.update(providers[:last] if every else (providers[last - 1],))
                    elif vital and providers[0] != position:
                        dropped.append(Dropped(position, dependency, providers[0]))
            if self._shipped:
                found.update(self._packages(position, resource))
            if found and call.requisites:
                found -= _ordered(call)
            if found:
                edges[position] = tuple(sorted(found))
        return Automatic(edges, [drop for drop in dropped if not self._sometimes(drop)])

    def _sometimes(self, drop: Dropped) -> bool:
        """Return whether one of two calls is conditional: the order may then be intended."""
        return any(not CONDITIONAL.isdisjoint(self.calls[position].low) for position in (drop.who, drop.provider))

    def _packages(self, position: int, resource: Edgeable) -> Iterator[int]:
        """Yield the positions of calls whose packages ship a path that this call offers or needs.

        A package is installed before its configuration is put in place.
        """
        paths = [value for kind, value in resource.offers() if kind == "path"]
        for path in (
            *paths,
            *[dependency.value for dependency in resource.dependencies() if dependency.type == "path"],
        ):
            owners = _nearest(self._shipped, self._shipped_above, path)
            yield from owners[: bisect_left(owners, position)]


def _ordered(call: Call) -> set[int]:
    """Return the positions for which a call waits by its requisites, except `listen`."""
    return {target for kind, targets in call.requisites.items() if kind not in LISTENING for target in targets}


def describe(calls: Sequence[Call], drop: Dropped) -> str:
    """Return the message for an edge that was dropped."""
    who, dependency, provider = calls[drop.who], drop.dependency, calls[drop.provider]
    what = "the directory" if dependency.above else dependency.type.replace("-", " ")
    later = f"{provider.identity} ({provider.location})"
    order = f"{later} comes after it: on a new host, the earlier state fails"
    return f"{who.identity} needs {what} {dependency.value}, but {order}"


def remedy(calls: Sequence[Call], drop: Dropped) -> str:
    """Return the hint for an edge that was dropped."""
    low = calls[drop.provider].low
    return f"require '{low['state']}: {low['__id__']}', or move the state down"


def _nearest(offered: Mapping[str, Sequence[int]], known: dict[str, Sequence[int]], path: str) -> Sequence[int]:
    """Return the positions of the calls that offer a path, or else the nearest path above it. Results are cached."""
    found = offered.get(path) or known.get(path)
    if found is not None:
        return found
    passed = []
    while (found := offered.get(path)) is None and (found := known.get(path)) is None:
        passed.append(path)
        if len(path) <= 1:
            found = NOBODY
            break
        path = posixpath.dirname(path)
    known.update(dict.fromkeys(passed, found))
    return found

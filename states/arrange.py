"""The order of a whole tree: what requires what, who runs when, and the calls that are handed out.

It depends on few things: the identities and names of the states, their numbers, their requisites. While those are the same,
whatever else has changed, the order holds; and a call that would be equal to the one handed out before is that one, so that
whoever has it sees at once that nothing has changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from holdfast.resources.traits import Refreshable
from holdfast.states.data import Call, Low
from holdfast.states.errors import Problem
from holdfast.states.load import Loaded
from holdfast.states.low import Chunk
from holdfast.states.order import Plan
from holdfast.states.requisites import Edge, Resolver

Requisites = Mapping[str, tuple[int, ...]]
"""Kind -> positions in the order of execution."""


class Order:
    """The order of chunks that are sorted by number and checked."""

    def __init__(self, chunks: Sequence[Chunk], loaded: Loaded, disabled: frozenset[str]) -> None:
        self._included, self._disabled = loaded.included, disabled
        self._remember(chunks)
        resolver = Resolver(chunks, loaded)
        edges = edges_of(chunks, resolver, disabled)
        plan = Plan(chunks, edges)
        self.problems: list[Problem] = [*resolver.problems, *plan.problems]
        self.warnings: list[Problem] = resolver.warnings
        self._sequence, self._pulled = plan.sequence, plan.pulled
        self._requisites: list[Requisites] = [] if self.problems else list(_translated(plan.sequence, edges))

    def holds(self, chunks: Sequence[Chunk], included: Mapping[str, Sequence[str]], disabled: frozenset[str]) -> bool:
        """Whether these chunks would be put into the same order, and nothing be said of it."""
        same = not self.warnings and (self._included, self._disabled) == (included, disabled)
        if not same or self._refreshes != [_refreshes(chunk) for chunk in chunks]:
            return False
        before = zip(self._chunks, self._lows, strict=True)
        if not all(
            (new is old and new.low is low) or _alike(new, old, low)
            for new, (old, low) in zip(chunks, before, strict=True)
        ):
            return False
        self._remember(chunks)
        return True

    def _remember(self, chunks: Sequence[Chunk]) -> None:
        """Keep what the order depends on: of a chunk that is kept the number may change, and with a new version of its kind more."""
        self._chunks = chunks
        self._lows = [chunk.low for chunk in chunks]
        self._refreshes = [_refreshes(chunk) for chunk in chunks]

    def of(self, chunks: Sequence[Chunk]) -> list[Chunk]:
        """The chunks in order of execution."""
        return [chunks[index] for index in self._sequence]

    def calls(self, chunks: Sequence[Chunk]) -> Iterator[Call]:
        """The calls in order of execution."""
        for position, index in enumerate(self._sequence):
            chunk, requisites, pulled = chunks[index], self._requisites[position], self._pulled.get(index, "")
            call = chunk.call
            if call is None or call.position != position or call.requisites != requisites or call.moved != pulled:
                call = chunk.call = _call(chunk, position, requisites, pulled)
            yield call


def edges_of(chunks: Sequence[Chunk], resolver: Resolver, disabled: frozenset[str]) -> list[list[Edge]]:
    """What each chunk requires."""
    return [resolver.resolve(chunk, disabled, refreshes=_refreshes(chunk)) for chunk in chunks]


def _call(chunk: Chunk, position: int, requisites: Requisites, moved: str) -> Call:
    """What is handed out of a chunk. Raises `ValueError` for one that was not found right."""
    if chunk.checked is None:
        raise ValueError(f"{chunk.identity} is wrong, so it cannot be handed out")
    return Call(
        position, chunk.identity, chunk.low, chunk.spot, chunk.checked.resource, chunk.checked.meta, requisites, moved
    )


def _refreshes(chunk: Chunk) -> bool:
    """Whether its kind has a refresh action; not known of what is wrong."""
    return chunk.checked is None or isinstance(chunk.checked.resource, Refreshable)


def _alike(new: Chunk, old: Chunk, low: Low) -> bool:
    """Whether two chunks stand to all others in the same way; `low` is what the old one had then."""
    same = new.identity == old.identity and all(
        new.low[key] == low[key] for key in ("order", "state", "name", "__id__", "__sls__")
    )
    return same and _named(new) == _named(old)


def _named(chunk: Chunk) -> list[tuple[str, list[tuple[str, str | None]]]]:
    """What its requisites name."""
    return [(kind, [(target.type, target.value) for target in targets]) for kind, targets in chunk.requisites.items()]


def _translated(sequence: Sequence[int], edges: Sequence[Sequence[Edge]]) -> Iterator[Requisites]:
    """The requisites of each chunk, by positions in the order of execution, in that order."""
    positions = [0] * len(sequence)
    for position, index in enumerate(sequence):
        positions[index] = position
    groups: dict[int, tuple[int, ...]] = {}
    for index in sequence:
        found: dict[str, tuple[int, ...]] = {}
        for kind, _, meant in edges[index]:
            group = groups.get(id(meant))
            if group is None:
                group = groups[id(meant)] = tuple([positions[target] for target in meant])
            known = found.get(kind)
            found[kind] = group if known is None else tuple(dict.fromkeys((*known, *group)))
        yield found or _NOTHING


_NOTHING: Requisites = MappingProxyType({})

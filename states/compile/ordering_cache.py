"""The order of execution of all states of a host, and the calls in that order, kept between compilations.

The order depends only on the identities, names, numbers and requisites of the states. The cache stays valid while these
are unchanged. A call that would be equal to the one of the last compilation is the same object, so that the agent
recognises unchanged calls by identity.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from holdfast.resources.traits import Referring, Refreshable
from holdfast.states.compile.check import spot_of
from holdfast.states.compile.cycles import without_cycles
from holdfast.states.compile.low import Chunk
from holdfast.states.compile.order import ExecutionOrder
from holdfast.states.compile.requisites import ResolvedTarget, Resolver
from holdfast.states.data import Call, Low
from holdfast.states.declare.load import Loaded
from holdfast.states.errors import Problem
from holdfast.states.requisite_kinds import RECV

Requisites = Mapping[str, tuple[int, ...]]
"""Kind -> positions in the order of execution."""


class OrderingCache:
    """The order of execution of a list of chunks that are sorted by number."""

    def __init__(self, chunks: Sequence[Chunk], loaded: Loaded, disabled: frozenset[str]) -> None:
        self._included, self._disabled = loaded.included, disabled
        self._remember(chunks)
        resolver = Resolver(chunks, loaded)
        edges, plan = planned(chunks, resolver, disabled)
        self.problems: list[Problem] = [*resolver.problems, *plan.problems]
        self.warnings: list[Problem] = resolver.warnings
        self._sequence, self._pulled, self._unmet = plan.sequence, plan.pulled, resolver.unmet
        self._requisites: list[Requisites] = [] if self.problems else list(_translated(plan.sequence, edges))

    def holds(self, chunks: Sequence[Chunk], included: Mapping[str, Sequence[str]], disabled: frozenset[str]) -> bool:
        """Return whether these chunks have the same order, without problems or warnings; remember them if so."""
        same = not self.warnings and (self._included, self._disabled) == (included, disabled)
        if not same or self._refreshes != [_refreshes(chunk) for chunk in chunks]:
            return False
        if self._senders != [chunk.requisites.get(RECV) for chunk in chunks]:
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
        """Keep the properties on which the order depends.

        A cached chunk may get another number, or a new version of its kind.
        """
        self._chunks = chunks
        self._lows = [chunk.low for chunk in chunks]
        self._refreshes = [_refreshes(chunk) for chunk in chunks]
        self._senders = [chunk.requisites.get(RECV) for chunk in chunks]

    def of(self, chunks: Sequence[Chunk]) -> list[Chunk]:
        """Return the chunks in order of execution."""
        return [chunks[index] for index in self._sequence]

    def calls(self, chunks: Sequence[Chunk]) -> Iterator[Call]:
        """Yield the calls in order of execution."""
        for position, index in enumerate(self._sequence):
            chunk, given = chunks[index], self._requisites[position]
            rest = (position, given, self._pulled.get(index, ""), self._unmet.get(chunk.identity, ""))
            call = chunk.call
            if call is None or (call.position, call.requisites, call.moved, call.unmet) != rest:
                call = chunk.call = _call(chunk, *rest)
            yield call


def planned(
    chunks: Sequence[Chunk], resolver: Resolver, disabled: frozenset[str]
) -> tuple[list[list[ResolvedTarget]], ExecutionOrder]:
    """Return the resolved requisites of each chunk, without the cycles that lenient files may have, and the order."""
    edges = [resolver.resolve(chunk, disabled, refreshes=_refreshes(chunk)) for chunk in chunks]
    plan = ExecutionOrder(chunks, edges)
    if plan.problems:
        edges, warnings = without_cycles(chunks, edges)
        if warnings:
            resolver.warnings += warnings
            plan = ExecutionOrder(chunks, edges)
    return edges, plan


def _call(chunk: Chunk, position: int, requisites: Requisites, moved: str, unmet: str) -> Call:
    """Return the call of a chunk. Raises `ValueError` if the chunk is invalid."""
    if chunk.checked is None:
        raise ValueError(f"{chunk.identity} is invalid, so it has no call")
    verdict = chunk.checked
    call = Call(
        position, chunk.identity, chunk.low, chunk.spot, verdict.resource, verdict.meta, requisites, moved, unmet=unmet
    )
    return replace(call, place=partial(spot_of, chunk)) if isinstance(verdict.resource, Referring) else call


def _refreshes(chunk: Chunk) -> bool:
    """Return whether the kind of a chunk has a refresh action; False for an invalid chunk."""
    return chunk.checked is None or isinstance(chunk.checked.resource, Refreshable)


def _alike(new: Chunk, old: Chunk, low: Low) -> bool:
    """Return whether two chunks have the same relations to all others.

    `low` is the low data of the old one at that time.
    """
    same = new.identity == old.identity and all(
        new.low[key] == low[key] for key in ("order", "state", "name", "__id__", "__sls__")
    )
    return same and _named(new) == _named(old)


def _named(chunk: Chunk) -> list[tuple[str, list[tuple[str, str | None]]]]:
    """Return the targets that the requisites of a chunk name."""
    return [(kind, [(target.type, target.value) for target in targets]) for kind, targets in chunk.requisites.items()]


def _translated(sequence: Sequence[int], edges: Sequence[Sequence[ResolvedTarget]]) -> Iterator[Requisites]:
    """Yield the requisites of each chunk as positions in the order of execution; the chunks come in that order, too."""
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

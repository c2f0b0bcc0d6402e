"""What each requisite means: which of the chunks, by their positions in definition order."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from typing import NamedTuple

from holdfast.resources.registry import nearest
from holdfast.states.data import REQUISITES
from holdfast.states.errors import Problem
from holdfast.states.extend import shown_target
from holdfast.states.high import Target
from holdfast.states.load import Loaded
from holdfast.states.low import Chunk

WITHOUT_REFRESH = ("require", "watch", "require_any", "watch_any", *REQUISITES[4:])
"""REQUISITES in the order that holds for a kind which has no refresh action."""


class Edge(NamedTuple):
    """One item of a requisite list of a chunk, with all that it means."""

    kind: str
    target: Target
    group: tuple[int, ...]
    """Positions of the chunks that are meant; the same tuple for all that name the same target."""


class Resolver:
    """Finds what requisites name; each distinct target is looked up once."""

    def __init__(self, chunks: Sequence[Chunk], loaded: Loaded) -> None:
        self.chunks, self.loaded = chunks, loaded
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        self._known: dict[tuple[str, str], tuple[int, ...]] = {}
        self._hints: dict[tuple[str, str], str] = {}
        self._index: dict[tuple[str, str], list[int]] = {}
        for position, chunk in enumerate(chunks):
            low = chunk.low
            for word in {low["__id__"], low["name"]}:
                self._index.setdefault((low["state"], word), []).append(position)
                self._index.setdefault(("id", word), []).append(position)

    def resolve(self, chunk: Chunk, disabled: frozenset[str], *, refreshes: bool = True) -> list[Edge]:
        """The edges of one chunk, kinds in the order of REQUISITES, items as listed.

        For a kind without a refresh action `watch` means `require`, and stands next to it.
        """
        edges = []
        for kind in (REQUISITES if refreshes else WITHOUT_REFRESH) if chunk.requisites else ():
            if kind in disabled:
                continue
            for target in chunk.requisites.get(kind, ()):
                group = self._group(chunk, kind, target)
                if group:
                    edges.append(Edge(kind, target, group))
        return edges

    def _group(self, chunk: Chunk, kind: str, target: Target) -> tuple[int, ...]:
        """The positions that one item means; none is a problem or, where that is legal, a warning."""
        if target.value is None:
            self.warnings.append(
                target.spot.problem("requisite-empty", f"{kind} names nothing here", "a value is missing, or a template gave none")
            )
            return ()
        key = (target.type, target.value)
        if key not in self._known:
            self._known[key] = tuple(self._sls(target.value) if target.type == "sls" else self._named(*key))
        if not self._known[key]:
            self._nothing(chunk, kind, target, target.value)
        return self._known[key]

    def _named(self, type_: str, value: str) -> Sequence[int]:
        """Chunks of a type (`id`: of any) by name or ID, or by a glob over both."""
        exact = self._index.get((type_, value), [])
        if not any(char in value for char in "*?["):
            return exact
        found = set(exact)
        for (known, word), positions in self._index.items():
            if known == type_ and fnmatch.fnmatchcase(word, value):
                found.update(positions)
        return sorted(found)

    def _sls(self, value: str) -> Sequence[int]:
        covered = self.loaded.covered(value)
        return [position for position, chunk in enumerate(self.chunks) if chunk.low["__sls__"] in covered] if covered else ()

    def _nothing(self, chunk: Chunk, kind: str, target: Target, value: str) -> None:
        """Say that an item means no state."""
        glob = any(char in value for char in "*?[")
        if target.type == "sls" and (glob or value in self.loaded.included):
            why = "matches no state file" if glob and value not in self.loaded.included else "has no states"
            self.warnings.append(
                target.spot.problem("requisite-empty", f"{kind} names the state file {value!r}, which {why}: it has no effect")
            )
            return
        what = (
            f"the state file {value!r}, which is not part of this run"
            if target.type == "sls"
            else f"{shown_target(target)}, which does not exist"
        )
        key = (target.type, value)
        if key not in self._hints:
            self._hints[key] = self._hint(*key)
        self.problems.append(target.spot.problem("requisite-missing", f"{kind} of {chunk.identity} names {what}", self._hints[key]))

    def _hint(self, type_: str, value: str) -> str:
        if type_ == "sls":
            near = nearest(value, self.loaded.included)
            return f"did you mean {near!r}?" if near else "add it to 'include'"
        others = sorted({self.chunks[position].low["state"] for position in self._index.get(("id", value), ())})
        if others:
            return f"{value!r} is of the type {', '.join(others)}"
        near = nearest(value, (word for known, word in self._index if known == type_)) or nearest(
            value, (word for known, word in self._index if known == "id")
        )
        return f"did you mean {near!r}?" if near else "it may stand in a file that is not included: add it to 'include'"

"""Resolves requisites to chunks, by their positions in definition order."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from holdfast.resources.spelling import nearest
from holdfast.states.compile.low import Chunk
from holdfast.states.declare.extend import shown_target
from holdfast.states.declare.high import Target
from holdfast.states.declare.load import Loaded
from holdfast.states.declare.salt_hints import no_such_type
from holdfast.states.errors import Location, Problem
from holdfast.states.requisite_kinds import KINDS, LISTENING, RECV, RELATIONS

WITHOUT_REFRESH = tuple(
    sorted(RELATIONS, key=lambda name: RELATIONS.index(KINDS[name].effective(refreshable=False) or name))
)
"""RELATIONS in the order that applies to a kind without a refresh."""
MEANT = "did you mean {!r}?"
ELSEWHERE = "it may be in a file that is not included: add it to 'include'"


class ResolvedTarget(NamedTuple):
    """One target of a requisite of a chunk, with the chunks that it matches."""

    kind: str
    target: Target
    group: tuple[int, ...]
    """Positions of the chunks that match; the same tuple for all requisites with the same target."""


class Resolver:
    """Resolves targets; each distinct target is looked up once."""

    def __init__(self, chunks: Sequence[Chunk], loaded: Loaded) -> None:
        self.chunks, self.loaded = chunks, loaded
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        self.unmet: dict[str, str] = {}
        """Identity of a chunk of a lenient file -> why it fails: it has a requisite that matches nothing."""
        self._known: dict[tuple[str, str], tuple[int, ...]] = {}
        self._hints: dict[tuple[str, str], str] = {}
        self._reported: set[tuple[Location, str]] = set()
        """Reported problems of missing targets: all states of one declaration with `names` have the same ones."""
        self._index: dict[str, list[int]] = {}
        """ID or name -> positions of the chunks that have it."""
        for position, chunk in enumerate(chunks):
            id_, name = chunk.low["__id__"], chunk.low["name"]
            self._index.setdefault(id_, []).append(position)
            if name != id_:
                self._index.setdefault(name, []).append(position)

    def resolve(self, chunk: Chunk, disabled: frozenset[str], *, refreshes: bool = True) -> list[ResolvedTarget]:
        """Return the resolved targets of one chunk: kinds in the order of RELATIONS, items as listed.

        For a kind without a refresh, `watch` means `require` and follows it directly.
        """
        edges: list[ResolvedTarget] = []
        given = chunk.requisites
        for kind in (RELATIONS if refreshes else WITHOUT_REFRESH) if len(given) > 1 else given:
            if kind in disabled or kind not in given:
                continue
            for target in given[kind]:
                group = self._group(chunk, kind, target)
                if group:
                    edges.append(ResolvedTarget(kind, target, group))
        return edges

    def _group(self, chunk: Chunk, kind: str, target: Target) -> tuple[int, ...]:
        """Return the positions that one target matches.

        If there are none, adds a problem or, where that is legal, a warning.
        """
        if target.value is None:
            self.warnings.append(
                target.spot.problem(
                    "requisite-empty", f"{kind} names nothing here", "a value is missing, or a template gave none"
                )
            )
            return ()
        found = self.meant(target.type, target.value)
        if not found:
            self._nothing(chunk, kind, target, target.value)
        return found

    def meant(self, type_: str, value: str) -> tuple[int, ...]:
        """Return the positions that match a type and a value; empty if there are none."""
        key = (type_, value)
        if key not in self._known:
            self._known[key] = tuple(self._sls(value) if type_ == "sls" else self._named(type_, value))
        return self._known[key]

    def _named(self, type_: str, value: str) -> Sequence[int]:
        """Return the positions of the chunks of a type (`id`: any) by name or ID, or by a glob over both."""
        found: Sequence[int] = self._index.get(value, ())
        if any(char in value for char in "*?["):
            matching = (positions for word, positions in self._index.items() if fnmatch.fnmatchcase(word, value))
            found = sorted({*found}.union(*matching))
        return [position for position in found if self._is(type_, position)]

    def _is(self, type_: str, position: int) -> bool:
        return type_ in ("id", self.chunks[position].low["state"])

    def _words(self, type_: str) -> Iterator[str]:
        """Return the IDs and names of the chunks of a type."""
        return (
            word for word, positions in self._index.items() if any(self._is(type_, position) for position in positions)
        )

    def _sls(self, value: str) -> Sequence[int]:
        covered = self.loaded.covered(value)
        return (
            [position for position, chunk in enumerate(self.chunks) if chunk.low["__sls__"] in covered]
            if covered
            else ()
        )

    def _nothing(self, chunk: Chunk, kind: str, target: Target, value: str) -> None:
        """Report that a target matches no state."""
        glob = any(char in value for char in "*?[")
        if target.type == "sls" and (glob or value in self.loaded.included):
            why = "matches no state file" if glob and value not in self.loaded.included else "has no states"
            self.warnings.append(
                target.spot.problem(
                    "requisite-empty", f"{kind} names the state file {value!r}, which {why}: it has no effect"
                )
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
        itself = self._hints[key] in (MEANT.format(chunk.low["__id__"]), MEANT.format(chunk.low["name"]))
        hint = ELSEWHERE if itself else self._hints[key]
        source = repr(target.raw) if kind == RECV and target.raw else kind  # the argument of a reference
        message = f"{source} of {chunk.declared} names {what}"
        if target.spot.document.lenient and kind != RECV:
            self.warnings.append(self._accepted(chunk, kind, target, message, hint, glob=glob))
            return
        problem = target.spot.problem("requisite-missing", message, hint)
        if (problem.location, problem.message) not in self._reported:
            self._reported.add((problem.location, problem.message))
            self.problems.append(problem)

    def _accepted(self, chunk: Chunk, kind: str, target: Target, message: str, hint: str, *, glob: bool) -> Problem:
        """Return the warning about a target that matches no state, in a lenient file.

        As in Salt, the chunk fails when it runs; but a glob that requires nothing to succeed is met.
        """
        met = kind in LISTENING or (glob and KINDS[kind].gates == "success")
        if not met:
            self.unmet[chunk.identity] = message.replace(f" of {chunk.declared}", "")
        effect = "it has no effect" if met else "the state fails when it runs"
        return target.spot.accepted("requisite-missing", message, effect, hint)

    def _hint(self, type_: str, value: str) -> str:
        if type_ == "sls":
            near = nearest(value, self.loaded.included)
            return MEANT.format(near) if near else "add it to 'include'"
        if hint := no_such_type(type_):
            return hint
        others = sorted({self.chunks[position].low["state"] for position in self._index.get(value, ())})
        if others:
            return f"{value!r} is of the type {', '.join(others)}"
        near = nearest(value, self._words(type_)) or nearest(value, self._index)
        return MEANT.format(near) if near else ELSEWHERE

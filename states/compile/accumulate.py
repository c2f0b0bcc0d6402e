"""Hands the texts of `file.accumulated` on to the states of the files that they are for.

A state has the texts of all states before it in the order of execution, as in Salt, each text once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from holdfast.resources.accumulators import Collecting, Contributing
from holdfast.states.compile.check import CONDITIONAL, spot_of
from holdfast.states.compile.low import Chunk
from holdfast.states.data import Call
from holdfast.states.errors import Problem

BACKWARD = ("require_in", "watch_in")
"""Requisites by which a state of an accumulator comes before that of the file."""


def misplaced(chunks: Sequence[Chunk]) -> Iterator[Problem]:
    """Yield the problems of states whose texts could come too late, or would depend on a condition."""
    for chunk in chunks:
        if chunk.checked is None or not isinstance(chunk.checked.resource, Contributing):
            continue
        if not any(_names_file(target) for key in BACKWARD for target in _items(chunk.low.get(key))):
            path = chunk.checked.resource.contribution().path
            message = f"{chunk.identity} would have no effect: it comes before no state of {path}"
            hint = "add '- require_in: [{file: ID}]', with the ID of the state that manages the file"
            yield chunk.spot.problem("accumulator-orphan", message, hint)
        for key in sorted(CONDITIONAL & chunk.low.keys()):
            message = f"{chunk.identity} cannot have {key!r}: its text is known before anything runs"
            yield spot_of(chunk, (key,)).problem(
                "accumulator-condition", message, "put the condition into the state file: {% if ... %}"
            )


def unused(chunks: Sequence[Chunk]) -> Iterator[Problem]:
    """Yield a warning for texts for a file that no state collects."""
    resources = [chunk.checked.resource for chunk in chunks if chunk.checked]
    collected: set[str] | None = None
    for chunk in chunks:
        if chunk.checked and isinstance(chunk.checked.resource, Contributing):
            if collected is None:
                collected = {resource.name for resource in resources if isinstance(resource, Collecting)}
            path = chunk.checked.resource.contribution().path
            if path not in collected:
                message = f"{chunk.identity} has no effect: neither file.managed nor file.blockreplace manages {path}"
                yield spot_of(chunk, ("filename",)).problem("accumulator-unused", message)


def collected(calls: tuple[Call, ...]) -> tuple[Call, ...]:
    """Return the calls; those of files to which earlier calls contribute have the texts of these."""
    found: dict[str, list[Call]] = {}
    for call in calls:
        if isinstance(call.resource, Contributing):
            found.setdefault(call.resource.contribution().path, []).append(call)
    if not found:
        return calls
    return tuple([_with_texts(call, found.get(call.resource.name, ())) for call in calls])


def _with_texts(call: Call, contributing: Sequence[Call]) -> Call:
    """Return the call with the texts of all of these calls that come before it."""
    if not contributing or not isinstance(call.resource, Collecting):
        return call
    required = {position for targets in call.requisites.values() for position in targets}
    texts: dict[str, list[Any]] = {}
    meant: set[str] = set()
    for other in contributing:
        if other.position < call.position and isinstance(other.resource, Contributing):
            _, accumulator, given = other.resource.contribution()
            known = texts.setdefault(accumulator, [])
            known += [text for text in given if text not in known]
            meant |= {accumulator} if other.position in required else set()
    if call.resource.of_required and meant:
        texts = {accumulator: given for accumulator, given in texts.items() if accumulator in meant}
    return replace(call, resource=call.resource.with_texts(texts)) if texts else call


def _items(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _names_file(target: object) -> bool:
    """Return whether a target of a requisite may be a state of a file: `{file: ID}`, or an ID alone."""
    return "file" in target if isinstance(target, dict) else isinstance(target, str)

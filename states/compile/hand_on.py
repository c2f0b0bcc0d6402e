"""Hands texts and variables on to later states: what `file.accumulated` and `environ.setenv` do in Salt when they run.

A file has the texts of all states before it in the order of execution, each text once; a command has the variables of
all states before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from holdfast.resources.accumulators import Collecting, Contributing, SettingVariables, TakingVariables
from holdfast.states.compile.check import CONDITIONAL, spot_of
from holdfast.states.compile.low import Chunk
from holdfast.states.data import Call
from holdfast.states.errors import Problem

BACKWARD = ("require_in", "watch_in")
"""Requisites by which a state of an accumulator comes before that of the file."""


def misplaced(chunks: Sequence[Chunk]) -> Iterator[Problem]:
    """Yield the problems of states that hand something on: too late, or under a condition."""
    for chunk in chunks:
        resource = chunk.checked.resource if chunk.checked else None
        if isinstance(resource, Contributing) and not _before_a_file(chunk):
            message = f"{chunk.identity} would have no effect: no state of {resource.contribution().path} requires it"
            hint = "add '- require_in: [{file: ID}]', with the ID of the state that manages the file"
            yield chunk.spot.problem("accumulator-orphan", message, hint)
        if isinstance(resource, (Contributing, SettingVariables)):
            for key in sorted(CONDITIONAL & chunk.low.keys()):
                message = f"{chunk.identity} cannot have {key!r}: it takes effect before anything runs"
                hint = "put the condition into the state file: {% if ... %}"
                yield spot_of(chunk, (key,)).problem("early-condition", message, hint)


def _before_a_file(chunk: Chunk) -> bool:
    """Return whether a state comes before a state of a file."""
    return any(_names_file(target) for key in BACKWARD for target in _items(chunk.low.get(key)))


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


def handed_on(calls: tuple[Call, ...]) -> tuple[Call, ...]:
    """Return the calls, with the texts and the variables that earlier calls hand on to them."""
    contributing: dict[str, list[Call]] = {}
    sets = False
    for call in calls:
        if isinstance(call.resource, Contributing):
            contributing.setdefault(call.resource.contribution().path, []).append(call)
        sets = sets or isinstance(call.resource, SettingVariables)
    if contributing:
        calls = tuple([_with_texts(call, contributing.get(call.resource.name, ())) for call in calls])
    return tuple(_with_variables(calls)) if sets else calls


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
    return _with(call, call.resource.with_texts(texts)) if texts else call


def _with_variables(calls: Sequence[Call]) -> Iterator[Call]:
    """Yield the calls; those that run commands have the variables of all calls before them."""
    present: dict[str, str] = {}
    for call in calls:
        if isinstance(call.resource, SettingVariables):
            changed = call.resource.variables()
            present = {**present, **changed}  # type: ignore[dict-item] # the next line removes those that are None
            present = {name: value for name, value in present.items() if value is not None}
        if present and isinstance(call.resource, TakingVariables):
            call = _with(call, call.resource.with_variables(present))  # noqa: PLW2901 - it takes the place of the other
        yield call


def _with(call: Call, arguments: Mapping[str, Any]) -> Call:
    """Return the call with other arguments of its resource."""
    if not arguments:
        return call
    return replace(
        call, resource=call.resource.model_copy(update=arguments), handed={**(call.handed or {}), **arguments}
    )


def _items(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _names_file(target: object) -> bool:
    """Return whether a target of a requisite may be a state of a file: `{file: ID}`, or an ID alone."""
    return "file" in target if isinstance(target, dict) else isinstance(target, str)

"""Checks arguments that receive values from other states (`recv`): the sender, the key and the type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from holdfast.resources.composite import Composite
from holdfast.resources.contract import Resource
from holdfast.resources.meta import Receive
from holdfast.resources.spelling import nearest
from holdfast.resources.traits import Recvable, Referring, Sendable
from holdfast.states.compile.check import names
from holdfast.states.compile.low import Chunk
from holdfast.states.compile.requisites import Resolver
from holdfast.states.declare.high import Target
from holdfast.states.declare.load import Loaded
from holdfast.states.errors import Problem
from holdfast.states.requisite_kinds import RECV

SAMPLES = {str: "2", int: 1, float: 1.5, bool: True, list: [], dict: {}}
"""A sample value of each type that can be sent, to test types that are not identical."""
WORDS = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "a mapping",
}
OWN_CHECKS = ("value_error", "assertion_error")
"""Errors of a kind's own validators: they depend on the value, not only on its type."""
JSON = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"}


def misfits(chunks: Sequence[Chunk], loaded: Loaded) -> Iterator[Problem]:
    """Yield the problems of received arguments: their senders and their types.

    The resolver reports senders that do not exist.
    """
    received = [each for chunk in chunks for each in _received(chunk)]
    if not received:
        return
    resolver = Resolver(chunks, loaded)
    keys: dict[int, set[str]] = {}
    for chunk, wanted, target in received:
        found = list(resolver.meant(wanted.type, wanted.sender))
        problem = _wrong(chunk, wanted, target, [chunks[position] for position in found])
        if problem is None and len(found) == 1:
            problem = _exclusive(wanted, target, chunks[found[0]], keys.setdefault(found[0], set()))
        if problem:
            yield problem


def _received(chunk: Chunk) -> Iterator[tuple[Chunk, Receive, Target]]:
    """Yield each argument that a valid call receives, with the target that names its sender."""
    if chunk.requisites.get(RECV) and chunk.checked is not None:
        for wanted, target in zip(chunk.checked.meta.recv, chunk.requisites[RECV], strict=True):
            yield chunk, wanted, target


def _wrong(chunk: Chunk, wanted: Receive, target: Target, found: list[Chunk]) -> Problem | None:
    """Return the problems of one received argument, except for senders that do not exist or are invalid."""
    if chunk.checked is None or not found:
        return None
    if not wanted.kind and (problem := _not_taken(type(chunk.checked.resource), wanted, target)):
        return problem
    if len(found) > 1:
        names = " and ".join(other.identity for other in found[:2])
        return target.spot.problem(
            "recv-sender", f"{wanted.argument!r} would receive from {len(found)} states, {names}", "name one of them"
        )
    if wanted.kind:
        return _not_meant(chunk, wanted, target, found[0])
    return None if found[0].checked is None else _not_sent(chunk, wanted, target, found[0], found[0].checked.resource)


def _not_meant(chunk: Chunk, wanted: Receive, target: Target, found: Chunk) -> Problem | None:
    """Return the problem of a reference to a state of another kind."""
    if f"{found.low['state']}.{found.low['fun']}" == wanted.kind:
        return _not_absent(chunk, target, found)
    text = f"{wanted.argument!r} of {chunk.identity} must refer to a {wanted.kind}, not to {found.identity}"
    return target.spot.problem("reference-kind", text)


def _not_absent(chunk: Chunk, target: Target, found: Chunk) -> Problem | None:
    """Return the problem of a resource that should exist and refers to one that should not."""
    both = [each.checked.resource if each.checked else None for each in (chunk, found)]
    here, there = [isinstance(each, Referring) and each.is_absent() for each in both]
    if here or not there:
        return None
    text = f"{chunk.identity} refers to {found.identity}, which is declared absent"
    return target.spot.problem("reference-absent", text, "write `ensure: absent` here as well, or refer to another one")


def _not_taken(cls: type[Resource], wanted: Receive, target: Target) -> Problem | None:
    if not issubclass(cls, Recvable) or issubclass(
        cls, Composite
    ):  # the parts of composites are made before any value is sent
        return target.spot.problem("recv-type", f"{cls.kind} receives nothing", "remove 'recv'")
    arguments = sorted(name for name in names(cls) if name != "name")
    if wanted.argument in arguments:
        return None
    near = nearest(wanted.argument, arguments)
    hint = f"did you mean {near!r}?" if near else f"it takes: {', '.join(arguments)}"
    return target.spot.problem("recv-type", f"{cls.kind} cannot receive {wanted.argument!r}", hint)


def _not_sent(chunk: Chunk, wanted: Receive, target: Target, sender: Chunk, resource: Resource) -> Problem | None:
    sends = resource.sends if isinstance(resource, Sendable) else {}
    if wanted.key not in sends:
        near = nearest(wanted.key, sends)
        hint = f"did you mean {near!r}?" if near else f"it sends: {', '.join(sends) or 'nothing'}"
        return target.spot.problem("recv-sender", f"{sender.identity} sends no {wanted.key!r}", hint)
    sent = sends[wanted.key]
    if chunk.checked is None or fits(type(chunk.checked.resource), wanted.argument, sent):
        return None
    text = f"{wanted.argument!r} of {chunk.identity} cannot be {WORDS.get(sent, 'of this type')}"
    return target.spot.problem("recv-type", f"{text}, the type that {sender.identity} sends as {wanted.key!r}")


def _exclusive(wanted: Receive, target: Target, sender: Chunk, keys: set[str]) -> Problem | None:
    """Return the problem if other keys of the same sender exclude this one; adds the key to those received."""
    keys.add(wanted.key)
    resource = sender.checked.resource if sender.checked else None
    instead: Mapping[str, frozenset[str]] = resource.instead if isinstance(resource, Sendable) else {}
    for key, missing in instead.items():
        if key in keys and (both := sorted(keys & missing)):
            text = (
                f"{sender.identity} cannot send {key!r} and {' and '.join(map(repr, both))}: it sends {key!r} instead"
            )
            return target.spot.problem("recv-sender", text, f"receive only {key!r}, or only the others")
    return None


def fits(cls: type[BaseModel], argument: str, sent: type) -> bool:
    """Return whether an argument accepts a type, as far as this is known without a value."""
    adapter = _adapter(cls, argument)
    taken = _taken(adapter)
    if not taken or JSON.get(sent) in taken or (sent is int and "number" in taken):
        return True
    try:
        adapter.validate_python(SAMPLES[sent])
    except KeyError:
        return False
    except ValidationError as error:
        return sent is str and any(wrong["type"] in OWN_CHECKS for wrong in error.errors())  # another text may be valid
    return True


def _adapter(cls: type[BaseModel], argument: str) -> TypeAdapter[Any]:
    """Return the validator of one argument."""
    info = next(info for name, info in cls.model_fields.items() if (info.alias or name) == argument)
    return TypeAdapter(
        Annotated[(info.annotation, *info.metadata)] if info.metadata else info.annotation  # type: ignore[arg-type]
    )


def _taken(adapter: TypeAdapter[Any]) -> set[str]:
    """Return the JSON types that an argument accepts; empty if they are not known."""
    try:
        return set(_types(adapter.json_schema()))
    except Exception:  # noqa: BLE001 - pydantic has many errors for a type without a schema; then a value decides
        return set()


def _types(schema: Any) -> Iterable[str]:
    """Yield all types that a JSON schema names at its top level."""
    for part in (schema, *schema.get("anyOf", ())):
        named = part.get("type", ())
        yield from [named] if isinstance(named, str) else named

"""The type language of the model: the values of arguments, settings and results in neutral terms."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal

TypeWord = Literal[
    "any",
    "none",
    "boolean",
    "integer",
    "number",
    "text",
    "bytes",
    "moment",
    "duration",
    "path",
    "address",
    "choice",
    "list",
    "set",
    "mapping",
    "record",
    "reference",
    "events",
    "union",
    "tagged",
]
"""`number` includes integers; a `record` has named fields; `events` is a stream of events without values.

`moment`, `duration`, `path`, `address` (of IP) and `bytes` are texts in one form each. A `reference` is the identifier
of a resource. A `tagged` type is a union of records, which their tags distinguish.
"""


@dataclass(frozen=True)
class Type:
    """One type. Only the members that apply to its word are set."""

    type: TypeWord
    patterns: tuple[str, ...] = ()
    """Of text and of a reference: regular expressions that must all match the whole text or identifier."""
    numbers: bool = False
    """Of text: numbers are accepted, too, as they are written."""
    choices: tuple[str | int | bool, ...] = ()
    """Of a choice: all values."""
    enumeration: str = ""
    """Of a choice: the enumeration that declares it, as `module:Name`."""
    minimum: int | float | None = None
    maximum: int | float | None = None
    above: int | float | None = None
    """Of a number: it is greater than this."""
    below: int | float | None = None
    """Of a number: it is less than this."""
    shortest: int | None = None
    """Of a text, bytes, a list, a set or a mapping: the least length, in characters, bytes or items."""
    longest: int | None = None
    items: Type | None = None
    """Of a list or a set: the type of its items. Of a mapping: the type of its values."""
    keys: Type | None = None
    """Of a mapping: the type of its keys."""
    record: str = ""
    """Of a record: its name among the records of the model; in a package `module:Name`."""
    target: str = ""
    """Of a reference: the token of the resource."""
    members: tuple[Type, ...] = ()
    """Of a union: the types, which are not unions themselves. Of a tagged type: the records."""
    alias: str = ""
    """The alias that the source uses for the type, as `module:Name`; the other members are those of the aliased
    type."""


ANY, NONE, BOOLEAN = Type("any"), Type("none"), Type("boolean")
INTEGER, NUMBER, TEXT = Type("integer"), Type("number"), Type("text")
WORDS = {
    "any": "anything",
    "boolean": "true/false",
    "integer": "number",
    "number": "number",
    "text": "text",
    "bytes": "text in base64",
    "moment": "date and time",
    "duration": "duration",
    "path": "path",
    "address": "IP address",
    "list": "list",
    "set": "list",
    "mapping": "mapping",
    "record": "mapping",
    "reference": "identifier",
    "events": "events",
    "tagged": "mapping",
}
"""Word of a type -> word for documents."""


def union(types: Iterable[Type]) -> Type:
    """Return the type of values that have one of the types."""
    flat = dict.fromkeys(member for each in types for member in members(each))
    if ANY in flat:
        return ANY
    kept = tuple(each for each in flat if each != INTEGER or NUMBER not in flat)
    return kept[0] if len(kept) == 1 else Type("union", members=kept)


def members(type_: Type) -> tuple[Type, ...]:
    """Return the members of a union; of any other type, the type itself."""
    return type_.members if type_.type == "union" else (type_,)


def each(type_: Type, change: Callable[[Type], Type]) -> Type:
    """Return a type with each of its members changed."""
    return union(map(change, members(type_)))


def restricted(type_: Type, *, pattern: str = "", choices: tuple[str, ...] = ()) -> Type:
    """Return a type whose texts match the pattern, or are some of the choices."""

    def change(member: Type) -> Type:
        if member.type != "text":
            return member
        return Type("choice", choices=choices) if choices else replace(member, patterns=(*member.patterns, pattern))

    return each(type_, change) if pattern or choices else type_


def with_numbers(type_: Type) -> Type:
    """Return a type whose texts may be written as numbers, at any depth."""

    def change(member: Type) -> Type:
        items, keys = member.items and with_numbers(member.items), member.keys and with_numbers(member.keys)
        return replace(member, numbers=member.numbers or member.type == "text", items=items, keys=keys)

    return each(type_, change)


def words(type_: Type) -> str:
    """Return the type as text: `text or list`, `'start' or 'end'`, without saying whether the value may be omitted."""
    found = [
        word
        for member in sorted(members(type_), key=lambda member: member.type in ("mapping", "record", "list"))
        if member.type != "none"
        for word in (map(written, member.choices) if member.type == "choice" else (WORDS[member.type],))
    ]
    return " or ".join(dict.fromkeys(found))


def written(value: object) -> str:
    """Return a default or a choice in the notation of state files."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "none"}[value]
    return "[]" if value == [] else "{}" if value == {} else repr(value)

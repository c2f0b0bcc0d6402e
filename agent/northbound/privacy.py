"""Which fields of a record viewers may see: all but those that the model declares private.

class Change(Model, table="changes"):
    public: bool = False
    diff: Annotated[str, Private(unless="public")] = ""
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from holdfast.agent.northbound.model import Model, Struct


@dataclass(frozen=True, slots=True)
class Private:
    """Marks a private field, also one of an embedded model: `Annotated[str, Private()]`."""

    unless: str = ""
    """A field of the record, true or false, that makes this field public; empty: the field is always private."""


def for_root(record: Model) -> dict[str, Any]:
    """Return a record with all fields, ready for JSON."""
    return record.model_dump(mode="json")


def for_viewers(record: Model) -> dict[str, Any]:
    """Return a record without its private fields, and without those that this program does not know."""
    return _open(record, record)


def private_fields(model: type[Struct]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of the fields of a model that are always private, and of those that a record may make public."""
    marks = {name: mark for name, mark in _marks(model).items() if mark is not None}
    always = frozenset(name for name, mark in marks.items() if not mark.unless)
    return always, frozenset(marks) - always


def _open(part: Struct, record: Model) -> dict[str, Any]:
    values = part.model_dump(mode="json", exclude=set(part.__pydantic_extra__ or ()))
    shown = {}
    for name, private in _marks(type(part)).items():
        if name in values and (private is None or (private.unless and getattr(record, private.unless, False) is True)):
            shown[name] = _inside(getattr(part, name), values[name], record)
    return shown


def _inside(value: Any, dumped: Any, record: Model) -> Any:
    """Return the public part of a value: in embedded models, each field is decided by itself."""
    if isinstance(value, Struct):
        return _open(value, record)
    if isinstance(value, Mapping):
        return {
            key: _inside(each, shown, record) for (key, shown), each in zip(dumped.items(), value.values(), strict=True)
        }
    if isinstance(value, (list, tuple)):
        return [_inside(each, shown, record) for each, shown in zip(value, dumped, strict=True)]
    return dumped


@cache
def _marks(model: type[Struct]) -> Mapping[str, Private | None]:
    """Return for each field of a model how it is private; None: it is not."""
    return {
        name: next((mark for mark in field.metadata if isinstance(mark, Private)), None)
        for name, field in model.model_fields.items()
    }

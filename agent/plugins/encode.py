"""Converts values to data of JSON, in the forms of the wire (`decode.py`) or of state files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.agent.model.model import Field
from holdfast.agent.model.types import Type
from holdfast.agent.plugins.schema import Schema
from holdfast.agent.plugins.values import TEXT_FORMS, UNKNOWN, Secret
from holdfast.resources.secrets import MASK


class Encoder:
    """Encodes values that satisfy a schema. With `wire`, the forms are those of the wire."""

    def __init__(self, schema: Schema, *, wire: bool = True) -> None:
        self.schema = schema
        self.wire = wire

    def fields(self, fields: Sequence[Field], values: Mapping[str, Any], tag: str = "") -> dict[str, Any]:
        """Return the data of a record, with the fields in the order of the schema."""
        given = {
            (each.wire or each.name) if self.wire else each.name: self.value(each.type, values[each.name])
            for each in fields
            if each.name in values
        }
        return {"type": tag, **given} if tag else given

    def value(self, type_: Type, value: Any) -> Any:
        """Return the data of a value."""
        if value is UNKNOWN:
            return {"$unknown": True}
        if isinstance(value, Secret):
            inner = self.value(type_, value.value)
            return {"$secret": inner} if self.wire else inner
        if value is None and type_.type != "any":
            return None
        if form := TEXT_FORMS.get(type_.type):
            return form.format(value)
        return self._composite(type_, value)

    def _composite(self, type_: Type, value: Any) -> Any:
        items = type_.items or Type("any")
        if type_.type == "any":
            return {"$json": value} if self.wire else value
        if type_.type == "integer":
            return str(value) if self.wire else value
        if type_.type == "list":
            return [self.value(items, item) for item in value]
        if type_.type == "set":
            return sorted(
                (self.value(items, item) for item in value), key=lambda item: json.dumps(item, sort_keys=True)
            )
        if type_.type == "mapping":
            keys = type_.keys or Type("text")
            return {self._key(self.value(keys, key)): self.value(items, item) for key, item in value.items()}
        return self._union(type_, value)

    def _key(self, key: Any) -> str:
        return f"${key}" if self.wire and str(key).startswith("$") else str(key)

    def _union(self, type_: Type, value: Any) -> Any:
        if type_.type == "record":
            record = self.schema.record(type_.record)
            return self.fields(record.fields, value, record.tag)
        if type_.type == "tagged":
            records = (self.schema.record(each.record) for each in type_.members)
            record = next(each for each in records if each.tag == value["type"])
            return self.fields(record.fields, value, record.tag)
        if type_.type == "union":
            return self.value(_member(type_, value), value)
        return value


class Shown(Encoder):
    """Encodes values for display, with every secret masked."""

    def __init__(self, schema: Schema) -> None:
        super().__init__(schema, wire=False)

    def value(self, type_: Type, value: Any) -> Any:
        """Return the data of a value; for a secret, a mask."""
        if value is UNKNOWN:
            return "(known later)"
        return MASK if isinstance(value, Secret) else super().value(type_, value)


def _member(union: Type, value: Any) -> Type:
    """Return the type of a union to which a value belongs. A whole number may belong to the type `number`."""
    found = [each for each in union.members if _may_be(each, value)]
    found += [each for each in union.members if each.type == "number" and type(value) is int]
    if found:
        return found[0]
    raise TypeError(f"the union has no type for {type(value).__name__}")


def _may_be(type_: Type, value: Any) -> bool:
    """Return whether a value may be of a type; the decoder accepts untagged unions only of types that differ here."""
    if form := TEXT_FORMS.get(type_.type):
        return isinstance(value, form.types)
    python: Mapping[str, type | tuple[type, ...]] = {
        "boolean": bool,
        "integer": int,
        "number": float,
        "text": str,
        "choice": str,
        "reference": str,
        "list": list,
        "set": (list, set, frozenset),
        "mapping": Mapping,
        "record": Mapping,
        "tagged": Mapping,
        "none": type(None),
    }
    wanted = python.get(type_.type, object)
    return isinstance(value, wanted) and (type_.type != "integer" or not isinstance(value, bool))

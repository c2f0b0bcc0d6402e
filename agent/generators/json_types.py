"""Types and records of the model as JSON Schema (draft-07)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from holdfast.agent.model.model import ABSENT, Field, Record
from holdfast.agent.model.types import Type

Schema = dict[str, Any]
DRAFT = "http://json-schema.org/draft-07/schema#"
BOUNDS = {"minimum": "minimum", "maximum": "maximum", "above": "exclusiveMinimum", "below": "exclusiveMaximum"}
"""Bound of a type -> keyword."""
BOOLEANS = "^(?:[Tt]rue|TRUE|[Ff]alse|FALSE|[Yy]es|YES|[Nn]o|NO|[Oo]n|ON|[Oo]ff|OFF)$"
"""Pattern of a boolean that is written as text."""


def schema_of(type_: Type) -> Schema:
    """Return the schema of a type. Records are definitions, which `definitions` returns."""
    return FORMS[type_.type](type_)


def _plain(word: str) -> Callable[[Type], Schema]:
    return lambda _: {"type": word} if word else {}


def _boolean(_: Type) -> Schema:
    """Return the schema of a boolean, which may be in quotes, or a word of YAML 1.1, which YAML 1.2 reads as text."""
    said = "write true or false"
    return {"type": ["boolean", "string"], "pattern": BOOLEANS, "patternErrorMessage": said, "errorMessage": said}


def _number(type_: Type) -> Schema:
    """Return the schema of a number, which may be in quotes; then its bounds are not checked."""
    said, pattern = "write a number", "^-?[0-9]+$" if type_.type == "integer" else "^-?[0-9]+([.][0-9]+)?$"
    bounds = {keyword: getattr(type_, name) for name, keyword in BOUNDS.items() if getattr(type_, name) is not None}
    more = {"pattern": pattern, "patternErrorMessage": said, "errorMessage": said}
    return {"type": [type_.type, "string"], **bounds, **more}


def _text(type_: Type) -> Schema:
    patterns = [{"pattern": f"^(?:{pattern})$"} for pattern in type_.patterns]
    more = patterns[0] if len(patterns) == 1 else {"allOf": patterns} if patterns else {}
    return {"type": ["string", "number"] if type_.numbers else "string", **more}


def _mapping(type_: Type) -> Schema:
    keys = schema_of(type_.keys) if type_.keys is not None else {}
    names = {} if keys.get("type") in ("string", ["string", "number"]) and len(keys) == 1 else {"propertyNames": keys}
    return {"type": "object", "additionalProperties": _items(type_), **(names if keys else {})}


def _items(type_: Type) -> Schema:
    return schema_of(type_.items) if type_.items is not None else {}


FORMS: Mapping[str, Callable[[Type], Schema]] = {
    "any": _plain(""),
    "none": _plain("null"),
    "boolean": _boolean,
    "integer": _number,
    "number": _number,
    "text": _text,
    "choice": lambda type_: {"enum": list(type_.choices)},
    "list": lambda type_: {"type": "array", "items": _items(type_)},
    "mapping": _mapping,
    "record": lambda type_: {"$ref": f"#/definitions/{type_.record}"},
    "union": lambda type_: {"anyOf": [schema_of(member) for member in type_.members]},
}
"""Word of a type -> its schema."""


def field_schema(field: Field) -> Schema:
    """Return the schema of a field, with its documentation and default."""
    schema = schema_of(field.type)
    if "$ref" in schema:  # draft-07 ignores other keywords beside a reference
        schema = {"allOf": [schema]}
    if field.doc:
        schema = {"description": field.doc, **schema}
    if field.default is not ABSENT and field.default is not None and not field.secret:
        schema["default"] = field.default
    return schema


def object_schema(fields: Iterable[Field], **more: Any) -> Schema:
    """Return the schema of a mapping with these fields, and no others."""
    known = tuple(fields)
    required = [field.name for field in known if field.required]
    return {
        "type": "object",
        **more,
        "properties": {field.name: field_schema(field) for field in known},
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }


def definitions(records: Mapping[str, Record]) -> dict[str, Schema]:
    """Return the definitions of records."""
    return {
        name: object_schema(record.fields, description=record.docs.summary) for name, record in sorted(records.items())
    }

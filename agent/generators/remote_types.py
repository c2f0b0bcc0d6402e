"""Types and rules of packages as JSON Schema (draft-07), equal to those of `plugins/decode.py` for state files.

Unlike arguments of built-in kinds, values are not converted: a number in quotes is not a number.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from holdfast.agent.generators.json_types import BOOLEANS, BOUNDS, Schema
from holdfast.agent.model.model import ABSENT, Field, Record, Rule
from holdfast.agent.model.types import Type

NOT_NULL: Schema = {"not": {"type": "null"}}
DURATION = r"^(?:[0-9]+(?:[.][0-9]+)?(?:us|ms|s|m|h|d))+$"
OF_PYTHON = re.compile(r"\(\?(?![:=!]|<[=!])|\\(?![\^$\\.*+?()\[\]{}|/\-dDwWsSbBnrtfvxu1-9]|$)|[*+?}]\+")
"""Syntax that expressions of JavaScript, which editors use, do not have; a pattern with it is left out."""
STATE: Schema = {
    "type": "object",
    "properties": {"ref": {"description": "ID of the state that declares the resource.", "type": "string"}},
    "required": ["ref"],
    "additionalProperties": False,
}
"""Schema of a reference by the state that declares the resource, in place of its identifier."""


def remote_schema(type_: Type) -> Schema:
    """Return the schema of a type. Records are definitions, which `remote_definitions` returns."""
    return FORMS[type_.type](type_)


def _exactly(**schema: object) -> Callable[[Type], Schema]:
    return lambda _: dict(schema)


def _boolean(_: Type) -> Schema:
    """Return the schema of a boolean. An editor that reads YAML 1.2 sees the words of YAML 1.1 as text."""
    said = "write true or false"
    return {"type": ["boolean", "string"], "pattern": BOOLEANS, "patternErrorMessage": said, "errorMessage": said}


def _number(type_: Type) -> Schema:
    bounds = {keyword: getattr(type_, name) for name, keyword in BOUNDS.items() if getattr(type_, name) is not None}
    return {"type": type_.type, **bounds}


def _text(type_: Type) -> Schema:
    patterns = [{"pattern": f"^(?:{pattern})$"} for pattern in type_.patterns if not OF_PYTHON.search(pattern)]
    more = patterns[0] if len(patterns) == 1 else {"allOf": patterns} if patterns else {}
    return {"type": "string", **more, **_lengths(type_, "Length")}


def _lengths(type_: Type, of: str) -> Schema:
    lengths = {f"min{of}": type_.shortest, f"max{of}": type_.longest}
    return {keyword: length for keyword, length in lengths.items() if length is not None}


def _list(type_: Type) -> Schema:
    unique = {"uniqueItems": True} if type_.type == "set" else {}
    return {"type": "array", "items": remote_schema(type_.items or Type("any")), **unique, **_lengths(type_, "Items")}


def _mapping(type_: Type) -> Schema:
    keys = remote_schema(type_.keys or Type("text"))
    names = {} if keys == {"type": "string"} else {"propertyNames": keys}
    items = remote_schema(type_.items or Type("any"))
    return {"type": "object", "additionalProperties": items, **names, **_lengths(type_, "Properties")}


def _record(type_: Type) -> Schema:
    return {"$ref": f"#/definitions/{type_.record}"}


def _tagged(type_: Type) -> Schema:
    return {"type": "object", "required": ["type"], "anyOf": [_record(each) for each in type_.members]}


FORMS: Mapping[str, Callable[[Type], Schema]] = {
    "any": _exactly(),
    "none": _exactly(type="null"),
    "boolean": _boolean,
    "integer": _number,
    "number": _number,
    "text": _text,
    "bytes": _exactly(type="string", contentEncoding="base64", pattern="^[A-Za-z0-9+/]*={0,2}$"),
    "moment": _exactly(type="string", format="date-time", pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}T"),
    "duration": _exactly(type=["string", "number"], pattern=DURATION, minimum=0),
    "path": _exactly(type="string", pattern="^/"),
    "address": _exactly(type="string", anyOf=[{"format": "ipv4"}, {"format": "ipv6"}], pattern="^[0-9A-Fa-f.:]+$"),
    "choice": lambda type_: {"enum": list(type_.choices)},
    "reference": lambda type_: {"anyOf": [_text(type_), STATE]},
    "list": _list,
    "set": _list,
    "mapping": _mapping,
    "record": _record,
    "tagged": _tagged,
    "union": lambda type_: {"anyOf": [remote_schema(member) for member in type_.members]},
}
"""Word of a type -> its schema."""


def remote_field(field: Field) -> Schema:
    """Return the schema of a field, with its documentation and default."""
    schema = remote_schema(field.type)
    if "$ref" in schema:  # draft-07 ignores other keywords beside a reference
        schema = {"allOf": [schema]}
    if told := " ".join(described(field)):
        schema = {"description": told, **schema}
    if field.deprecated:
        schema = {**schema, "doNotSuggest": True}
    if field.default is not ABSENT and not field.secret:
        schema = {**schema, "default": field.default}
    return schema


def described(field: Field) -> Iterator[str]:
    """Yield the sentences of the documentation about a field."""
    if field.doc:
        yield field.doc if field.doc.endswith((".", "!", "?", "`")) else f"{field.doc}."
    if field.unit:
        yield f"In {field.unit}."
    if field.environment:
        yield f"Default: the variable {' or '.join(field.environment)} of the provider's environment."
    if field.computed and not field.from_id:
        yield "The provider sets it if it is not given."
    if field.replaces:
        yield "A change replaces the resource."
    if field.write_only:
        yield "It is never stored or returned."
    if field.since:
        yield f"Since version {field.since}."
    if field.deprecated:
        yield f"Deprecated: {field.deprecated}"


def remote_definitions(records: Mapping[str, Record]) -> dict[str, Schema]:
    """Return the definitions of records."""
    return {name: _definition(record) for name, record in sorted(records.items())}


def _definition(record: Record) -> Schema:
    required = [field.name for field in record.fields if field.required]
    rules = [*rules_of(record.rules, lambda name: {"required": [name], "properties": {name: NOT_NULL}})]
    tag = {"type": {"const": record.tag}} if record.tag else {}
    return {
        "description": record.docs.summary,
        "type": "object",
        "properties": {**tag, **{field.name: remote_field(field) for field in record.fields}},
        **({"required": required} if required else {}),
        "additionalProperties": False,
        **({"allOf": rules} if rules else {}),
    }


def rules_of(rules: Iterable[Rule], given: Callable[[str], Schema]) -> Iterator[Schema]:
    """Yield the schemas of rules; `given` returns the schema for data that have a field.

    Rules on the order of values have none.
    """
    for rule in rules:
        each = [given(name) for name in rule.fields]
        if (schema := _rule(rule.rule, each)) is not None:
            listed = ", ".join(rule.fields)
            wanted = {"together": "all of them or none"}.get(rule.rule, f"{rule.rule} of them")
            yield {**schema, "errorMessage": f"{wanted} must be given: {listed}"}


def _rule(word: str, given: Sequence[Schema]) -> Schema | None:
    pairs = [{"allOf": list(pair)} for pair in itertools.combinations(given, 2)]
    schemas: Mapping[str, Schema] = {
        "exactly one": {"oneOf": list(given)},
        "at most one": {"not": {"anyOf": pairs}},
        "at least one": {"anyOf": list(given)},
        "together": {"oneOf": [{"allOf": list(given)}, {"not": {"anyOf": list(given)}}]},
    }
    return schemas.get(word)

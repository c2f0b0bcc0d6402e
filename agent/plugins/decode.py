"""Converts data of JSON to values, and finds every violation of the schema.

State files and the wire have the same forms, with these exceptions. On the wire, records use wire names, integers are
texts of digits (JSON has no exact ones in all languages), and a value of the type `any` is within an object, such as
`{"$json": 5}`. Two objects stand for other values: `{"$unknown": true}` and `{"$secret": ...}`. A key of a mapping that
begins with `$` has another `$` before it.

In state files alone, a reference may be `{ref: STATE}`: the identifier is known once that state has run.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

from holdfast.agent.model.model import ABSENT, Field, KindModel, Record, Rule
from holdfast.agent.model.types import Type, members
from holdfast.agent.plugins.restrictions import broken, restriction
from holdfast.agent.plugins.schema import Schema, inputs, outputs, remote_of
from holdfast.agent.plugins.values import CODES, TEXT_FORMS, UNKNOWN, Secret, Violation, parse_duration, revealed
from holdfast.resources.spelling import nearest
from holdfast.resources.traits import LATER

LARGEST = 2**63
"""The largest integer: integers have 64 bits."""
INVALID = object()
"""Stands for a value that breaks a rule, which has been recorded."""
TEXTUAL = frozenset({"text", "choice", "reference", *TEXT_FORMS})
"""Words of types whose values are written as text."""
REF = "ref"
"""Only key of a mapping that names a state in place of an identifier."""


class StateReference(NamedTuple):
    """A state that a value names in place of the identifier of its resource."""

    path: str
    target: str
    """Token of the resource."""
    state: str
    """ID or name of the state."""


class Decoder:
    """Decodes data against a schema; `violations` has all violations, in the order of the data."""

    def __init__(
        self, schema: Schema, *, wire: bool, defaults: bool = False, environ: Mapping[str, str] | None = None
    ) -> None:
        self.schema = schema
        self.wire = wire
        self.defaults = defaults
        """Whether fields that are not given get their default."""
        self.environ = environ
        """Environment of the provider, if this is its process. Elsewhere, defaults from the environment are left
        out."""
        self.violations: list[Violation] = []
        self.references: list[StateReference] = []
        """The states that the data name."""
        self.deprecated: list[tuple[str, str]] = []
        """Path of each deprecated field in the data, with its replacement."""
        self.refused: dict[str, str] = {}
        """Key of a field that exists, but is no argument -> its name."""

    def inputs(self, kind: KindModel, data: Any) -> dict[str, Any]:
        """Return the arguments of a resource that a declaration gives, by name."""
        self.refused = {
            (each.wire or each.name) if self.wire else each.name: each.name for each in kind.fields if each.out
        }
        return self.fields(inputs(kind.fields), remote_of(kind).rules, data)

    def outputs(self, kind: KindModel, data: Any) -> dict[str, Any]:
        """Return the state of a resource that a provider reports, by name."""
        return self.fields(outputs(kind.fields), (), data)

    def fields(
        self, fields: Sequence[Field], rules: Iterable[Rule], data: Any, path: str = "", tag: str = ""
    ) -> dict[str, Any]:
        """Return the values of the fields that are given, by name."""
        if not isinstance(data, Mapping):
            self._violate("type", path, f"it must be a mapping, not {_word(data)}")
            return {}
        names = {(each.wire or each.name) if self.wire else each.name: each for each in fields}
        values: dict[str, Any] = {"type": tag} if tag else {}
        for key, item in data.items():
            if key in names:
                inner = _at(path, names[key].name)
                self.deprecated += [(inner, names[key].deprecated)] if names[key].deprecated else []
                self._field(names[key], item, inner, values)
            elif not (tag and key == "type"):
                self._unexpected(str(key), names, path)
        for each in fields:
            if each.name not in values:
                self._not_given(each, path, values)
        self.violations += broken(rules, values, fields, path)
        return {name: value for name, value in values.items() if value is not INVALID}

    def _unexpected(self, key: str, names: Iterable[str], path: str) -> None:
        if not path and key in self.refused:
            self._violate("unexpected", self.refused[key], "the provider sets it, so it is not an argument")
            return
        near = nearest(key, names)
        hint = f"; did you mean {near!r}?" if near else ""
        self._violate("unexpected", _at(path, key), f"there is no field {key!r}{hint}")

    def _field(self, field: Field, item: Any, path: str, values: dict[str, Any]) -> None:
        values[field.name] = self.field(field, item, path)

    def field(self, field: Field, item: Any, path: str) -> Any:
        """Return the value of a field; `INVALID` after recording why it has none."""
        before = len(self.violations)
        value = self.value(field.type, item, path)
        if field.secret:
            self._hide(before)
            if value is not INVALID and value is not UNKNOWN and value is not None:
                value = Secret(revealed(value))
        return value

    def _not_given(self, field: Field, path: str, values: dict[str, Any]) -> None:
        if field.required:
            self._violate("missing", _at(path, field.name), "it is required")
        elif self.defaults and (data := self._default(field)) is not ABSENT:
            decoder = Decoder(self.schema, wire=False, defaults=True, environ=self.environ)
            values[field.name] = decoder.field(field, data, _at(path, field.name))
            self.violations += decoder.violations

    def _default(self, field: Field) -> Any:
        """Return the default of a field in the form of state files; `ABSENT` if it has none."""
        if not field.environment:
            return field.default
        if self.environ is None:
            return ABSENT
        given = (self.environ[name] for name in field.environment if name in self.environ)
        text = next(given, None)
        return field.default if text is None else from_text(field.type, text)

    def value(self, type_: Type, data: Any, path: str) -> Any:
        """Return the value of a type; `INVALID` after recording why it has none."""
        if data is LATER:
            return UNKNOWN
        if self.wire and isinstance(data, Mapping) and len(data) == 1:
            if data.get("$unknown") is True:
                return UNKNOWN
            if "$secret" in data:
                before = len(self.violations)
                inner = self.value(type_, data["$secret"], path)
                self._hide(before)
                return inner if inner is INVALID else Secret(inner)
        value = self.FORMS[type_.type](self, type_, data, path)
        if value is INVALID or value is UNKNOWN or not (told := restriction(type_, value)):
            return value
        return self._violate(told[0], path, told[1])

    def _hide(self, before: int) -> None:
        """Remove a secret value from the later violations; the required type is no secret."""
        self.violations[before:] = [
            each if each.code == "type" else each._replace(message=CODES[each.code])
            for each in self.violations[before:]
        ]

    def _violate(self, code: str, path: str, message: str) -> Any:
        self.violations.append(Violation(code, path, message))
        return INVALID

    # -- the forms of types ------------------------------------------------------------------------------------

    def _any(self, _: Type, data: Any, path: str) -> Any:
        if not self.wire:
            return data
        if not isinstance(data, Mapping) or set(data) != {"$json"}:
            return self._violate("type", path, "it must be an object with the member '$json'")
        return data["$json"]

    def _none(self, _: Type, data: Any, path: str) -> Any:
        return None if data is None else self._violate("type", path, f"it must be null, not {_word(data)}")

    def _boolean(self, _: Type, data: Any, path: str) -> Any:
        return (
            data
            if isinstance(data, bool)
            else self._violate("type", path, f"it must be true or false, not {_word(data)}")
        )

    def _integer(self, _: Type, data: Any, path: str) -> Any:
        value = data
        if self.wire and isinstance(data, str) and re.fullmatch(r"-?[0-9]{1,19}", data):
            value = int(data)
        if isinstance(value, bool) or not isinstance(value, int):
            return self._violate("type", path, f"it must be a whole number, not {_word(data)}")
        return value if -LARGEST <= value < LARGEST else self._violate("range", path, "it must fit in 64 bits")

    def _number(self, _: Type, data: Any, path: str) -> Any:
        if isinstance(data, bool) or not isinstance(data, (int, float)) or not math.isfinite(_float(data)):
            return self._violate("type", path, f"it must be a number, not {_word(data)}")
        return float(data)

    def _text(self, _: Type, data: Any, path: str) -> Any:
        return data if isinstance(data, str) else self._violate("type", path, f"it must be text, not {_word(data)}")

    def _reference(self, type_: Type, data: Any, path: str) -> Any:
        if self.wire or not isinstance(data, Mapping):
            return self._text(type_, data, path)
        if set(data) != {REF} or not isinstance(data[REF], str):
            mistyped = REF not in data and any(nearest(str(key), (REF,)) for key in data)
            hint = f"; did you mean {REF!r}?" if mistyped else ""
            return self._violate("type", path, f"it must be an identifier, or a state: `{{ref: ID}}`{hint}")
        self.references.append(StateReference(path, type_.target, data[REF]))
        return UNKNOWN

    def _written(self, type_: Type, data: Any, path: str) -> Any:
        form = TEXT_FORMS[type_.type]
        if type_.type == "duration" and isinstance(data, (int, float)) and not isinstance(data, bool) and not self.wire:
            data = f"{_float(data):f}s"
        if isinstance(data, form.types):
            return data
        if not isinstance(data, str):
            return self._violate("type", path, f"it must be text, not {_word(data)}")
        try:
            return parse_duration(data) if type_.type == "duration" else form.parse(data)
        except ValueError as error:
            return self._violate("form", path, f"it must be {error}")

    def _choice(self, type_: Type, data: Any, path: str) -> Any:
        if isinstance(data, str) and data in type_.choices:
            return data
        near = nearest(data, map(str, type_.choices)) if isinstance(data, str) else None
        hint = f"; did you mean {near!r}?" if near else ""
        listed = ", ".join(repr(each) for each in type_.choices)
        return self._violate("choice", path, f"it must be one of {listed}, not {data!r}{hint}")

    def _list(self, type_: Type, data: Any, path: str) -> Any:
        if not isinstance(data, (list, tuple)):
            return self._violate("type", path, f"it must be a list, not {_word(data)}")
        items = type_.items or Type("any")
        values = [self.value(items, item, f"{path}[{number}]") for number, item in enumerate(data)]
        return INVALID if INVALID in values else values

    def _set(self, type_: Type, data: Any, path: str) -> Any:
        values = self._list(type_, data, path)
        if values is INVALID:
            return INVALID
        for number, value in enumerate(values):
            if value is not UNKNOWN and value in values[:number]:
                return self._violate("duplicate", f"{path}[{number}]", "a set contains each value once")
        return values

    def _mapping(self, type_: Type, data: Any, path: str) -> Any:
        if not isinstance(data, Mapping):
            return self._violate("type", path, f"it must be a mapping, not {_word(data)}")
        keys, items = type_.keys or Type("text"), type_.items or Type("any")
        values = {}
        for key, item in data.items():
            name = key.removeprefix("$") if self.wire and isinstance(key, str) and key.startswith("$$") else key
            made = self.value(replace(keys, alias=""), name, f"{path}.{name}")
            values[name if made is INVALID else made] = self.value(items, item, f"{path}.{name}")
        return INVALID if INVALID in values.values() else values

    def _record(self, type_: Type, data: Any, path: str) -> Any:
        return self._of_record(self.schema.record(type_.record), data, path)

    def _of_record(self, record: Record, data: Any, path: str) -> Any:
        before = len(self.violations)
        self.deprecated += [(path, record.deprecated)] if record.deprecated else []
        values = self.fields(record.fields, record.rules, data, path, record.tag)
        return INVALID if len(self.violations) > before else values

    def _tagged(self, type_: Type, data: Any, path: str) -> Any:
        if not isinstance(data, Mapping):
            return self._violate("type", path, f"it must be a mapping, not {_word(data)}")
        records = {self.schema.record(each.record).tag: self.schema.record(each.record) for each in type_.members}
        tag = data.get("type")
        if not isinstance(tag, str) or tag not in records:
            listed = ", ".join(map(repr, records))
            return self._violate("choice", _at(path, "type"), f"it must be one of {listed}, not {tag!r}")
        return self._of_record(records[tag], data, path)

    def _union(self, type_: Type, data: Any, path: str) -> Any:
        """Return a value that one of the types accepts; of null and one other type, the violations of the other."""
        others = [each for each in type_.members if each.type != "none"]
        if data is None and len(others) < len(type_.members):
            return None
        if len(others) == 1:
            return self.value(others[0], data, path)
        for each in others:
            trial = Decoder(self.schema, wire=self.wire, defaults=self.defaults, environ=self.environ)
            if (value := trial.value(each, data, path)) is not INVALID and not trial.violations:
                self.references += trial.references
                self.deprecated += trial.deprecated
                return value
        return self._violate("type", path, f"no type of the union accepts {_word(data)}")

    FORMS: ClassVar[Mapping[str, Callable[[Any, Type, Any, str], Any]]] = {
        "any": _any,
        "none": _none,
        "boolean": _boolean,
        "integer": _integer,
        "number": _number,
        "text": _text,
        "reference": _reference,
        "choice": _choice,
        "list": _list,
        "set": _set,
        "mapping": _mapping,
        "record": _record,
        "tagged": _tagged,
        "union": _union,
        **dict.fromkeys(TEXT_FORMS, _written),
    }
    """Word of a type -> how its data are decoded."""


def _at(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def from_text(type_: Type, text: str) -> Any:
    """Return the data for a text of the environment. Numbers, booleans and composite types are read as JSON."""
    words = {each.type for each in members(type_)} - {"none"}
    if words & TEXTUAL:
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text  # the type refuses the text


def _float(data: float) -> float:
    """Return a number as a float; infinity for a whole number that is too large for one."""
    try:
        return float(data)
    except OverflowError:
        return math.inf


def _word(data: Any) -> str:
    """Return a description of a value without the value itself, which may be secret."""
    words = {bool: "true or false", int: "a number", float: "a number", str: "text", list: "a list", dict: "a mapping"}
    return "null" if data is None else words.get(type(data), type(data).__name__)

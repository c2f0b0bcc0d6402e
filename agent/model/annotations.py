"""Converts annotations of Python to types of the model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MinLen
from pydantic import AfterValidator, BaseModel, BeforeValidator, PlainValidator, WrapValidator
from pydantic.fields import FieldInfo

from holdfast.agent.model.types import (
    ANY,
    BOOLEAN,
    INTEGER,
    NONE,
    NUMBER,
    TEXT,
    Type,
    each,
    restricted,
    union,
    with_numbers,
)
from holdfast.resources.accepts import ITEM, VALUE, Accepted, accepted

PLAIN: Mapping[Any, Type] = {
    str: TEXT,
    Path: TEXT,
    bool: BOOLEAN,
    int: INTEGER,
    float: NUMBER,
    None: NONE,
    NoneType: NONE,
}
LISTS = (list, tuple, set, frozenset, Sequence, AbstractSet, Collection, Iterable)
MAPPINGS = (dict, Mapping)
CONVERTERS = (BeforeValidator, PlainValidator, WrapValidator)
"""Validators that may accept values of other types than the annotation."""
UNCHANGED = Accepted((VALUE,))
BOUNDS: Mapping[type, tuple[str, str]] = {
    Ge: ("minimum", "ge"),
    Le: ("maximum", "le"),
    Gt: ("above", "gt"),
    Lt: ("below", "lt"),
}
"""Class of a bound -> the member of `Type`, and the attribute with the value."""


class AnnotationReader:
    """Reads annotations, and collects the classes of the records that they name."""

    def __init__(self) -> None:
        self.records: dict[str, type[BaseModel]] = {}

    def of_field(self, field: FieldInfo) -> Type:
        """Return the values that a field accepts."""
        return self._restrict(self.read(field.annotation), field.metadata)

    def read(self, annotation: Any) -> Type:
        """Return the values that an annotation accepts; `any` for a type that has no counterpart in the model."""
        if annotation in PLAIN:
            return PLAIN[annotation]
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            self.records.setdefault(annotation.__name__, annotation)
            return Type("record", record=annotation.__name__)
        origin, arguments = get_origin(annotation) or annotation, get_args(annotation)
        if origin is Annotated:
            return self._restrict(self.read(arguments[0]), arguments[1:])
        if origin in (Union, UnionType):
            return union(map(self.read, arguments))
        if origin is Literal:
            return _choice(arguments)
        return self._container(origin, arguments)

    def _container(self, origin: Any, arguments: Sequence[Any]) -> Type:
        if origin is AsyncIterator:
            return Type("events")
        if origin in LISTS:
            return Type("list", items=union(self.read(item) for item in arguments or (Any,) if item is not Ellipsis))
        if origin in MAPPINGS:
            keys, values = arguments or (Any, Any)
            return Type("mapping", keys=self.read(keys), items=self.read(values))
        return ANY

    def _restrict(self, type_: Type, metadata: Iterable[Any]) -> Type:
        """Apply validators and bounds, in the order in which pydantic does."""
        for item in metadata:
            if isinstance(item, FieldInfo):
                type_ = self._restrict(type_, item.metadata)
            elif isinstance(item, CONVERTERS):
                type_ = self._converted(type_, accepted(item.func))
            elif isinstance(item, AfterValidator):
                type_ = self._converted(type_, accepted(item.func) or UNCHANGED)
            elif isinstance(item, MinLen):
                type_ = restricted(type_, pattern=rf"[\s\S]{{{item.min_length},}}")
            elif type(item) in BOUNDS:
                type_ = _bounded(type_, item)
            elif pattern := getattr(item, "pattern", None):
                type_ = restricted(type_, pattern=rf"[\s\S]*(?:{pattern})[\s\S]*")
        return type_

    def _converted(self, type_: Type, rule: Accepted | None) -> Type:
        """Return the values that a validator accepts: any, if it converts values without declaring which."""
        if rule is None:
            return ANY
        known = {VALUE: type_, ITEM: next((each.items for each in (type_.members or (type_,)) if each.items), ANY)}
        taken = union(known[each] if isinstance(each, str) else self.read(each) for each in rule.types)
        taken = restricted(taken, pattern=rule.pattern, choices=rule.choices)
        return with_numbers(taken) if rule.numbers else taken


def _choice(values: Sequence[Any]) -> Type:
    choices = tuple(value for value in values if value is not None)
    return union([Type("choice", choices=choices), *([NONE] if None in values else [])])


def _bounded(type_: Type, bound: Any) -> Type:
    member, attribute = BOUNDS[type(bound)]

    def change(part: Type) -> Type:
        number = part.type in ("integer", "number")
        return replace(part, **{member: getattr(bound, attribute)}) if number else part

    return each(type_, change)

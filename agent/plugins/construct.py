"""Converts between values (dicts by the names of fields) and the generated dataclasses that authors use."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Union, get_args, get_origin

from holdfast.agent.plugins.stub import Struct, tag_of
from holdfast.agent.plugins.values import UNKNOWN, Secret

_hints: dict[type, dict[str, Any]] = {}


def construct(struct: type[Any], values: Mapping[str, Any]) -> Any:
    """Return an instance of a generated dataclass. Fields that are not given are `UNSET`, which is their default."""
    if struct not in _hints:
        _hints[struct] = typing.get_type_hints(struct, localns={})  # a field may have the name of a type
    hints = _hints[struct]
    known = {each.name for each in dataclasses.fields(struct)}
    return struct(**{name: _value(hints[name], item) for name, item in values.items() if name in known})


def _value(hint: Any, value: Any) -> Any:
    if value is None or value is UNKNOWN:
        return value
    if isinstance(value, Secret):
        return Secret(_value(hint, value.value))
    if isinstance(value, Mapping):
        return _mapping(hint, value)
    if isinstance(value, list):
        inner = next((get_args(each)[0] for each in members(hint) if get_origin(each) in (list, frozenset, tuple)), Any)
        return [_value(inner, item) for item in value]
    wanted = next((each for each in members(hint) if isinstance(each, type) and issubclass(each, StrEnum)), None)
    return wanted(value) if wanted is not None and isinstance(value, str) else value


def _mapping(hint: Any, value: Mapping[str, Any]) -> Any:
    structs = [each for each in members(hint) if isinstance(each, type) and issubclass(each, Struct)]
    if structs:
        tag = value.get("type")
        struct = next((each for each in structs if tag_of(each) == tag), structs[0])
        return construct(struct, value)
    mappings = (get_args(each) for each in members(hint) if get_origin(each) in (dict, Mapping))
    keys, items = next(mappings, (Any, Any))
    return {_value(keys, key): _value(items, item) for key, item in value.items()}


def members(hint: Any) -> tuple[Any, ...]:
    """Return the types of a union, without `Secret` and other wrappers; of any other type, the type itself."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return tuple(inner for each in get_args(hint) for inner in members(each))
    return members(get_args(hint)[0]) if origin is typing.Annotated else (hint,)

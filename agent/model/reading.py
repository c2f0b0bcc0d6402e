"""Reads the dataclasses of the model from the data that `plain` returns."""

from __future__ import annotations

from dataclasses import MISSING, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
HINTS: dict[Any, dict[str, Any]] = {}
"""Class -> the types of its members, read once."""


def parse(cls: type[T], data: Any, path: str = "") -> T:
    """Return an instance of a dataclass, or of a named tuple. Raises `ValueError` with the place of the error."""
    _checked(isinstance(data, dict), data, "an object", path or "the schema")
    hints = _hints(cls)
    if unknown := sorted(set(data) - set(hints)):
        raise ValueError(f"{path or 'the schema'}: unknown member {unknown[0]!r}")
    if missing := [name for name in _required(cls) if name not in data]:
        raise ValueError(f"{path or 'the schema'}: member {missing[0]!r} is missing")
    return cls(**{name: value(hints[name], item, f"{path}.{name}".lstrip(".")) for name, item in data.items()})


def _hints(cls: Any) -> dict[str, Any]:
    if cls not in HINTS:
        HINTS[cls] = get_type_hints(cls)
    return HINTS[cls]


def _required(cls: type[Any]) -> list[str]:
    if not is_dataclass(cls):
        return [name for name in cls._fields if name not in cls._field_defaults]
    return [each.name for each in fields(cls) if each.default is MISSING and each.default_factory is MISSING]


def value(hint: Any, data: Any, path: str = "") -> Any:
    """Return data as a value of an annotation. Raises `ValueError` with the place of the error."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return data
    if origin is Literal:
        return _checked(data in arguments, data, " or ".join(map(repr, arguments)), path)
    if origin in (Union, UnionType):
        return None if data is None and NoneType in arguments else _member(arguments, data, path)
    if origin is not None:
        return _several(origin, arguments, data, path)
    if is_dataclass(hint) or hasattr(hint, "_fields"):
        return parse(hint, data, path)
    return _scalar(hint, data, path)


def _several(origin: Any, arguments: tuple[Any, ...], data: Any, path: str) -> Any:
    if origin is tuple:
        _checked(isinstance(data, list), data, "an array", path)
        return tuple(value(arguments[0], item, f"{path}[{number}]") for number, item in enumerate(data))
    _checked(isinstance(data, dict), data, "an object", path)
    return {key: value(arguments[1], item, f"{path}.{key}") for key, item in data.items()}


def _member(arguments: tuple[Any, ...], data: Any, path: str) -> Any:
    """Return a value that has one of the types; there is one composite type at most."""
    wanted = [each for each in arguments if each is not NoneType]
    if len(wanted) == 1:
        return value(wanted[0], data, path)
    fits = type(data) in wanted
    return _checked(fits, data, " or ".join(each.__name__ for each in wanted), path)


def _scalar(hint: Any, data: Any, path: str) -> Any:
    fits = type(data) is hint or (hint is float and type(data) is int)
    return _checked(fits, data, {str: "text", int: "a whole number", bool: "true or false"}.get(hint, "a number"), path)


def _checked(fits: bool, data: Any, wanted: str, path: str) -> Any:
    if not fits:
        raise ValueError(f"{path}: expected {wanted}, found {data!r}")
    return data

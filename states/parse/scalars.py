"""Converts plain YAML scalars: YAML 1.1 as Salt reads it.

`yes`, `no`, `on`, `off` are booleans. An integer with a leading zero is decimal (0644 is 644, and the digits of a file
mode are kept); `0x` and `0b` are not decimal. Timestamps stay text.
"""

from __future__ import annotations

from typing import Any

import yaml

from holdfast.resources.numbers import with_spelling

STARTERS = frozenset("0123456789+-.~nNtTfFyYoO<=")
"""First characters of plain scalars that are not text."""

DIGITS = 1000
"""Maximum length of a number. Longer scalars are text: Python would take very long to read or print them."""

_PREFIX = "tag:yaml.org,2002:"
_RESOLVERS: dict[str, list[tuple[str, Any]]] = yaml.SafeLoader.yaml_implicit_resolvers
_CONSTRUCTOR = yaml.constructor.SafeConstructor()


def resolve(text: str) -> Any:
    """Return the value of a plain scalar; a number knows its spelling.

    A scalar that only looks like a number (`0x_`, or more than DIGITS digits) is text.
    """
    if not text:
        return None
    for tag, pattern in _RESOLVERS.get(text[0], ()):
        if pattern.match(text):
            kind = tag.removeprefix(_PREFIX)
            try:
                return with_spelling(convert(kind, text), text) if kind in ("int", "float", "bool", "null") else text
            except ValueError:
                return text
    return text


def convert(kind: str, text: str) -> Any:
    """Return the value of a scalar whose type is given by a tag.

    Raises `ValueError` if the text is not of this type.
    """
    if kind == "str":
        return text
    if kind == "int":
        return integer(text)
    node = yaml.ScalarNode(f"{_PREFIX}{kind}", text)
    if kind == "float":
        if not text:
            raise ValueError("it is empty")
        return _float(node)
    if kind == "bool":
        if text.lower() not in _CONSTRUCTOR.bool_values:
            raise ValueError(f"{text!r} is not a boolean")
        return _CONSTRUCTOR.construct_yaml_bool(node)
    if kind == "null":
        return None
    raise ValueError(f"values of the type !!{kind} cannot be used in state files")


def _float(node: yaml.ScalarNode) -> float:
    """Return a float; base 60 (`1:30.5`) included. Raises `ValueError` for one that is too long or too large."""
    if len(node.value) > DIGITS:
        raise ValueError(f"it has more than {DIGITS} digits")
    try:
        return float(_CONSTRUCTOR.construct_yaml_float(node))
    except OverflowError as error:
        raise ValueError("it is too large") from error


def integer(text: str) -> int:
    """Return an integer: decimal whatever it begins with, but for `0x`, `0b` and base 60 (`1:30`).

    Raises `ValueError`.
    """
    if len(text) > DIGITS:
        raise ValueError(f"it has more than {DIGITS} digits")
    digits = text.replace("_", "")
    sign = -1 if digits.startswith("-") else 1
    digits = digits.lstrip("+-")
    if digits.startswith(("0x", "0b")):
        return sign * int(digits, 0)
    number = 0
    for part in digits.split(":"):
        number = number * 60 + int(part or "0")
    return sign * number

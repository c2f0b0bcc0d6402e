"""Restrictions: the types to which they apply, and the restricted types."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from holdfast.agent.idl.spelling import spelled
from holdfast.agent.model.reading import value as checked
from holdfast.agent.model.types import Type, TypeWord, members, union
from holdfast.resources.expressions import expression

NUMBERS: Final[tuple[TypeWord, ...]] = ("integer", "number")
LENGTHS: Final[tuple[TypeWord, ...]] = ("text", "bytes", "list", "set", "mapping")
FOR: Final[Mapping[str, tuple[TypeWord, ...]]] = {
    "minimum": NUMBERS,
    "maximum": NUMBERS,
    "above": NUMBERS,
    "below": NUMBERS,
    "pattern": ("text", "reference"),
    "shortest": LENGTHS,
    "longest": LENGTHS,
}
"""Restriction -> words of the types to which it applies."""
HINTS: Final[Mapping[str, Any]] = {"pattern": str, "shortest": int, "longest": int}
"""Restriction -> type of its value; the values of all others are numbers."""
TIGHTER: Final[Mapping[str, Any]] = {
    "minimum": max,
    "above": max,
    "shortest": max,
    "maximum": min,
    "below": min,
    "longest": min,
}


class LimitError(Exception):
    """A restriction is wrong; `option` is its name."""

    def __init__(self, option: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.option, self.hint = option, hint


def restrict(type_: Type, limits: Mapping[str, Any]) -> Type:
    """Return a type with restrictions; null is still accepted if it was before. Raises `LimitError`."""
    if not limits:
        return type_
    parts = members(type_)
    for name, limit in limits.items():
        _demand_value(name, limit)
        for part in parts:
            if part.type not in (*FOR[name], "none"):
                told = f"the restriction {name!r} is not for {spelled([part.type])}"
                raise LimitError(name, told, f"it is for {spelled(FOR[name])}")
    return union(part if part.type == "none" else _restricted(part, limits) for part in parts)


def _demand_value(name: str, limit: Any) -> None:
    try:
        checked(HINTS.get(name, float), limit)
    except ValueError as error:
        raise LimitError(name, f"the restriction {name!r} has a wrong value{error}") from None
    if name in ("shortest", "longest") and limit < 0:
        raise LimitError(name, f"the restriction {name!r} is a length, which is not negative")
    if name == "pattern":
        try:
            expression(limit)
        except (re.error, RecursionError, OverflowError) as error:
            raise LimitError(name, f"this is not a regular expression: {error}") from None


def _restricted(type_: Type, limits: Mapping[str, Any]) -> Type:
    found: dict[str, Any] = {"alias": ""}
    for name, limit in limits.items():
        if name == "pattern":
            found["patterns"] = (*type_.patterns, limit)
        else:
            before = getattr(type_, name)
            found[name] = limit if before is None else TIGHTER[name](before, limit)
    made = replace(type_, **found)
    _demand_some(made, limits)
    return made


def _demand_some(type_: Type, limits: Mapping[str, Any]) -> None:
    """Raise `LimitError` if no value satisfies all restrictions."""
    for least, most in (("minimum", "maximum"), ("minimum", "below"), ("above", "maximum"), ("above", "below")):
        low, high = getattr(type_, least), getattr(type_, most)
        empty = (
            low is not None and high is not None and (low > high or (low == high and least + most != "minimummaximum"))
        )
        if empty:
            raise LimitError(most if most in limits else least, f"no number is between {least}={low} and {most}={high}")
    if type_.shortest is not None and type_.longest is not None and type_.shortest > type_.longest:
        option = "longest" if "longest" in limits else "shortest"
        raise LimitError(option, f"no length is between shortest={type_.shortest} and longest={type_.longest}")

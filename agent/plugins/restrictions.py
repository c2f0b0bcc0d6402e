"""Conditions on values beyond their types: the restrictions of one value, and the rules of several fields."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from holdfast.agent.model.model import Field, Rule
from holdfast.agent.model.types import Type
from holdfast.agent.plugins.values import UNKNOWN, Violation, revealed
from holdfast.resources.expressions import Unbounded, expression

LENGTHS = {"text": "characters", "bytes": "bytes", "list": "items", "set": "items", "mapping": "entries"}
"""Word of a type whose values have a length -> the unit of that length."""


def restriction(type_: Type, value: Any) -> tuple[str, str] | None:
    """Return the code and the message of the first restriction of a type that a value violates."""
    if type_.type in ("integer", "number") and (told := _out_of_range(type_, value)):
        return "range", told
    if type_.type in LENGTHS and (told := _wrong_length(type_, len(value))):
        return "length", told
    matched = type_.patterns if isinstance(value, str) else ()  # a reference may be a declaration
    wrong = next((each for each in matched if not _matches(each, value)), None)
    return None if wrong is None else ("pattern", f"it must match {wrong!r}")


def _matches(pattern: str, text: str) -> bool:
    """Return whether a pattern matches a whole text. If the match takes too long, the text does not match."""
    try:
        return expression(pattern).fullmatch(text) is not None
    except Unbounded:
        return False


def _out_of_range(type_: Type, value: float) -> str:
    if type_.minimum is not None and value < type_.minimum:
        return f"it must be at least {type_.minimum}, not {value}"
    if type_.maximum is not None and value > type_.maximum:
        return f"it must be at most {type_.maximum}, not {value}"
    if type_.above is not None and value <= type_.above:
        return f"it must be greater than {type_.above}, not {value}"
    if type_.below is not None and value >= type_.below:
        return f"it must be less than {type_.below}, not {value}"
    return ""


def _wrong_length(type_: Type, length: int) -> str:
    unit = LENGTHS[type_.type]
    if type_.shortest is not None and length < type_.shortest:
        return f"it must have at least {type_.shortest} {unit}, not {length}"
    if type_.longest is not None and length > type_.longest:
        return f"it must have at most {type_.longest} {unit}, not {length}"
    return ""


def broken(rules: Iterable[Rule], values: Mapping[str, Any], fields: Sequence[Field], path: str) -> Iterator[Violation]:
    """Yield the rules that these values violate. A rule whose outcome depends on an unknown value is skipped."""
    known = {each.name for each in fields}
    for rule in rules:
        names = [name for name in rule.fields if name in known]
        given = {name: revealed(values[name]) for name in names if name in values and values[name] is not None}
        if any(value is UNKNOWN for value in given.values()) and rule.rule == "ordered":
            continue
        if told := _told(rule, names, given):
            yield Violation("rule", path, told)


def _told(rule: Rule, names: Sequence[str], given: Mapping[str, Any]) -> str:
    listed = ", ".join(names)
    count = len(given)
    if rule.rule == "ordered":
        pairs = itertools.pairwise(name for name in names if name in given)
        wrong = next(((a, b) for a, b in pairs if _greater(given[a], given[b])), None)
        return f"{wrong[0]} must not be greater than {wrong[1]}" if wrong else ""
    holds = {
        "exactly one": count == 1,
        "at most one": count <= 1,
        "at least one": count >= 1,
        "together": count in (0, len(names)),
    }[rule.rule]
    wanted = {"together": "all of them or none"}.get(rule.rule, f"{rule.rule} of them")
    return "" if holds else f"{wanted} must be given: {listed}"


def _greater(first: Any, second: Any) -> bool:
    """Return whether a value is greater than another; values of types that cannot be compared are not."""
    try:
        return bool(first > second)
    except TypeError:
        return False

"""Compares two answers about a tree. Of changes, only the keys are compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Answer = Mapping[str, Any]
"""`errors`; or `low`, the rows of each mode in order of execution, and under "MODE disk" the content of the disk."""
Row = Mapping[str, Any]
"""id, state, fun, name, result, ran, why (the state did not run), changes (their keys), comment."""
Found = tuple[str, str]
"""An aspect (`compiles`, `low`, `order`, `result`, `ran`, `why`, `changes`, `disk`), and the difference in it."""


def differences(salt: Answer, ours: Answer, modes: Sequence[str]) -> list[Found]:
    """Yield every difference between two answers about one tree."""
    if "errors" in salt or "errors" in ours:
        return (
            []
            if "errors" in salt and "errors" in ours
            else [("compiles", f"Salt: {_brief(salt)}\nours: {_brief(ours)}")]
        )
    found = list(_lists("low", salt["low"], ours["low"]))
    for mode in modes:
        found += [
            (aspect, f"{mode}: {text}") for aspect, text in _runs(salt[mode], ours[mode], _looked_at(salt["low"]))
        ]
        found += [(aspect, f"{mode}: {text}") for aspect, text in _disks(salt[f"{mode} disk"], ours[f"{mode} disk"])]
    return found


def _brief(answer: Answer) -> str:
    return f"errors {answer['errors']}" if "errors" in answer else f"{len(answer['low'])} states"


def _lists(aspect: str, salt: Sequence[Any], ours: Sequence[Any]) -> Iterator[Found]:
    """Compare two lists whose items must be equal, one by one."""
    for number in range(max(len(salt), len(ours))):
        theirs, own = (items[number] if number < len(items) else None for items in (salt, ours))
        if theirs != own:
            yield aspect, f"{number}.\n  Salt: {theirs}\n  ours: {own}"


def _identity(row: Row) -> str:
    return f"{row['state']}.{row['fun']}[{row['id']}:{row['name']}]"


def _looked_at(low: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the targets of prereqs. Salt may report their test run as their run, and does not say so."""
    return {
        f"{chunk['state']}.{chunk['fun']}[{chunk['__id__']}:{chunk['name']}]" for chunk in low if "prerequired" in chunk
    }


def _runs(salt: Sequence[Row], ours: Sequence[Row], looked_at: set[str]) -> Iterator[Found]:
    """Compare the order of execution, then each row."""
    if any("raised" in row for row in salt):
        yield "result", f"Salt gave up: {salt[0]['raised']}"
        return
    yield from _lists("order", [_identity(row) for row in salt], [_identity(row) for row in ours])
    own = {_identity(row): row for row in ours}
    for row in salt:
        other = own.get(_identity(row))
        if other is None:
            continue
        unsaid = ("ran", "why") if other["why"] == "prereq" and row["ran"] and _identity(row) in looked_at else ()
        for aspect in [aspect for aspect in ("result", "ran", "why", "changes") if aspect not in unsaid]:
            if row[aspect] != other[aspect]:
                words = [f"{side[aspect]} ({side['comment']})" for side in (row, other)]
                yield aspect, f"{aspect} of {_identity(row)}\n  Salt: {words[0]}\n  ours: {words[1]}"


def _disks(salt: Mapping[str, str], ours: Mapping[str, str]) -> Iterator[Found]:
    for name in sorted({*salt, *ours}):
        if salt.get(name) != ours.get(name):
            yield "disk", f"{name}\n  Salt: {salt.get(name)!r}\n  ours: {ours.get(name)!r}"

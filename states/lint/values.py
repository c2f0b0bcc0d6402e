"""Helpers for values of arguments, and the rule on values that a template makes of a missing value."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from holdfast.states.compile.low import CONTROL
from holdfast.states.declare.high import Item
from holdfast.states.errors import Problem
from holdfast.states.lint.rule import Subject, rule
from holdfast.states.parse.marks import Map, Mark, Seq
from holdfast.states.template.analysis import EXPRESSION

NOTHING = re.compile(r"(?:\S*[/=:@])?None(?:[/:@]\S*)?")
"""A value with the text of a missing value: `None`, `/srv/None`, `None:staff`."""


@rule
def nothing(subject: Subject) -> Iterator[Problem]:
    """Yield values with the word None, which a template prints for a missing value."""
    for call in subject.calls:
        for key, item in call.chunk.items.items():
            if key in CONTROL and key != "name":
                continue
            for name, value, mark in texts(key, item.value, item.mark):
                if NOTHING.fullmatch(value.strip()) and _made_of_nothing(item, mark):
                    text = (
                        f"the value of {name!r} contains the text None, which the template prints for a missing value"
                    )
                    hint = "give a default, pillar.get('key', 'value'), or leave the argument out: {% if ... %}"
                    yield item.document.problem(mark, "value-none", text, hint)


def texts(key: str, value: Any, mark: Mark | None) -> Iterator[tuple[str, str, Mark | None]]:
    """Yield every text in a value, with the nearest key above it, and its mark."""
    if isinstance(value, str):
        if value:
            yield key, value, mark
    elif isinstance(value, Map):
        for name, inner in value.items():
            yield from texts(str(name), inner, value.marks.get(name, mark))
    elif isinstance(value, Seq):
        for index, inner in enumerate(value):
            yield from texts(key, inner, value.marks[index] if index < len(value.marks) else mark)


def stands_there(item: Item, value: str, mark: Mark | None) -> bool:
    """Return whether a value is written in the file, and does not come from a template."""
    if item.document.lines is None:
        return True
    first = value.split("\n", 1)[0]
    return any(first in EXPRESSION.sub("", line) for line in _lines(item, mark))


def _made_of_nothing(item: Item, mark: Mark | None) -> bool:
    """Return whether the word None comes from a template, and is not written in it."""
    if item.document.lines is None:
        return False
    lines = _lines(item, mark)
    return any(EXPRESSION.search(line) for line in lines) and not any("None" in line for line in lines)


def _lines(item: Item, mark: Mark | None) -> list[str]:
    """Return the line of a mark and the next one, because a block scalar begins below its key."""
    location = item.document.location(mark)
    return [item.document.line_text(location.file, location.line + n) for n in (0, 1)]

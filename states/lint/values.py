"""The values of arguments: every text in them, whether it stands in the file, and the rule on those that a template makes of nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from holdfast.states.errors import Problem
from holdfast.states.high import Item
from holdfast.states.lint.rule import Subject, rule
from holdfast.states.lint.template import EXPRESSION
from holdfast.states.low import CONTROL
from holdfast.states.marks import Map, Mark, Seq

NOTHING = re.compile(r"(?:\S*[/=:@])?None(?:[/:@]\S*)?")
"""A value that a template has made of nothing, or one with such a part: `None`, `/srv/None`, `None:staff`."""


@rule
def nothing(subject: Subject) -> Iterator[Problem]:
    """Values that are the word None: what is not there has no other text in templates, and it passes for a name or a content."""
    for call in subject.calls:
        for key, item in call.chunk.items.items():
            if key in CONTROL and key != "name":
                continue
            for name, value, mark in texts(key, item.value, item.mark):
                if NOTHING.fullmatch(value.strip()) and _made_of_nothing(item, mark):
                    text = f"the value of {name!r} has the text None, which the template makes of what is not there"
                    hint = "give a default, pillar.get('key', 'value'), or leave the argument out: {% if ... %}"
                    yield item.document.problem(mark, "value-none", text, hint)


def texts(key: str, value: Any, mark: Mark | None) -> Iterator[tuple[str, str, Mark | None]]:
    """Every text in a value, with the nearest key above it, and where it stands."""
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
    """Whether a value stands in the file as it is, and was not put there by a template."""
    if item.document.lines is None:
        return True
    first = value.split("\n", 1)[0]
    return any(first in EXPRESSION.sub("", line) for line in _lines(item, mark))


def _made_of_nothing(item: Item, mark: Mark | None) -> bool:
    """Whether a template has put the word None there; it may also say it itself."""
    if item.document.lines is None:
        return False
    lines = _lines(item, mark)
    return any(EXPRESSION.search(line) for line in lines) and not any("None" in line for line in lines)


def _lines(item: Item, mark: Mark | None) -> list[str]:
    """The line of a mark and the next one: the text of a block begins below its key."""
    place = item.document.place(mark)
    return [item.document.line_text(place.file, place.line + n) for n in (0, 1)]

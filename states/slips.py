"""Slips of indentation and spacing: text that YAML takes, but for something else than was meant."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

from holdfast.states.high import FUNCTION, Item

_GLUED = re.compile(r"([A-Za-z_]\w*):\S.*", re.DOTALL)
"""An argument without a space after its colon."""
BOOLEAN = "YAML reads yes, no, on, off, true and false as booleans: quote what is to be text"


def deeper(key: str, example: str) -> str:
    """The hint for a key below which a list was expected, and nothing is: its items may stand beside it."""
    return f"indent the lines below '- {key}:' that belong to it, so that they begin right of its dash: '  - {example}'"


def glued(items: Sequence[Item]) -> tuple[Item, str] | None:
    """The first item that is an argument without a space after its colon, and the argument's name."""
    for item in items:
        if item.key == FUNCTION and (found := _GLUED.fullmatch(item.value)):
            return item, found[1]
    return None


def beside(items: Sequence[Item]) -> str:
    """The argument without a value that a text stands directly below, which should perhaps belong to it; empty where there is none."""
    first = next(item for item in items if item.key == FUNCTION)
    return next((above.key for above, item in pairwise(items) if item is first and above.value is None), "")


def no_list(key: str, value: object) -> str:
    """The hint for a key of an ID whose value is no list of arguments: it may be an argument itself."""
    if value is None:
        return "remove the colon, or add arguments below it: '- name: value'"
    if "." not in key and not isinstance(value, Mapping):
        return f"if {key!r} is an argument, write '- {key}: ...', and indent it below its function"
    return "write each argument as an item: '- name: value'"

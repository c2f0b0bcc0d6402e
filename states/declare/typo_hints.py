"""Hints for typing errors in indentation and spacing that are valid YAML with another meaning."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

from holdfast.states.declare.high import FUNCTION, Item

_GLUED = re.compile(r"([A-Za-z_]\w*):\S.*", re.DOTALL)
"""An argument without a space after its colon."""
BOOLEAN = "YAML reads yes, no, on, off, true and false as booleans: quote them if text is meant"


def deeper(key: str, example: str) -> str:
    """Return the hint for a key without its list: the items may not be indented below the key."""
    return f"indent the lines that belong to '- {key}:', so that they begin to the right of its dash: '  - {example}'"


def glued(items: Sequence[Item]) -> tuple[Item, str] | None:
    """Return the first item that is an argument without a space after its colon, and its name.

    None if there is none.
    """
    for item in items:
        if item.key == FUNCTION and (found := _GLUED.fullmatch(item.value)):
            return item, found[1]
    return None


def beside(items: Sequence[Item]) -> str:
    """Return the name of the argument without a value directly above the first function, which may be its value.

    Empty if there is none.
    """
    first = next(item for item in items if item.key == FUNCTION)
    return next((above.key for above, item in pairwise(items) if item is first and above.value is None), "")


def no_list(key: str, value: object) -> str:
    """Return the hint for a key of an ID whose value is not a list of arguments: the key may itself be an argument."""
    if value is None:
        return "remove the colon, or add arguments below it: '- name: value'"
    if "." not in key and not isinstance(value, Mapping):
        return f"if {key!r} is an argument, write '- {key}: ...', and indent it below its function"
    return "write each argument as an item: '- name: value'"

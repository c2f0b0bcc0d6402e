"""Functions for nested data: finding a value by its path, and merging mappings."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

MISSING: Any = object()
"""Stands for "there is no such value" where None is one."""


def traverse(data: Any, key: Any, default: Any = "", delimiter: str = ":") -> Any:
    """Return the value at a path in nested data; `default` if there is none.

    The path is a list of keys, or text with `delimiter` between the keys. In a list, a number is a position, and a word
    is searched for in the mappings of the list.
    """
    for part in key.split(delimiter) if isinstance(key, str) else [key] if isinstance(key, int) else key:
        data = _step(data, part)
        if data is MISSING:
            return default
    return data


def _step(data: Any, part: Any) -> Any:
    """Return the value one level down; MISSING if there is none."""
    key = int(part) if isinstance(part, str) and part.lstrip("-").isdecimal() else part
    if isinstance(data, Mapping):
        return data[part] if part in data else data.get(key, MISSING)
    return _item(data, key) if isinstance(data, (list, tuple)) else MISSING


def _item(items: Sequence[Any], key: Any) -> Any:
    """Return the value of a key in the mappings of a list, or the item at a position; MISSING if there is neither."""
    inner = next((item[key] for item in items if isinstance(item, Mapping) and key in item), MISSING)
    if inner is MISSING and isinstance(key, int) and -len(items) <= key < len(items):
        return items[key]
    return inner


def merge(base: Any, over: Any, *, lists: bool = False, strategy: str = "smart") -> Any:
    """Merge `over` into `base`, recursively; lists are replaced or, if `lists`, concatenated.

    With the strategy `list`, two values of one key become a list of both; with `overwrite`, keys of the first level are
    replaced as a whole. The other strategies are the same as `recurse`; for values without YAML tags, `aggregate` also
    takes the later one.
    """
    if not (isinstance(base, Mapping) and isinstance(over, Mapping)):
        return _joined(base, over) if lists else over
    if strategy == "list":
        return _paired(base, over)
    result = copy.copy(base) if isinstance(base, dict) else dict(base)
    for key, value in over.items():
        whole = key not in result or strategy in {"overwrite", "aggregate"}
        result[key] = value if whole else merge(result[key], value, lists=lists)
    return result


def _paired(base: Mapping[Any, Any], over: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return the keys of `base`; a key of both mappings has a list of both values."""
    return {key: [value, over[key]] if key in over else value for key, value in base.items()}


def _joined(base: Any, over: Any) -> Any:
    """Return one list of the items of two lists, each once; `over` if one of the two is not a list."""
    if not (isinstance(base, list) and isinstance(over, list)):
        return over
    return [*base, *(item for item in over if item not in base)]

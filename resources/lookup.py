"""Values in nested data (the pillar, the grains), found by a key like `app:users:0:name`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.resources.errors import Permanent
from holdfast.resources.spelling import nearest

MANY = 1000
"""Greatest number of keys of a mapping that are searched for a similar one; more would take too long."""


def lookup_value(data: Mapping[str, Any], key: str, delimiter: str, where: str) -> Any:
    """Return the value of a key like `a:b`; a number is an index of a list. Raises `Permanent` if there is none."""
    value: Any = data
    for part in key.split(delimiter):
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, (list, tuple)) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        else:
            near = near_key(data, key, delimiter)
            hint = f" (did you mean {near!r}?)" if near else ""
            raise Permanent(f"cannot find {key!r} in the {where}: there is no {part!r}{hint}")
    return value


def near_key(data: object, key: str, delimiter: str = ":") -> str | None:
    """Return the existing key that a missing key probably means; None if no key is similar."""
    parts = _near(data, key.split(delimiter))
    return None if parts is None else delimiter.join(parts)


def near_name(data: Mapping[Any, Any], name: str) -> str | None:
    """Return the key of one mapping that a missing key probably means; the search does not count as reading grains."""
    keys = dict.keys(data) if isinstance(data, dict) else data.keys()
    return nearest(name, [key for key in keys if isinstance(key, str)]) if len(keys) <= MANY else None


def _near(data: object, parts: Sequence[str]) -> list[str] | None:
    """Return the parts of an existing key: each part as given, or the most similar one; None if there is none."""
    if not parts:
        return []
    if not isinstance(data, Mapping):
        return None
    part = parts[0] if parts[0] in data else near_name(data, parts[0])
    rest = None if part is None else _near(data[part], parts[1:])
    return None if part is None or rest is None else [part, *rest]

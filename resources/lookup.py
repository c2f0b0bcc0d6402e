"""Values in nested data (the pillar, the grains), found by a key like `app:users:0:name`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.resources.errors import Permanent


def lookup_value(data: Mapping[str, Any], key: str, delimiter: str, where: str) -> Any:
    """Return the value of a key like `a:b`; a number is an index of a list. Raises `Permanent` if there is none."""
    value: Any = data
    for part in key.split(delimiter):
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, (list, tuple)) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        else:
            raise Permanent(f"cannot find {key!r} in the {where}: there is no {part!r}")
    return value

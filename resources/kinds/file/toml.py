"""Write TOML, which Python's library can only read."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

BARE = re.compile(r"[A-Za-z0-9_-]+")
"""Matches keys that need no quotes."""
INTEGERS = range(-(1 << 63), 1 << 63)
"""Integers that every reader of TOML accepts."""


def document(data: Any) -> str:
    """Return a mapping as TOML. Raises `ValueError` for data that TOML cannot express."""
    if not isinstance(data, Mapping):
        raise ValueError("it needs a mapping")  # noqa: TRY004 - all errors of formats are ValueErrors
    return "".join(f"{line}\n" for line in _table(data, ())).lstrip("\n")


def _table(table: Mapping[Any, Any], path: tuple[str, ...]) -> Iterator[str]:
    """Yield the lines of a table: first its values, then the tables below it, each after a blank line."""
    below = {name: value for name, value in table.items() if _is_table(value) or _is_tables(value)}
    yield from (f"{_key(name)} = {_value(value)}" for name, value in table.items() if name not in below)
    for name, value in below.items():
        inner = (*path, _key(name))
        tables, brackets = ([value], "[{}]") if _is_table(value) else (value, "[[{}]]")
        for each in tables:
            yield ""
            yield brackets.format(".".join(inner))
            yield from _table(each, inner)


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_tables(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and bool(value) and all(_is_table(each) for each in value)


def _key(name: Any) -> str:
    if not isinstance(name, str):
        raise ValueError(f"the key {name!r} is not text: write it in quotes")  # noqa: TRY004 - as above
    return name if BARE.fullmatch(name) else _quoted(name)


def _quoted(text: str) -> str:
    """Return a text in quotes. TOML has the escapes of JSON but also requires one for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    """Return a value as a part of a line."""
    match value:
        case bool():
            written = "true" if value else "false"
        case str():
            written = _quoted(value)
        case float():
            written = str(value)  # TOML has the same words `inf` and `nan`
        case int() if value in INTEGERS:
            written = str(value)
        case dt.date() | dt.time():
            written = value.isoformat()
        case list() | tuple():
            written = f"[{', '.join(map(_value, value))}]"
        case Mapping():
            written = f"{{{', '.join(f'{_key(name)} = {_value(each)}' for name, each in value.items())}}}"
        case _:
            raise ValueError(f"TOML has no {'null' if value is None else value}")
    return written

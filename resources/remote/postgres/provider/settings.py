"""Settings for new sessions of a role (ALTER ROLE ... SET)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import LiteralString

from psycopg import sql

from holdfast import plugin

LISTS = frozenset(["local_preload_libraries", "search_path", "session_preload_libraries", "temp_tablespaces"])
"""Settings whose value is a list of names; each name is quoted by itself."""
ITEM = re.compile(r'\s*(?:"((?:[^"]|"")*)"|([^,]*?))\s*(?:,|$)')


def parsed(entries: Iterable[str]) -> dict[str, str]:
    """Parse the server's entries, `name=value`."""
    return {name: value for name, _, value in (each.partition("=") for each in entries)}


def as_declared(actual: Mapping[str, str], declared: Mapping[str, str] | plugin.Unset) -> dict[str, str]:
    """Return the server's settings. One that means the same as the declared value is written as declared.

    The server changes the case of names (`TimeZone`), and spaces and quotes in lists.
    """
    wanted = {} if isinstance(declared, plugin.Unset) else {name.lower(): (name, declared[name]) for name in declared}
    found = {}
    for each, value in actual.items():
        name, other = wanted.get(each.lower(), (each, value))
        found[name] = other if _items(each, value) == _items(each, other) else value
    return found


def altered(
    what: LiteralString, owner: str, before: Mapping[str, str], after: Mapping[str, str] | plugin.Unset
) -> Iterator[sql.Composed]:
    """Yield the statements that make the settings as declared; none if settings are not declared."""
    if isinstance(after, plugin.Unset):
        return
    start = sql.SQL(what)
    for name in sorted(before.keys() - after.keys()):
        yield sql.SQL("ALTER {} {} RESET {}").format(start, sql.Identifier(owner), _name(name))
    for name, value in sorted(after.items()):
        if before.get(name) != value:
            listed = sql.SQL(", ").join(map(sql.Literal, _items(name, value)))
            yield sql.SQL("ALTER {} {} SET {} = {}").format(start, sql.Identifier(owner), _name(name), listed)


def _name(name: str) -> sql.Identifier:
    """Return the name of a setting; that of an extension's setting has a dot."""
    return sql.Identifier(*name.split("."))


def _items(name: str, value: str) -> list[str]:
    """Return the value as one literal, or as one literal for each item of a list."""
    if name.lower() not in LISTS or not value.strip():
        return [value]
    found, position = [], 0
    while position < len(value) and (match := ITEM.match(value, position)):
        found.append(match[1].replace('""', '"') if match[1] is not None else match[2].lower())
        position = match.end()
    return found

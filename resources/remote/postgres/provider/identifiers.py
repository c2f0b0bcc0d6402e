"""Identifiers of resources: names with slashes between them, such as `shop/app` for a schema."""

from __future__ import annotations

from collections.abc import Collection

from holdfast import plugin

LONGEST = 63
"""Greatest number of bytes of a name; PostgreSQL truncates a longer one silently."""


def joined(*names: str) -> str:
    """Return the identifier that consists of these names."""
    return "/".join(each.replace("%", "%25").replace("/", "%2F") for each in names)


def parts(identifier: str) -> tuple[str, ...]:
    """Return the names of an identifier."""
    return tuple(each.replace("%2F", "/").replace("%25", "%") for each in identifier.split("/"))


def wrong_name(field: str, name: object) -> list[plugin.Violation]:
    """Return what is wrong with a name in the server, or with a set of names; nothing for None."""
    if isinstance(name, Collection) and not isinstance(name, str):
        return [wrong for each in name for wrong in wrong_name(field, each)]
    if not isinstance(name, str):
        return []
    if "\0" in name:
        return [plugin.Violation("form", field, "a name in PostgreSQL has no NUL character")]
    length = len(name.encode(errors="replace"))
    if not 0 < length <= LONGEST:
        return [plugin.Violation("length", field, f"a name in PostgreSQL has 1 to {LONGEST} bytes, not {length}")]
    return []


def wrong_schema(field: str, identifier: object, database: str | None = None) -> list[plugin.Violation]:
    """Return what is wrong with the identifier of a schema, if it is given; `database`: the one that it must be in."""
    if not isinstance(identifier, str):
        return []
    names = parts(identifier)
    if database is not None and names[0] != database:
        return [plugin.Violation("rule", field, f"the schema must be in the database {database!r}")]
    return [each for name in names for each in wrong_name(field, name)]

"""Fields of accounts: how wanted and present values are compared, and which values an account file cannot hold."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from holdfast.resources.interfaces.errors import ArgumentError
from holdfast.resources.interfaces.results import User
from holdfast.resources.providers._etc import GECOS

FIELDS = frozenset({"uid", "gid", "groups", "home", "shell", *GECOS})
"""Fields of `add` and `modify`."""
TYPES: Mapping[str, tuple[Any, str]] = {
    "uid": (int, "a number"),
    "gid": (str | int, "a number or a name"),
    "home": (str, "a text"),
    "shell": (str, "a text"),
}
"""Field -> its type, and what messages call it; other fields are texts, which may look like numbers."""
NOT_IN_NAMES = re.compile(r"^-|[\s:,/\x00-\x1f\x7f]|^$")
"""Finds what would end the field of an account file, or make a tool read the name as an option."""


def known(user: User, field: str, wanted: Any = None) -> Any:
    """Return the present value of a field; of `gid` the name of the group if the wanted value is a name."""
    if field == "gid" and isinstance(wanted, str):
        return user.primary_group
    return user.extra.get(field) if field in GECOS[1:] else getattr(user, field)


def plain(value: Any) -> Any:
    """Return a value of a field as `known` returns it: groups sorted, and None for an empty text."""
    return (value or None) if isinstance(value, str) else value if isinstance(value, int) else tuple(sorted(value))


def comment(fields: Mapping[str, Any], user: User | None = None) -> str:
    """Return the comment field of passwd; parts that `fields` does not have stay as they are."""
    parts = [str(fields.get(part, known(user, part) if user else None) or "") for part in GECOS]
    return ",".join(parts).rstrip(",")


def demand_name(what: str, kind: str, name: str) -> None:
    """Raise `ArgumentError` for a name that no account file can have, or that a tool would take for an option."""
    if NOT_IN_NAMES.search(name):
        raise ArgumentError(f"cannot {what}: invalid {kind} name {name!r}")


PATHS = ("home", "shell")
"""Fields that are paths."""


def demand_fields(what: str, fields: Mapping[str, Any]) -> None:
    """Raise `ArgumentError` for a field that does not exist, or a value that the account file cannot hold.

    A text must not end the field; each value must have the type of its field.
    """
    if unknown := sorted(fields.keys() - FIELDS):
        known = ", ".join(sorted(FIELDS))
        raise ArgumentError(f"cannot {what}: there is no field {', '.join(unknown)}; the fields are {known}")
    for field, value in fields.items():
        demand_type(what, field, value)
        ends = ":\n\0," if field in GECOS[:-1] else ":\n\0"
        if isinstance(value, str) and (found := [sign for sign in value if sign in ends]):
            raise ArgumentError(f"cannot {what}: the {field} cannot have {found[0]!r} in it")
        if field in PATHS and value and not value.startswith("/"):
            raise ArgumentError(f"cannot {what}: the {field} must be an absolute path, not {value!r}")


def demand_type(what: str, field: str, value: Any) -> None:
    """Raise `ArgumentError` for a value that is neither None nor of the type of its field."""
    if field == "groups":
        several = isinstance(value, (list, tuple, set, frozenset))
        fits, wanted = several and all(isinstance(each, str) for each in value), "a list of names"
    else:
        types, wanted = TYPES.get(field, (str | int, "a text"))
        fits = isinstance(value, types) and not isinstance(value, bool)
    if value is not None and not fits:
        raise ArgumentError(f"cannot {what}: the {field} must be {wanted}, not {value!r}")

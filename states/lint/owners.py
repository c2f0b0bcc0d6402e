"""The rule on files without a declared owner in the directory of a user."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from holdfast.resources.contract import Resource
from holdfast.states.errors import Problem
from holdfast.states.lint.rule import Subject, rule

HOMES = "/home/"
ROOT = frozenset({"root", "0"})
OWNED = frozenset({"file.managed", "file.directory", "file.recurse", "file.symlink", "file.copy", "file.serialize"})
"""Kinds that make something with an owner."""


@rule
def undeclared(subject: Subject) -> Iterator[Problem]:
    """Yield files that root will own, in a directory that a state gives to a user, or in a home.

    Later edits refuse such files, because the user could have moved another file there.
    """
    owners = dict(_owners(subject))
    for call in subject.calls:
        resource = call.resource
        if resource.kind not in OWNED or getattr(resource, "user", None) is not None:
            continue
        user, directory = _whose(resource.name, owners)
        if user not in ROOT:
            text = (
                f"{resource.name} will belong to root, because no owner is declared, and {directory} belongs to {user}"
            )
            yield call.chunk.spot.problem(
                "owner-undeclared", text, f"add '- user: {user}', or '- user: root' if that is intended"
            )


def _owners(subject: Subject) -> Iterator[tuple[str, str]]:
    """Yield directories with the owner that a state declares."""
    for call in subject.calls:
        resource = call.resource
        if resource.kind in {"file.directory", "file.recurse"} and (user := getattr(resource, "user", None)):
            yield resource.name, str(user)
        elif resource.kind == "user.present" and (home := _home(resource)):
            yield home, resource.name


def _home(user: Resource) -> str | None:
    home = getattr(user, "home", None)
    return posixpath.normpath(home) if isinstance(home, str) and home.startswith("/") else None


def _whose(path: str, owners: dict[str, str]) -> tuple[str, str]:
    """Return (user, directory) of the nearest directory above a path with a known owner.

    Root and `/` if there is none.
    """
    above = posixpath.dirname(path)
    while above != "/":
        if above in owners:
            return owners[above], above
        if posixpath.dirname(above) + "/" == HOMES:
            return posixpath.basename(above), above
        above = posixpath.dirname(above)
    return "root", "/"

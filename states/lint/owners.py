"""The rule on files in the directory of a user for which no owner is declared."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from holdfast.resources.contract import Resource
from holdfast.states.errors import Problem
from holdfast.states.lint.rule import Subject, rule

HOMES = "/home/"
ROOT = frozenset({"root", "0"})
OWNED = frozenset({"file.managed", "file.directory", "file.recurse", "file.symlink", "file.copy"})
"""Kinds that make something whose owner may be declared."""


@rule
def undeclared(subject: Subject) -> Iterator[Problem]:
    """Files that will be root's, in a directory that a state gives to a user, or in a home.

    What is root's there is neither edited nor gone through afterwards: the user could have moved something else there.
    """
    owners = dict(_owners(subject))
    for call in subject.calls:
        resource = call.resource
        if resource.kind not in OWNED or getattr(resource, "user", None) is not None:
            continue
        user, directory = _whose(resource.name, owners)
        if user not in ROOT:
            text = f"{resource.name} will be root's, for no owner is declared, and {directory} belongs to {user}"
            yield call.chunk.spot.problem(
                "owner-undeclared", text, f"add '- user: {user}', or say '- user: root' if it is meant so"
            )


def _owners(subject: Subject) -> Iterator[tuple[str, str]]:
    """Directories of which a state says whose they are."""
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
    """(user, directory) of the nearest directory above a path that is somebody's; root's where nothing is known."""
    above = posixpath.dirname(path)
    while above != "/":
        if above in owners:
            return owners[above], above
        if posixpath.dirname(above) + "/" == HOMES:
            return posixpath.basename(above), above
        above = posixpath.dirname(above)
    return "root", "/"

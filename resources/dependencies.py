"""Dependencies between resources, from which automatic edges are made (`traits.Edgeable`).

Dependencies and offers follow from the declaration of a resource alone. Types of uids: `path`, `user`, `group`
and `pkg` for the things themselves, `unit-file` for the file of a unit, `unit-part` for a drop-in file of a unit,
`repositories` for all places that packages may come from.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

UNIT_FILE, UNIT_PART = "unit-file", "unit-part"
REPOSITORIES = "repositories"
"""Type of the uid that all states of repositories of packages offer."""
UNITS = (
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
)
"""Directories in which systemd looks for units."""
BY_NUMBER = frozenset({"user", "group"})
"""Types that others refer to by number.

A user or group that is created again may have another number, and no event reports that.
"""
_UNIT = rf"(?:{'|'.join(UNITS)})/(?:([^/]+\.[a-z]+)|([^/]+\.[a-z]+)\.d/[^/]+\.conf)"
_BEHIND = (
    rf"(?:{'|'.join(UNITS)})/(?:(?:[^/]+\.(?:wants|requires|upholds)/)?([^/]+\.[a-z]+)|([^/]+\.[a-z]+)\.d/[^/]+\.conf)"
)
CACHED = 4096
"""Number of cached dependencies; many resources have equal ones."""
RUNNERS = frozenset(
    [
        "sh",
        "bash",
        "dash",
        "ksh",
        "zsh",
        "python",
        "python3",
        "perl",
        "ruby",
        "node",
        "php",
        "env",
        "sudo",
        "nice",
        "nohup",
        "timeout",
        "setsid",
        "exec",
        "source",
        ".",
    ]
)
"""Programs that run another program, named in their arguments."""


class Dependency(NamedTuple):
    """One thing that another resource may provide: type and value of its uid."""

    type: str
    value: str
    vital: bool = True
    """Whether the resource fails without it; the compiler then warns if the provider comes later in the order."""
    above: bool = False
    """For paths: if no resource provides this path, depend on the nearest parent that one provides."""
    every: bool = False
    """Depend on all earlier resources that offer the uid, not only on the last: the thing has several parts."""


def lies_in(path: str, *, vital: bool = True) -> Dependency:
    """Return the dependency on the directory of a path, or on its nearest managed parent."""
    return _lies_in(path.rpartition("/")[0] or "/", vital)


@lru_cache(CACHED)
def _lies_in(directory: str, vital: bool) -> Dependency:
    return Dependency("path", directory, vital, above=True)


@lru_cache(CACHED)
def owned_by(user: str | None, group: str | None) -> tuple[Dependency, ...]:
    """Return the dependencies on a user and a group. A number is not a dependency."""
    named = (("user", user), ("group", group))
    return tuple([Dependency(word, name) for word, name in named if name and not name.isdigit()])


def unit_parts(path: str) -> tuple[tuple[str, str], ...]:
    """Return the uid of the unit that a file defines or is a drop-in of, if any."""
    if "/systemd/system/" not in path or not (found := re.fullmatch(_UNIT, path)):
        return ()
    return ((UNIT_FILE, found[1]) if found[1] else (UNIT_PART, found[2]),)


def unit_behind(path: str) -> tuple[tuple[str, str], ...]:
    """Return the uid of the unit that a change of this path changes, if any.

    The path may be the file or link of the unit, a drop-in file of the unit, or the link by which another unit starts
    the unit.
    """
    found = re.fullmatch(_BEHIND, path) if "/systemd/system/" in path else None
    return (("unit", found[1] or found[2]),) if found else ()


def unit_dependencies(unit: str) -> tuple[Dependency, ...]:
    """Return what a unit depends on: its file and drop-ins, those of its template, the package of its name."""
    stem, _, suffix = unit.rpartition(".")
    names = [unit, f"{stem.partition('@')[0]}@.{suffix}"] if "@" in stem else [unit]
    made = [Dependency(UNIT_FILE, name, every=True) for name in names]
    return (
        *made,
        *[Dependency(UNIT_PART, name, vital=False, every=True) for name in names],
        Dependency("pkg", stem.partition("@")[0], vital=False),
    )


def programs(command: str) -> Iterator[str]:
    """Yield the absolute paths that the beginning of a command runs: `/opt/x`, `sh /opt/x`, `A=1 nice /opt/x -v`."""
    try:
        words = shlex.split(command.partition("\n")[0])
    except ValueError:
        return
    running = True
    for word in words:
        if word.startswith("/"):
            yield posixpath.normpath(word)
            running = posixpath.basename(word) in RUNNERS
        elif not (word in RUNNERS or word.startswith("-") or "=" in word or word.isdigit()):
            running = False
        if not running:
            return

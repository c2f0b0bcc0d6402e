"""What a resource needs of others, and what it offers them: the words of automatic edges (`traits.Edgeable`).

Both are pure: they follow from the declaration alone. The types of uids that are in use: `path`, `user`, `group`, `pkg` for the things
themselves, `unit-file` for the file that makes a unit, `unit-part` for one that adds to it.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

UNIT_FILE, UNIT_PART = "unit-file", "unit-part"
UNITS = (
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
)
"""Directories in which units are looked for."""
BY_NUMBER = frozenset({"user", "group"})
"""Types of what others know by a number, which is another when it was made anew: no event of theirs tells them."""
_UNIT = re.compile(rf"(?:{'|'.join(UNITS)})/(?:([^/]+\.[a-z]+)|([^/]+\.[a-z]+)\.d/[^/]+\.conf)")
_BEHIND = re.compile(
    rf"(?:{'|'.join(UNITS)})/(?:(?:[^/]+\.(?:wants|requires|upholds)/)?([^/]+\.[a-z]+)|([^/]+\.[a-z]+)\.d/[^/]+\.conf)"
)
CACHED = 4096
"""Needs that many have in common, and that are therefore kept."""
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
"""Programs that run what is named after them."""


class Need(NamedTuple):
    """One thing that somebody else may make: a uid of whom to wait for, if anybody has it."""

    type: str
    value: str
    vital: bool = True
    """Without it this fails: a state that stands before the one that makes it is worth a word."""
    above: bool = False
    """Of paths: where nobody makes this one, the nearest above it that somebody makes."""
    every: bool = False
    """All who offer it before this one, not just the last: it is made of several parts."""


def lies_in(path: str, *, vital: bool = True) -> Need:
    """The directory in which a path lies, or the nearest above it."""
    return _lies_in(path.rpartition("/")[0] or "/", vital)


@lru_cache(CACHED)
def _lies_in(directory: str, vital: bool) -> Need:
    return Need("path", directory, vital, above=True)


@lru_cache(CACHED)
def owned_by(user: str | None, group: str | None) -> tuple[Need, ...]:
    """A user and a group that must exist; numbers need nobody."""
    named = (("user", user), ("group", group))
    return tuple([Need(word, name) for word, name in named if name and not name.isdigit()])


def unit_parts(path: str) -> tuple[tuple[str, str], ...]:
    """The uid of the unit that a file makes or adds to: none for most files."""
    if "/systemd/system/" not in path or not (found := _UNIT.fullmatch(path)):
        return ()
    return ((UNIT_FILE, found[1]) if found[1] else (UNIT_PART, found[2]),)


def unit_behind(path: str) -> tuple[tuple[str, str], ...]:
    """The uid of the unit that is another when this path is: its file or link, one that adds to it, or the link that has it started by another unit."""
    found = _BEHIND.fullmatch(path) if "/systemd/system/" in path else None
    return (("unit", found[1] or found[2]),) if found else ()


def unit_needs(unit: str) -> tuple[Need, ...]:
    """What makes a unit: its file, what adds to that, the same of its template, and a package of its name."""
    stem, _, suffix = unit.rpartition(".")
    names = [unit, f"{stem.partition('@')[0]}@.{suffix}"] if "@" in stem else [unit]
    made = [Need(UNIT_FILE, name, every=True) for name in names]
    return (
        *made,
        *[Need(UNIT_PART, name, vital=False, every=True) for name in names],
        Need("pkg", stem.partition("@")[0], vital=False),
    )


def programs(command: str) -> Iterator[str]:
    """The absolute paths of what a command runs, as far as its beginning says: `/opt/x`, `sh /opt/x`, `A=1 nice /opt/x -v`."""
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

"""Who can write the files that git reads: configuration, hooks, references, objects, and their targets."""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Iterator
from contextlib import suppress

from holdfast.resources import paths
from holdfast.resources.paths.handle import ABSENT
from holdfast.resources.paths.place import Place
from holdfast.resources.paths.trust import Weakness

POINTER = "gitdir: "
"""Beginning of a `.git` file; the path of the repository follows."""
LONGEST = 1 << 13
"""Maximum size, in bytes, of a file that contains a path or a list of paths."""
BARE = ("HEAD", "objects", "refs")
"""Entries by which git recognises a directory as a repository."""
NAMES = (*BARE, "config")


def weak_at(path: str) -> Weakness | None:
    """Return why others can write or replace the target of this path. Raises `OSError`."""
    place = paths.at(path, follow=True)
    return place.weakness(place.pin()[1])


def weak_repository(directory: str) -> Weakness | None:
    """Return why others can write the data of git for a work tree, or those of a bare repository.

    These are all files in the repository, those of work trees and submodules included, and the directories that they
    name: hooks that are links, alternate objects, the common directory of several work trees. Blocks. Raises `OSError`.
    """
    left, seen = [*_tops(directory)], set[str]()
    while left:
        with suppress(*ABSENT):  # git creates and removes files meanwhile
            place = paths.at(left.pop(), follow=True)
            info = place.pin()[1]
            if weak := place.weakness(info):
                return weak
            if stat.S_ISDIR(info.st_mode) and place.real not in seen:
                seen.add(place.real)
                for entry, status in _entries(place.real):
                    if (weak := entry.weakness(status)) is not None:
                        return weak
                    if not stat.S_ISREG(status.st_mode):
                        left.append(entry.real)
                    else:
                        left += _led_to(entry)
    return None


def _tops(directory: str) -> list[str]:
    """Return the paths that must be safe: `.git` and its target. Raises `OSError`.

    Without `.git`, the directory may be a bare repository or any other directory; then only some names matter.
    """
    try:
        place = paths.at(f"{directory}/.git", follow=True)
        seen = place.look()
    except ABSENT:
        return []
    if seen is None:
        names = [name for name in NAMES if paths.exists(f"{directory}/{name}")]
        return [directory] if {*BARE} <= {*names} else [f"{directory}/{name}" for name in names]
    if not stat.S_ISREG(seen.st_mode):
        return [place.path]
    return [place.path, posixpath.join(directory, _text(place).removeprefix(POINTER))]


def _entries(directory: str) -> Iterator[tuple[Place, os.stat_result]]:
    found = paths.directory(directory)
    for name in found.names():
        entry = found.entry(name)
        if (status := entry.look()) is not None:
            yield entry, status


def _led_to(entry: Place) -> list[str]:
    """Return the directories that a file names."""
    if entry.name == "alternates":
        directory = posixpath.dirname(posixpath.dirname(entry.real))
        return [posixpath.join(directory, line) for line in _text(entry).split("\n") if line and line[0] != "#"]
    return [posixpath.join(posixpath.dirname(entry.real), _text(entry))] if entry.name == "commondir" else []


def _text(place: Place) -> str:
    return os.fsdecode(place.read(LONGEST)).rstrip("\n")

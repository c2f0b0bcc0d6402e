"""A directory that others are made like: what is in it, and which part of that is meant."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from holdfast.resources.errors import Permanent
from holdfast.resources.kinds.file.base import telling, what
from holdfast.resources.kinds.file.trees import matches
from holdfast.resources.temporaries import is_temporary


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing in the directory; `inside` is its path below that."""

    inside: str
    mode: int
    """Type and mode, those of what a link leads to where links are followed."""
    target: str | None = None
    """Where a link leads, if it is taken as a link."""

    @property
    def is_directory(self) -> bool:
        """Whether it is one, and not a link to one that is taken as a link."""
        return self.target is None and stat.S_ISDIR(self.mode)


@dataclass(frozen=True, slots=True)
class Choice:
    """Which entries are meant: patterns as `trees.matches` has them, levels below the directory, directories without files."""

    include: Collection[str] = ()
    exclude: Collection[str] = ()
    depth: int | None = None
    empty: bool = False

    def means(self, inside: str) -> bool:
        """Whether a path is meant."""
        if self.depth is not None and inside.count("/") > self.depth:
            return False
        return (not self.include or matches(inside, self.include)) and not matches(inside, self.exclude)


def read_tree(top: str, choice: Choice, *, keep_links: bool) -> list[Entry]:
    """What is meant of a directory, with the directories on the way there, sorted: those before what is in them.

    Blocks. Raises `Permanent` for a link that leads nowhere or back, and for what is neither file, link nor directory.
    """
    entries = {entry.inside: entry for entry in _walk(top, "", keep_links, ())}
    meant = {inside for inside, entry in entries.items() if choice.means(inside) and (choice.empty or not entry.is_directory)}
    meant |= {parent for inside in meant for parent in parents(inside)}
    return [entries[inside] for inside in sorted(meant, key=lambda inside: inside.split("/"))]


def parents(inside: str) -> Iterator[str]:
    """The directories that a path below a directory leads through, innermost first."""
    while "/" in inside:
        inside = inside.rpartition("/")[0]
        yield inside


def _walk(top: str, inside: str, keep_links: bool, above: tuple[tuple[int, int], ...]) -> Iterator[Entry]:
    directory = os.path.join(top, inside) if inside else top  # noqa: PTH118 - Path objects are slow
    with telling("look through", directory):
        here = os.stat(directory)  # noqa: PTH116 - the same
        names = os.listdir(directory)  # noqa: PTH208 - the same
    if (here.st_dev, here.st_ino) in above:
        raise Permanent(
            f"cannot copy {directory}: it is a link that leads back to a directory above it; set keep_symlinks: true, or remove it"
        )
    for name in names:
        if not is_temporary(name):
            entry = _entry(top, f"{inside}/{name}" if inside else name, keep_links)
            yield entry
            if entry.is_directory:
                yield from _walk(top, entry.inside, keep_links, (*above, (here.st_dev, here.st_ino)))


def _entry(top: str, inside: str, keep_links: bool) -> Entry:
    path = os.path.join(top, inside)  # noqa: PTH118 - Path objects are slow
    with telling("look at", path):
        seen = os.lstat(path)
        if stat.S_ISLNK(seen.st_mode):
            if keep_links:
                return Entry(inside, seen.st_mode, os.readlink(path))  # noqa: PTH115 - the same
            seen = os.stat(path)  # noqa: PTH116 - the same
    if not (stat.S_ISREG(seen.st_mode) or stat.S_ISDIR(seen.st_mode)):
        raise Permanent(f"cannot copy {path}: it is {what(seen.st_mode)}; remove it, or exclude it elsewhere")
    return Entry(inside, seen.st_mode)


def by_directory(entries: Iterable[Entry]) -> Iterator[tuple[str, list[Entry]]]:
    """The entries of each directory, outer ones first."""
    found: dict[str, list[Entry]] = {}
    for entry in entries:
        found.setdefault(entry.inside.rpartition("/")[0], []).append(entry)
    yield from found.items()

"""The entries of a directory to copy, and their selection."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from holdfast.resources import paths
from holdfast.resources.errors import Permanent
from holdfast.resources.kinds.file.base import os_errors
from holdfast.resources.kinds.file.disk import kept_mode
from holdfast.resources.kinds.file.trees import EntryBudget, matches
from holdfast.resources.paths import Place, Unsafe
from holdfast.resources.paths.handle import what
from holdfast.resources.temporaries import is_temporary


@dataclass(frozen=True, slots=True)
class SourceEntry:
    """One entry; `inside` is its path below the directory."""

    inside: str
    mode: int
    """Type and mode; those of the target if links are followed."""
    target: str | None = None
    """Target of a link that is copied as a link."""

    @property
    def is_directory(self) -> bool:
        """Whether the entry is a directory and not a link that is copied as a link."""
        return self.target is None and stat.S_ISDIR(self.mode)


@dataclass(frozen=True, slots=True)
class EntrySelection:
    """Selection of entries: by patterns as in `trees.matches`, by levels, and with or without empty directories."""

    include: Collection[str] = ()
    exclude: Collection[str] = ()
    depth: int | None = None
    empty: bool = False

    def means(self, inside: str) -> bool:
        """Return whether a path is selected."""
        if self.depth is not None and inside.count("/") > self.depth:
            return False
        return (not self.include or matches(inside, self.include)) and not matches(inside, self.exclude)


def read_tree(top: str, choice: EntrySelection, *, keep_links: bool) -> list[SourceEntry]:
    """Return the selected entries of a directory and their parents, sorted so that a directory precedes its content.

    Blocks. Raises `Permanent` for a dangling link, a link to a parent, and types other than files, links and
    directories.
    """
    entries = {entry.inside: entry for entry in _walk(top, "", keep_links, (), EntryBudget())}
    meant = {
        inside for inside, entry in entries.items() if choice.means(inside) and (choice.empty or not entry.is_directory)
    }
    meant |= {parent for inside in meant for parent in parents(inside)}
    return [entries[inside] for inside in sorted(meant, key=lambda inside: inside.split("/"))]


def dump(entries: Sequence[SourceEntry]) -> bytes:
    """Return entries as text."""
    return json.dumps([(entry.inside, entry.mode, entry.target) for entry in entries]).encode()


def load(listing: bytes) -> list[SourceEntry]:
    """Return the entries from a text of `dump`."""
    return [SourceEntry(*row) for row in json.loads(listing)]


def file_names(listing: bytes) -> Iterator[str]:
    """Yield the paths, below the directory, of the files in such a text."""
    return (
        entry.inside
        for entry in (load(listing) if listing else ())
        if entry.target is None and stat.S_ISREG(entry.mode)
    )


def parents(inside: str) -> Iterator[str]:
    """Yield the parents of a path below a directory, innermost first."""
    while "/" in inside:
        inside = inside.rpartition("/")[0]
        yield inside


def _walk(
    path: str, inside: str, keep_links: bool, above: tuple[tuple[int, int], ...], budget: EntryBudget
) -> Iterator[SourceEntry]:
    """Yield the entries of a directory and below it; follow safe links. Other links are an error."""
    with os_errors("walk", path):
        directory = paths.directory(path)
        names = list(directory.names())
    if directory.closed:
        raise Unsafe(f"cannot copy {path}: it is closed to others, and {directory.reason}")
    here = (directory.info.st_dev, directory.info.st_ino)
    if here in above:
        raise Permanent(
            f"cannot copy {path}: it is a link to a directory above it; set keep_symlinks: true, or remove it"
        )
    for name in names:
        budget.spend(directory, len(above))
        if not is_temporary(name):
            entry = _entry(directory.entry(name), f"{inside}/{name}" if inside else name, keep_links)
            yield entry
            if entry.is_directory:
                yield from _walk(f"{path.rstrip('/')}/{name}", entry.inside, keep_links, (*above, here), budget)


def _entry(place: Place, inside: str, keep_links: bool) -> SourceEntry:
    with os_errors("inspect", place.path):
        seen = place.look()
        if seen is not None and stat.S_ISLNK(seen.st_mode):
            if keep_links:
                if place.weakness(seen) is not None or place.who(seen):
                    raise Unsafe(
                        f"cannot copy {place.path} as a link: root would own the link, "
                        f"and {place.directory.reason or 'it belongs to another user'}"
                    )
                return SourceEntry(inside, seen.st_mode, place.readlink())
            place = paths.at(place.path, follow=True)
            seen = place.look()
        if seen is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), place.path)
    if not (stat.S_ISREG(seen.st_mode) or stat.S_ISDIR(seen.st_mode)):
        raise Permanent(f"cannot copy {place.path}: it is {what(seen.st_mode)}; remove or exclude it")
    return SourceEntry(inside, kept_mode(place, seen))


def by_directory(entries: Iterable[SourceEntry]) -> Iterator[tuple[str, list[SourceEntry]]]:
    """Yield the entries of each directory, outer directories first."""
    found: dict[str, list[SourceEntry]] = {}
    for entry in entries:
        found.setdefault(entry.inside.rpartition("/")[0], []).append(entry)
    yield from found.items()

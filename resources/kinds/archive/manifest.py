"""The items of an extracted archive by path, and their comparison with the content of the directory."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple, TypeVar

from holdfast.resources.kinds.archive.members import (
    ArchiveMember,
    BadArchive,
    Content,
    ExtractionBudget,
    Type,
    shown,
)
from holdfast.resources.kinds.file.trees import enter
from holdfast.resources.paths import Place, SafeDirectory
from holdfast.resources.paths.handle import ABSENT, Handle

PAST = 2_000_000_000
"""Minimum age, in nanoseconds, of a modification time that no later write can have."""
STRETCH, PAUSE = 256, 0.001
"""Number of items between two pauses, and seconds of a pause, in which the event loop can run."""
TYPES: Mapping[int, Type] = {stat.S_IFDIR: "directory", stat.S_IFREG: "file", stat.S_IFLNK: "link"}


class ManifestItem(NamedTuple):
    """One file, directory or link of an extracted archive."""

    path: str
    type: Type
    mode: int = 0
    mtime: int = 0
    value: str = ""
    """SHA-256 of a file, target of a link."""
    size: int = 0
    origin: str = ""
    """Path, in the archive, of the file whose other name this is."""
    looks: tuple[int, ...] = ()
    """Metadata that prove that the file has this content; empty if the file has to be read."""


T = TypeVar("T")
Manifest = dict[str, ManifestItem]
"""Path -> item."""


def paced(items: Iterable[T]) -> Iterator[T]:
    """Yield all items, with pauses in which the event loop can run."""
    for number, item in enumerate(items):
        if number % STRETCH == STRETCH - 1:
            time.sleep(PAUSE)
        yield item


def ordered(paths: Iterable[str]) -> list[str]:
    """Return paths in an order in which the content of each directory directly follows it."""
    return sorted(paths, key=lambda path: path.replace("/", "\0"))  # the smallest character, which no path contains


def added(manifest: Manifest, member: ArchiveMember, budget: ExtractionBudget) -> None:
    """Add a member and its missing parents. Raises `BadArchive` if it contradicts earlier members.

    Another name of an earlier file counts as a copy of that file.
    """
    parent = member.path.rpartition("/")[0]
    while parent:
        above = manifest.setdefault(parent, ManifestItem(parent, "directory", 0o755))
        if above.type != "directory":
            raise BadArchive(f"it has {shown(member.path)} below {shown(parent)}, which is a {above.type}")
        parent = parent.rpartition("/")[0]
    there = manifest.get(member.path)
    if there is not None and (there.type == "directory") != (member.type == "directory"):
        raise BadArchive(f"it has {shown(member.path)} twice, as a {there.type} and as a {member.type}")
    value, size, origin = member.target, member.size, ""
    if member.type == "file":
        first = manifest[member.target] if member.target else None
        if first is not None:
            value, size, origin = first.value, first.size, first.path
            budget.spend(size)
    manifest[member.path] = ManifestItem(member.path, member.type, member.mode, member.mtime, value, size, origin)


def read(
    members: Iterable[tuple[ArchiveMember, Content]], budget: ExtractionBudget, stop: Callable[[], None]
) -> Manifest:
    """Return the items of an archive with the hashes of its files; write nothing. Blocks. Raises `BadArchive`."""
    manifest: Manifest = {}
    for member, content in paced(members):
        added(manifest, member, budget)
        if member.type == "file" and not member.target:
            found, size = hashlib.sha256(), 0
            for piece in content():
                stop()
                found.update(piece)
                size += len(piece)
            manifest[member.path] = manifest[member.path]._replace(value=found.hexdigest(), size=size)
    return manifest


class Walker:
    """Visits the entries below a directory in the order of `ordered`; holds open only the directories on the path."""

    def __init__(self, top: SafeDirectory) -> None:
        self._stack: list[tuple[str, SafeDirectory]] = [("", top)]

    def place(self, path: str) -> Place | None:
        """Return the place of a path; None if its parent does not exist or is not a directory.

        Raises `OSError` and `Unsafe`.
        """
        parent, _, name = path.rpartition("/")
        directory = self.directory(parent)
        return None if directory is None else directory.entry(name)

    def directory(self, path: str) -> SafeDirectory | None:
        """Return the directory at a path; None if it is not a directory or does not exist."""
        while self._stack[-1][0] and not f"{path}/".startswith(f"{self._stack[-1][0]}/"):
            self._stack.pop()
        above, here = self._stack[-1]
        for name in path[len(above) :].strip("/").split("/") if path != above else ():
            place = here.entry(name)
            seen = place.look()
            inside = enter(place, seen) if seen is not None and stat.S_ISDIR(seen.st_mode) else None
            if inside is None:
                return None
            above, here = f"{above}/{name}".lstrip("/"), inside
            self._stack.append((above, here))
        return here


class TreeDifference(NamedTuple):
    """The differences between a directory and a manifest."""

    missing: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    """Files and links with other content."""
    conflicts: tuple[str, ...] = ()
    """Paths with an entry of another type."""
    owners: tuple[str, ...] = ()
    """Paths with another owner."""
    hashed: tuple[str, ...] = ()
    """Files whose content had to be read."""

    @property
    def differs(self) -> bool:
        """Whether there is a difference."""
        return bool(self.missing or self.changed or self.conflicts or self.owners)

    @property
    def extracted(self) -> tuple[str, ...]:
        """The paths to extract."""
        return (*self.missing, *self.changed, *self.conflicts)


class ComparisonOptions(NamedTuple):
    """What counts as a difference."""

    uid: int = -1
    gid: int = -1
    left: Collection[str] = frozenset()
    """Paths that only have to exist: their content, type and owner are left to others."""


def compare(top: SafeDirectory | None, manifest: Manifest, rules: ComparisonOptions) -> TreeDifference:
    """Return the differences. Blocks. Raises `OSError`, `Unsafe` and `Permanent`."""
    if top is None:
        return TreeDifference(tuple(ordered(manifest)))
    found: dict[str, list[str]] = {name: [] for name in TreeDifference._fields}
    walker = Walker(top)
    for path in paced(ordered(manifest)):
        kind = _compared(walker, manifest[path], rules, found["hashed"])
        if kind:
            found[kind].append(path)
    return TreeDifference(*(tuple(each) for each in found.values()))


def _compared(walker: Walker, item: ManifestItem, rules: ComparisonOptions, hashed: list[str]) -> str:
    """Return the key of the difference of one item; empty if it does not differ."""
    place = walker.place(item.path)
    seen = None if place is None else place.look()
    if place is None or seen is None:
        return "missing"
    if item.path in rules.left:
        return ""
    if TYPES.get(stat.S_IFMT(seen.st_mode)) != item.type:
        return "conflicts"
    if not _same(place, seen, item, hashed):
        return "changed"
    wrong = (rules.uid >= 0 and seen.st_uid != rules.uid) or (rules.gid >= 0 and seen.st_gid != rules.gid)
    return "owners" if wrong else ""


def _same(place: Place, seen: os.stat_result, item: ManifestItem, hashed: list[str]) -> bool:
    """Return whether an entry has the content of the item. Add files that have to be read to `hashed`."""
    if item.type == "directory":
        return True
    if item.type == "link":
        return place.readlink() == item.value
    if item.looks == looks(seen):
        return True
    if seen.st_size != item.size:
        return False
    with suppress(*ABSENT):
        handle, _ = place.open(seen)
        hashed.append(item.path)
        return hash_of(handle, item.size) == item.value
    return False


def hash_of(handle: Handle, size: int) -> str:
    """Return the SHA-256 of an open file. Read at most `size` + 1 bytes, because a file may grow forever. Blocks."""
    found, at = hashlib.sha256(), 0
    while piece := os.pread(handle.fd, min(1 << 20, size + 1 - at), at):
        found.update(piece)
        at += len(piece)
    return found.hexdigest()


def looks(info: os.stat_result) -> tuple[int, ...]:
    """Return metadata that change whenever the content of a file changes."""
    return info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns


def looked(top: SafeDirectory, manifest: Manifest, paths: Iterable[str], since: int) -> Manifest:
    """Return the manifest with the present metadata of these files.

    Their content was compared or written after `since` (nanoseconds). A file that may have been written since then is
    read again at the next comparison. Blocks. Raises `OSError` and `Unsafe`.
    """
    walker, found = Walker(top), dict(manifest)
    for path in paced(ordered(paths)):
        item = manifest[path]
        place = walker.place(path) if item.type == "file" else None
        seen = None if place is None else place.look()
        if seen is not None:
            given = seen.st_mtime_ns == item.mtime * 1_000_000_000
            steady = seen.st_mtime_ns < since - PAST and (given or seen.st_ctime_ns < since - PAST)
            found[path] = item._replace(looks=looks(seen) if steady else ())
    return found

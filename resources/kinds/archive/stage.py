"""Extraction into a private directory, from which complete files are moved to the destination.

The private directory is in the destination, so moving a file is a rename. If the agent is killed, the directory stays;
the next run removes it. The agent opens each directory below it by the descriptor of the parent directory, and follows
no link.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

from holdfast.resources.errors import HoldfastError
from holdfast.resources.kinds.archive.manifest import Manifest, ManifestItem, Walker, added, ordered, paced
from holdfast.resources.kinds.archive.members import ArchiveMember, BadArchive, Content, ExtractionBudget, shown
from holdfast.resources.kinds.file.removal import remove
from holdfast.resources.paths import Place, SafeDirectory
from holdfast.resources.paths.handle import Handle
from holdfast.resources.temporaries import OWN, TEMPORARY, give_back, take_name

NAME = "archive"
PART = 1 << 20
"""Maximum bytes of a file that are copied at once."""


@dataclass
class Stage:
    """The private directory of an extraction. A context manager, which removes what is left in it. Blocks."""

    top: SafeDirectory
    """The destination."""
    budget: ExtractionBudget
    uid: int
    gid: int
    stop: Callable[[], None]
    """Raises an exception if the run has been cancelled."""
    told: Callable[[int], None]
    """Called with the number of bytes that have been written so far."""
    demand: Callable[[ManifestItem], None]
    """Raises an exception for an item that must not be extracted into the destination."""
    manifest: Manifest = field(default_factory=dict)
    _place: Place | None = None
    _walker: Walker | None = None
    _written: int = 0

    def __enter__(self) -> Self:
        """Create the private directory. Raises `OSError` and `Unsafe`."""
        sweep(self.top)
        self._place = self.top.entry(take_name(NAME))
        try:
            self._walker = Walker(self._place.mkdir(mode=0o700))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the private directory."""
        self._walker = None
        if self._place is not None:
            with suppress(OSError, HoldfastError):  # the next run removes it
                discard(self._place)
            give_back(self._place.name)

    def extract(self, members: Iterable[tuple[ArchiveMember, Content]], wanted: Collection[str] | None) -> None:
        """Extract all or the wanted members. Raises `BadArchive`, `OSError` and `Unsafe`."""
        for member, content in paced(members):
            self.stop()
            added(self.manifest, member, self.budget)
            top = self.manifest[member.path.partition("/")[0]]
            self.demand(top)
            if wanted is None or member.path in wanted:
                self._put(self.manifest[member.path], member, content)

    def _put(self, item: ManifestItem, member: ArchiveMember, content: Content) -> None:
        parent, _, name = item.path.rpartition("/")
        place = self._directory(parent).entry(name)
        seen = place.look()
        if item.type == "directory":
            if seen is None:
                place.mkdir(self.uid, self.gid, item.mode)
            else:  # the archive has some of the directory's content before the directory
                handle = place.enter().open()
                os.fchmod(handle.fd, item.mode)
            return
        if seen is not None:  # a later member with the same path replaces the earlier member
            place.unlink(own=True)
        if item.type == "link":
            place.symlink(item.value, self.uid, self.gid)
        elif item.origin:
            self._copy(place, item)
        else:
            self._write(place, item, content)

    def _write(self, place: Place, item: ManifestItem, content: Content) -> None:
        handle, found, size = place.create(0o600), hashlib.sha256(), 0
        for piece in content():
            self.stop()
            found.update(piece)
            self._append(handle, piece)
            size += len(piece)
        self.manifest[item.path] = item._replace(value=found.hexdigest(), size=size)
        self._finish(handle, item)

    def _copy(self, place: Place, item: ManifestItem) -> None:
        """Copy an earlier file for which the archive has a second name."""
        parent, _, name = item.origin.rpartition("/")
        origin, _ = self._directory(parent).entry(name).open()
        self._directory(item.path.rpartition("/")[0])
        handle, at = place.create(0o600), 0
        while piece := os.pread(origin.fd, PART, at):
            self.stop()
            self._append(handle, piece)
            at += len(piece)
        self._finish(handle, item)

    def _append(self, handle: Handle, piece: bytes) -> None:
        handle.write(piece)
        self._written += len(piece)
        self.told(self._written)

    def _finish(self, handle: Handle, item: ManifestItem) -> None:
        """Give a complete file its owner, mode and time."""
        os.fchown(handle.fd, self.uid, self.gid)
        os.fchmod(handle.fd, item.mode)
        os.utime(handle.fd, (item.mtime, item.mtime))

    def _directory(self, path: str) -> SafeDirectory:
        """Return a directory in the private directory; create it if it is missing."""
        if self._walker is None:
            raise RuntimeError("cannot extract before the stage is entered")
        found = self._walker.directory(path)
        if found is None:
            parent, _, name = path.rpartition("/")
            place = self._directory(parent).entry(name)
            if place.look() is not None:
                raise BadArchive(f"it has members below {shown(path)}, which is not a directory")
            place.mkdir(self.uid, self.gid, self.manifest[path].mode)
            found = self._walker.directory(path)
        if found is None:
            raise BadArchive(f"it has members below {shown(path)}, which is not a directory")
        return found

    # -- into place --------------------------------------------------------------------------------------------

    def place(self, paths: Iterable[str], moved: list[str], changing: Callable[[], None]) -> None:
        """Move extracted entries to these paths. A directory that does not exist there is moved as a whole.

        An existing entry is replaced. Each path is added to `moved`. `changing` is called before each change.
        Raises `OSError` and `HoldfastError`.
        """
        if self._walker is None:
            raise RuntimeError("cannot move before the stage is entered")
        here, there, whole = self._walker, Walker(self.top), ""
        for path in paced(ordered(paths)):
            if whole and path.startswith(whole):
                moved.append(path)
                continue
            item = self.manifest[path]
            to, staged = there.place(path), here.place(path)
            if to is None or staged is None:
                raise BadArchive(f"{shown(path)} was changed by another process during the extraction")
            seen = to.look()
            changing()
            if seen is not None and (item.type == "directory") != stat.S_ISDIR(seen.st_mode):
                remove(to)
                seen = None
            if item.type != "directory":
                staged.rename(to)
            elif seen is None:
                staged.rename(to)
                whole = f"{path}/"
            moved.append(path)


def sweep(top: SafeDirectory) -> None:
    """Remove the private directories of killed agents from the destination."""
    for name in list(top.names()):
        found = TEMPORARY.fullmatch(os.fsencode(name)) if name.startswith(f".{NAME}.holdfast-") else None
        if found is None or name in OWN:
            continue
        place, pid = top.entry(name), int(found[1], 16)
        seen = place.look()
        if seen is not None and stat.S_ISDIR(seen.st_mode) and (pid == os.getpid() or not _runs(pid)):
            with suppress(OSError, HoldfastError):
                discard(place)


def discard(place: Place) -> None:
    """Remove what was extracted but not moved, without keeping it. Raises `OSError` and `Unsafe`."""
    try:
        inside = place.enter()
        for name in list(inside.names()):
            discard(inside.entry(name))
        place.rmdir()
    except NotADirectoryError:  # a file or link, possibly one that a user has put in place of the directory
        place.unlink(own=True)
    except FileNotFoundError:
        return


def _runs(pid: int) -> bool:
    """Return whether a process exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True

"""Content that repairs replace or remove, as files named by its SHA-256 in the directory `kept` of the agent's state.

A file is on the disk before the repair continues. Some content is not kept: more than `largest` bytes, content that is
or may be secret, and everything while the disk is full. The reason is reported then, and the repair continues. The
files are private from the first byte. When there is no room for a new one, the oldest are removed; a file that is kept
again counts as new. Their times of change give their order, even if the clock was wrong: each is later than all earlier
ones. Several processes may use the directory.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import threading
import time
from collections.abc import Callable, Container
from contextlib import suppress
from contextvars import Token

from holdfast.agent import disk_room
from holdfast.agent.host.files import Replacement
from holdfast.agent.kept_bounds import KeptBounds
from holdfast.agent.phrases import number_of
from holdfast.resources import paths
from holdfast.resources.diff import hidden
from holdfast.resources.errors import HoldfastError, refused_call
from holdfast.resources.paths import Place
from holdfast.resources.paths.handle import ABSENT, Handle, read_whole
from holdfast.resources.paths.place import SafeDirectory
from holdfast.resources.paths.replacing import KEEPER, Keeper
from holdfast.resources.replaced import ReplacedFile
from holdfast.resources.report import Report
from holdfast.resources.secrets import Redactor
from holdfast.resources.temporaries import is_temporary

KEPT = "kept"
"""Name of the directory."""
BLOCK = 4096
"""Fewest bytes that a file counts for: small files take space, too."""
MOST = 100
"""Most files that one run keeps."""
SHARE = 4
"""One run keeps at most this fraction of the space: the removal of one directory must not displace all others."""
YOUNG, STEP = 60.0, 0.001
"""Seconds for which content that is kept again still counts as new; least seconds between two times of change."""
UNENCRYPTED = "such content is not kept, because it cannot be encrypted yet"


class KeptFiles:
    """The kept files of one host. Thread-safe; all methods block."""

    def __init__(self, state_dir: str, bounds: KeptBounds, *, durable: bool) -> None:
        self.use(bounds, durable=durable)
        self._state_dir = state_dir
        self._directory = f"{self._state_dir}/{KEPT}"
        self._own: tuple[str, ...] = ()
        """Beginnings of paths below the state directory; empty before they are first needed."""
        self._lock = threading.Lock()
        self._used = 0
        """Bytes of all files, as of `_known`."""
        self._newest = 0.0
        """Time of the newest of them."""
        self._known: tuple[int, ...] = ()
        """The directory's inode and time of change when its files were last counted."""

    def use(self, bounds: KeptBounds, *, durable: bool) -> None:
        """Apply settings; `durable`: content is flushed before it counts as kept."""
        self.bounds, self._durable = bounds, durable

    def concerns(self, place: Place) -> bool:
        """Return whether the entry is a file of this host, and not one of the agent's own."""
        if not self._own:
            self._own = (f"{paths.resolve(self._state_dir)}/", f"{self._state_dir}/")
        return not is_temporary(place.name) and not place.real.startswith(self._own)

    def keep(self, data: bytes) -> str:
        """Put content on the disk, unless it is there; return its SHA-256. Raises `OSError` and `Unsafe`."""
        digest = hashlib.sha256(data).hexdigest()
        with self._lock:
            place = self._place(digest)
            self._count(place.directory)
            clock, least = time.time(), self._newest + STEP
            now = max(clock, least)
            if (seen := place.look()) and _holds(place, seen, data):
                if now - seen.st_mtime > YOUNG:  # a write to the disk, which flapping must not repeat
                    self._stamp(place, now)
                return digest
            self._make_room(place.directory, _charge(len(data)))
            if disk_room.spare(self._state_dir) < len(data):
                raise OSError(errno.ENOSPC, "the free space on the disk is reserved for the journal")
            Replacement(place, data, 0o600, -1, -1, self._durable).place()
            if clock < least:  # otherwise, the time that the system has set is right
                self._stamp(place, now)
            self._newest = now
            self._used += _charge(len(data))
            self._known = _looks(place.directory)
        return digest

    def read(self, digest: str) -> bytes | None:
        """Return kept content; None if it is missing or damaged. Raises `HoldfastError`."""
        try:
            data = paths.at(f"{self._directory}/{digest}").read()
        except ABSENT:
            return None
        except OSError as error:
            raise refused_call(f"cannot read {self._directory}/{digest}: {error.strerror}", error) from None
        return data if hashlib.sha256(data).hexdigest() == digest else None

    def names(self, before: float) -> list[str]:
        """Return the names of the files that were last kept before a Unix time."""
        try:
            directory = paths.directory(self._directory)
            return [name for name, info in _entries(directory) if info.st_mtime < before]
        except (OSError, HoldfastError):
            return []

    def remove_all_but(self, needed: Container[str], before: float) -> None:
        """Remove the files that are not needed, unless they were kept again after `before`, a Unix time."""
        for name in self.names(before):
            if name not in needed:
                with self._lock, suppress(OSError, HoldfastError):
                    place = paths.at(f"{self._directory}/{name}")
                    seen = place.look()
                    if seen is not None and seen.st_mtime < before:
                        place.unlink(own=True)

    def _place(self, digest: str) -> Place:
        path = f"{self._directory}/{digest}"
        try:
            return paths.at(path)
        except ABSENT:
            paths.make_parents(path, mode=0o700)
            if self._durable:
                paths.directory(self._state_dir).sync()
            return paths.at(path)

    def _count(self, directory: SafeDirectory) -> None:
        """Count all files again, if files were added or removed since the last count."""
        if _looks(directory) != self._known:
            found = [info for _, info in _entries(directory)]
            self._used = sum(_charge(info.st_size) for info in found)
            self._newest = max((info.st_mtime for info in found), default=0.0)

    def _stamp(self, place: Place, now: float) -> None:
        """Set the time of a file so that it is the newest."""
        paths.touch(place, (now, now))
        self._newest = now

    def _make_room(self, directory: SafeDirectory, charge: int) -> None:
        """Remove the oldest files until there is space for one more, and a tenth of the space is free."""
        if self._used + charge <= self.bounds.room:
            return
        found = sorted(_entries(directory), key=lambda entry: entry[1].st_mtime_ns)
        self._used = sum(_charge(info.st_size) for _, info in found)
        for name, info in found:
            if self._used + charge <= self.bounds.room - self.bounds.room // 10:
                return
            with suppress(FileNotFoundError):  # removed by another process
                directory.entry(name).unlink(own=True)
            self._used -= _charge(info.st_size)


class RunKeeper:
    """Keeps the content of the files that one run replaces or removes, and reports each in `report.replaced`.

    A context manager. `private`: the state hides what it manages. `redactor` returns the redactor in use.
    """

    __slots__ = ("_files", "_left", "_more", "_private", "_redactor", "_replaced", "_token")

    def __init__(self, files: KeptFiles, report: Report, redactor: Callable[[], Redactor], *, private: bool) -> None:
        self._files, self._replaced, self._redactor, self._private = files, report.replaced, redactor, private
        self._left, self._more = files.bounds.room // SHARE, 0
        self._token: Token[Keeper | None] | None = None

    def __enter__(self) -> None:
        """Keep for the present task, and for the threads and tasks that it starts."""
        self._token = KEEPER.set(self)

    def __exit__(self, *_: object) -> None:
        """Stop keeping."""
        if self._token is not None:
            KEEPER.reset(self._token)

    def keep(self, place: Place, new: Place | None) -> None:
        """Keep the content of an entry, and report it, or why it is not kept. Blocks; raises nothing."""
        self._add(self._found(place, new))

    def prepare(self, place: Place, new: Place | None) -> None:
        """Put the content of an entry on the disk, so that `keep` soon takes less time. Blocks; raises nothing."""
        self._found(place, new)

    def note(self, place: Place, info: os.stat_result) -> None:
        """Report owner and mode of an entry whose content stays."""
        with suppress(OSError, HoldfastError):
            if self._files.concerns(place):
                self._add(_described(place, info))

    def _found(self, place: Place, new: Place | None) -> ReplacedFile | None:
        """Return an entry, kept if that is possible; None if there is none, or if it is not to be kept."""
        try:
            seen = place.look()
            if seen is None or not self._files.concerns(place):
                return None
        except (OSError, HoldfastError):  # the repair fails with the same error
            return None
        try:
            return self._kept(place, seen, new)
        except FileNotFoundError:  # removed by another process
            return None
        except (OSError, HoldfastError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            return _described(place, seen)._replace(lost=f"it could not be kept: {why}")

    def _kept(self, place: Place, seen: os.stat_result, new: Place | None) -> ReplacedFile | None:
        """Keep an entry; None if it is neither a file nor a link. Raises `OSError` and `HoldfastError`."""
        if not (stat.S_ISREG(seen.st_mode) or stat.S_ISLNK(seen.st_mode)):
            return None
        if len(self._replaced) >= MOST:
            return _described(place, seen)
        if self._private:
            return _described(place, seen)._replace(lost=f"the state hides it; {UNENCRYPTED}")
        if stat.S_ISLNK(seen.st_mode):
            return _described(place, seen)._replace(link=place.readlink())
        made = None if new is None else new.look()
        handle, info = place.open(seen)
        known = _described(place, info)
        if hidden(None, info.st_mode, None if made is None else made.st_mode) or not place.readable(info):
            return known._replace(lost=f"others may not read the file; {UNENCRYPTED}")
        return self._content(place, handle, info, known)

    def _content(self, place: Place, handle: Handle, info: os.stat_result, known: ReplacedFile) -> ReplacedFile:
        """Keep the content of a regular file. Raises `OSError` and `HoldfastError`."""
        bounds = self._files.bounds
        if info.st_size > bounds.largest or not bounds.largest:
            return known._replace(lost=f"it has more than {bounds.largest >> 20} MiB, the limit (records.kept_file)")
        if _charge(info.st_size) > self._left:
            return known._replace(lost=f"this change fills a quarter of {bounds.room >> 20} MiB (records.kept)")
        data = read_whole(handle.fd, info, bounds.largest, place.path)
        if _is_secret(data, self._redactor()):
            return known._replace(lost=f"it contains a secret; {UNENCRYPTED}")
        return known._replace(sha256=self._files.keep(data), size=len(data))

    def _add(self, found: ReplacedFile | None) -> None:
        """Report a file; of more than `MOST`, only the number is reported."""
        if found is None:
            return
        if len(self._replaced) < MOST:
            self._left -= _charge(found.size) if found.sha256 else 0
            self._replaced.append(found)
            return
        self._more += 1
        text = f"{number_of(self._more, 'more file')}: of one change at most {MOST} files are kept"
        self._replaced[MOST:] = [ReplacedFile("", lost=text)]


def _described(place: Place, info: os.stat_result) -> ReplacedFile:
    mode = stat.S_IMODE(info.st_mode)
    return ReplacedFile(place.real, size=info.st_size, mode=mode, uid=info.st_uid, gid=info.st_gid)


def _holds(place: Place, seen: os.stat_result, data: bytes) -> bool:
    """Return whether a file has this content; one that was damaged is written again."""
    return seen.st_size == len(data) and place.read(len(data), seen=seen) == data


def _is_secret(data: bytes, redactor: Redactor) -> bool:
    text = data.decode(errors="surrogateescape")
    return bool(redactor(text) != text)


def _charge(size: int) -> int:
    """Return the number of bytes that a file counts for."""
    return -(-max(size, 1) // BLOCK) * BLOCK


def _looks(directory: SafeDirectory) -> tuple[int, ...]:
    """Return what changes when a file is added to a directory or removed from it. Raises `OSError`."""
    info = directory.entry(".").look()
    return () if info is None else (info.st_ino, info.st_mtime_ns)


def _entries(directory: SafeDirectory) -> list[tuple[str, os.stat_result]]:
    """Return the kept files with their status. Raises `OSError`."""
    found = ((name, directory.entry(name).look()) for name in directory.names() if not is_temporary(name))
    return [(name, info) for name, info in found if info is not None]

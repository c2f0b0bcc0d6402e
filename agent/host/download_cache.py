"""Downloaded files in the directory `downloads` of the agent's state, each with a description.

An entry is a file with content, `KEY.data`, and one that describes it, `KEY.json`; KEY is the SHA-256 of the URL. The
description says whether the content is complete, and is written after the content is on the disk. An incomplete file is
continued only during the boot that has written it: a power failure may leave blocks of it empty. All content takes at
most `BYTES`; the least recently used is removed first. Its description stays: it still shows that known content is
current, without a download. Several processes may use the directory: each entry has one byte of the file `lock`.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import itertools
import json
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import cache

from holdfast.agent import disk_room
from holdfast.agent.host.files import Replacement
from holdfast.resources import paths
from holdfast.resources.errors import HoldfastError
from holdfast.resources.paths.handle import ABSENT, Handle

DIRECTORY = "downloads"
BYTES = 1 << 30
"""Most bytes of all content."""
ENTRIES = 1000
"""Most descriptions."""
MOST = 64 << 10
"""Most bytes of a description."""
DATA, ABOUT = ".data", ".json"
_numbers = itertools.count()


@dataclass(frozen=True)
class KnownContent:
    """The description of the content behind a URL."""

    etag: str = ""
    """The ETag of the answer, as the server wrote it."""
    modified: str = ""
    """Its Last-Modified, if that distinguishes versions."""
    size: int = -1
    """Bytes of the complete content; -1: the server did not say."""
    boot: str = ""
    """The boot in which the content was written."""
    looks: tuple[int, ...] = ()
    """Inode, size and time of change of the complete content; empty: only a part is there."""
    digests: Mapping[str, str] | None = None
    """Algorithm -> hash of the complete content."""

    @property
    def strong(self) -> str:
        """The validator that shows whether two answers have the same bytes; empty if there is none."""
        return self.modified if not self.etag else "" if self.etag.startswith("W/") else self.etag


class DownloadEntry:
    """One entry. All methods block, and raise `OSError` and `HoldfastError`. Used by one thread at a time."""

    def __init__(self, top: str, name: str, *, durable: bool) -> None:
        self._durable = durable
        self._data, self._about = paths.at(f"{top}/{name}{DATA}"), paths.at(f"{top}/{name}{ABOUT}")
        self.known = self._read()
        self.handle = self._opened()
        """The content, or the part of it that is there; None if there is none."""
        self.received = 0 if self.handle is None else os.fstat(self.handle.fd).st_size

    @property
    def whole(self) -> bool:
        """Whether all of the content is there."""
        return self.handle is not None and bool(self.known.looks)

    def _read(self) -> KnownContent:
        try:
            found = json.loads(self._about.read(MOST))
            return KnownContent(**{**found, "looks": tuple(found["looks"])})
        except (*ABSENT, ValueError, TypeError, KeyError, HoldfastError):
            return KnownContent()

    def _opened(self) -> Handle | None:
        """Return the content if the description fits it."""
        try:
            handle, info = self._data.open()
        except (*ABSENT, HoldfastError):
            return None
        known = self.known
        fits = known.looks == looks(info) if known.looks else known.boot == boot() and known.strong and info.st_size
        return handle if fits else None

    def begin(self, known: KnownContent) -> Handle:
        """Drop the content; return a new file for the content that the server sends now, which `known` describes."""
        self.drop()
        self.known = replace(known, boot=boot(), looks=(), digests=None)
        self._describe()
        self._data.create(0o600)
        return self.resume()

    def resume(self) -> Handle:
        """Return the file of the present part, for writing at its end and for reading."""
        handle = Handle(os.open(self._data.at, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC))
        self.handle, self.received = handle, os.fstat(handle.fd).st_size
        return handle

    def write(self, piece: bytes) -> None:
        """Append a piece, unless the free space on the disk is reserved for the journal."""
        if self.handle is None:
            raise RuntimeError("cannot write before the entry is begun")
        if disk_room.spare(self._data.directory.real) < len(piece):
            raise OSError(errno.ENOSPC, "the free space on the disk is reserved for the journal")
        self.handle.write(piece)
        self.received += len(piece)

    def finish(self, digests: Mapping[str, str]) -> None:
        """Record that the content is complete, with its hashes."""
        if self.handle is None:
            raise RuntimeError("cannot finish before the entry is begun")
        if self._durable:
            os.fsync(self.handle.fd)
        known = {**(self.known.digests or {}), **digests}
        self.known = replace(self.known, looks=looks(os.fstat(self.handle.fd)), size=self.received, digests=known)
        self._describe()

    def used(self) -> None:
        """Record that the entry is used now."""
        paths.touch(self._about, None)

    def drop(self) -> None:
        """Remove the content and the description."""
        self.handle, self.known, self.received = None, KnownContent(), 0
        for place in (self._about, self._data):
            with suppress(FileNotFoundError):
                place.unlink(own=True)

    def drop_content(self) -> None:
        """Remove the content; a description of complete content stays."""
        if not self.whole:
            self.drop()
            return
        with suppress(FileNotFoundError):
            self._data.unlink(own=True)

    def _describe(self) -> None:
        Replacement(self._about, json.dumps(asdict(self.known)).encode(), 0o600, -1, -1, self._durable).place()


class DownloadCache:
    """All entries of one state directory. All methods block."""

    def __init__(self, state_dir: str, *, durable: bool) -> None:
        self._top, self._durable = f"{state_dir}/{DIRECTORY}", durable
        self._lock: Handle | None = None
        self._changing = threading.Lock()
        """Held while entries are locked, released and removed."""
        self._held: list[str] = []
        """Hashes of the URLs whose entries this process uses."""

    @contextmanager
    def entry(self, url: str) -> Iterator[DownloadEntry]:
        """Yield the entry of a URL, for use by one thread.

        Yields a private entry if another thread or process uses it. Raises `OSError` and `HoldfastError`.
        """
        base = hashlib.sha256(url.encode(errors="surrogateescape")).hexdigest()
        self._make()
        with self._changing:
            own = base not in self._held and self._take(base)
            name = base if own else f"{base}-{os.getpid():x}-{next(_numbers):x}"
            self._held.append(base)
        try:
            yield DownloadEntry(self._top, name, durable=self._durable)
        finally:
            with self._changing:
                self._held.remove(base)
                if own:
                    self._release(base)
                with suppress(OSError, HoldfastError):
                    self._tidy()

    def _make(self) -> None:
        """Make the directory and open the file of locks."""
        path = f"{self._top}/lock"
        paths.make_parents(path, mode=0o700)
        place = paths.at(path)
        if self._lock is None or place.look() is None:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self._lock = Handle(os.open(place.at, flags, 0o600, dir_fd=place.fd))

    def _take(self, name: str) -> bool:
        """Lock an entry; return whether it was free."""
        if self._lock is None:
            return False
        try:
            fcntl.lockf(self._lock.fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, int(name[:14], 16))
        except OSError:
            return False
        return True

    def _release(self, name: str) -> None:
        if self._lock is not None:
            fcntl.lockf(self._lock.fd, fcntl.LOCK_UN, 1, int(name[:14], 16))

    def _tidy(self) -> None:
        """Remove the content that was used least recently, and the oldest descriptions, until the limits are met."""
        directory = paths.directory(self._top)
        found = [(name, info) for name in directory.names() if (info := directory.entry(name).look()) is not None]
        times = {name.removesuffix(ABOUT): info.st_mtime_ns for name, info in found if name.endswith(ABOUT)}
        sizes = {name.removesuffix(DATA): info.st_size for name, info in found if name.endswith(DATA)}
        room, spare = BYTES - sum(sizes.values()), ENTRIES - len(times)
        for name in sorted(times.keys() | sizes.keys(), key=lambda name: times.get(name, 0)):
            useless = "-" in name or name not in times
            wanted = useless or spare < 0 or (room < 0 and name in sizes)
            base = name.partition("-")[0]
            if not wanted or base in self._held or not self._take(base):
                continue
            try:
                self._remove(name, whole=useless or spare < 0)
            finally:
                self._release(base)
            room, spare = room + sizes.get(name, 0), spare + (useless or spare < 0)

    def _remove(self, name: str, *, whole: bool) -> None:
        entry = DownloadEntry(self._top, name, durable=False)
        if whole:
            entry.drop()
        else:
            entry.drop_content()


def looks(info: os.stat_result) -> tuple[int, ...]:
    """Return what identifies the content of a file of the cache."""
    return info.st_ino, info.st_size, info.st_mtime_ns


@cache
def boot() -> str:
    """Return the identifier of the present boot of the kernel."""
    return paths.read("/proc/sys/kernel/random/boot_id", 100).decode().strip()

"""Copies of sources, by their digests, so that a repair does not depend on the live files.

All are in one file of the agent's own directory that has no name: nobody else can open it, it outlives even the removal of that directory,
and it is gone when the agent is, however that ends. A new agent reads all sources anew.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Container

from holdfast.resources import paths
from holdfast.resources.paths.handle import Handle

FILE = 16 << 20
"""Bytes of a source above which no copy of it is kept."""
BYTES = 256 << 20
"""Bytes that all copies may have."""
WASTE = 1 << 20
"""Bytes of copies that are not needed any more, from which on the file is written anew if they are more than half of it."""
NAME = "sources.kept"
"""What the file is called for the moment that it has a name."""


def digest_of(data: bytes) -> str:
    """SHA-256 of some bytes, hex."""
    return hashlib.sha256(data).hexdigest()


def large(looks: tuple[int, ...] | None) -> str:
    """What stands in place of the digest of a file that is larger than `FILE`: what it looks like."""
    return f"looks {looks}"


class Store:
    """Content by digest. All methods may be called from any thread; `put`, `get` and `tidy` block for the disk, the others never wait for it."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._writing = threading.Lock()
        """Held by the one who writes a file."""
        self._lock = threading.Lock()
        """Held while what follows is read or changed, never for the disk."""
        self._file: tuple[Handle, Handle] | None = None
        """Descriptors to write and to read it by."""
        self._end = 0
        self._kept: dict[str, tuple[int, int]] = {}
        """Digest -> where its content begins, and its size."""
        self._size = 0
        """Bytes of those."""
        self._missing: dict[str, str] = {}
        """Digest of what is needed and could not be kept -> why not."""

    @property
    def trouble(self) -> str:
        """Why something is not kept that should be; empty if all is."""
        with self._lock:
            return next(iter(self._missing.values()), "")

    def put(self, digest: str, data: bytes | None) -> None:
        """Keep some content (None: too much), where there is room for it; else `trouble` says why not."""
        with self._writing:
            with self._lock:
                if data is None or digest in self._kept or len(data) > FILE:
                    return
                room = self._size + len(data) <= BYTES
            why = self._append(data) if room else f"no more than {BYTES >> 20} MiB of sources are kept"
            with self._lock:
                if why:
                    self._missing[digest] = why
                    return
                self._missing.pop(digest, None)
                self._kept[digest] = self._end, len(data)
                self._end += len(data)
                self._size += len(data)

    def _append(self, data: bytes) -> str:
        """Write at the end of the file; why that cannot be done, empty if it is."""
        try:
            self._file = self._file or self._nameless()
            _write(self._file[0], data, self._end)
        except (OSError, paths.Unsafe) as error:
            why = getattr(error, "strerror", None) or error
            return (
                f"cannot keep copies of sources in {self._directory}: {why}; run `holdfast reload` when that is fixed"
            )
        return ""

    def lacks(self, digest: str) -> bool:
        """Whether this content could not be kept."""
        with self._lock:
            return digest in self._missing

    def get(self, digest: str) -> bytes | None:
        """The content of a digest; None when it was not kept, or cannot be read."""
        with self._lock:
            file, (begin, size) = self._file, self._kept.get(digest, (0, -1))
        if file is None or size < 0:
            return None
        try:
            data = os.pread(file[1].fd, size, begin)
        except OSError:
            return None
        return data if digest_of(data) == digest else None

    def drop(self, needed: Container[str]) -> bool:
        """Forget what is not needed any more; whether the file is to be tidied for that."""
        with self._lock:
            self._kept = {digest: where for digest, where in self._kept.items() if digest in needed}
            self._missing = {digest: why for digest, why in self._missing.items() if digest in needed}
            self._size = sum(size for _, size in self._kept.values())
            return self._end - self._size > max(self._size, WASTE)

    def tidy(self) -> None:
        """Write the file anew, without what is not needed any more. Raises `OSError`."""
        with self._writing:
            with self._lock:
                copies = list(self._kept)
            new, end = self._nameless(), 0
            moved: dict[str, tuple[int, int]] = {}
            for digest in copies:
                if (data := self.get(digest)) is not None:
                    _write(new[0], data, end)
                    moved[digest] = end, len(data)
                    end += len(data)
            with self._lock:
                self._file, self._end = new, end
                self._kept = {digest: where for digest, where in moved.items() if digest in self._kept}
                self._size = sum(size for _, size in self._kept.values())

    def _nameless(self) -> tuple[Handle, Handle]:
        """A new file without a name. Raises `OSError`."""
        place = paths.at(f"{self._directory}/{NAME}")
        if place.look() is not None:  # of an agent that was killed just then
            place.unlink()
        writing, (reading, _) = place.create(0o600), place.open()
        place.unlink()
        return writing, reading


def _write(file: Handle, data: bytes, begin: int) -> None:
    """Write all of it. Raises `OSError`."""
    rest = memoryview(data)
    while rest:
        count = os.pwrite(file.fd, rest, begin)
        rest, begin = rest[count:], begin + count

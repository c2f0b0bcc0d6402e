"""Copies of sources by digest, so that a repair does not depend on the live files.

All copies are in one file without a name, in the agent's own directory. No other process can open the file, it survives
the removal of the directory, and it disappears with the agent, however that ends. A new agent reads all sources again.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Container

from holdfast.resources import paths
from holdfast.resources.paths.handle import Handle

FILE = 16 << 20
"""Bytes of a source above which no copy is kept."""
BYTES = 256 << 20
"""Most bytes of all copies."""
WASTE = 1 << 20
"""Bytes of unneeded copies above which the file is rewritten, if they are more than half of it."""
NAME = "sources.kept"
"""The temporary name of the file between its creation and the removal of the name."""


def digest_of(data: bytes) -> str:
    """Return the SHA-256 of the data, hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def large(metadata: tuple[int, ...] | None) -> str:
    """Return the metadata of a file larger than `FILE`, in place of a digest."""
    return f"metadata {metadata}"


class SourceStore:
    """Content by digest. Thread-safe. `put`, `get` and `tidy` wait for the disk; the other methods never do."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._writing = threading.Lock()
        """Held while the file is written."""
        self._lock = threading.Lock()
        """Held while the fields below are read or changed; never during disk access."""
        self._file: tuple[Handle, Handle] | None = None
        """Handles to write and to read the file."""
        self._end = 0
        self._kept: dict[str, tuple[int, int]] = {}
        """Digest -> offset and size of its content."""
        self._size = 0
        """Bytes of all kept copies."""
        self._missing: dict[str, str] = {}
        """Digest of a needed copy that could not be kept -> the reason."""

    @property
    def trouble(self) -> str:
        """Why a needed copy is not kept; empty if all are."""
        with self._lock:
            return next(iter(self._missing.values()), "")

    def put(self, digest: str, data: bytes | None) -> None:
        """Keep content (None: too large) if there is room; else `trouble` gives the reason."""
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
        """Write at the end of the file. Returns the reason of a failure, empty on success."""
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
        """Return whether the content of this digest could not be kept."""
        with self._lock:
            return digest in self._missing

    def get(self, digest: str) -> bytes | None:
        """Return the content of a digest; None if it was not kept or cannot be read."""
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
        """Forget copies that are not needed; return whether the file should be rewritten with `tidy`."""
        with self._lock:
            self._kept = {digest: where for digest, where in self._kept.items() if digest in needed}
            self._missing = {digest: why for digest, why in self._missing.items() if digest in needed}
            self._size = sum(size for _, size in self._kept.values())
            return self._end - self._size > max(self._size, WASTE)

    def tidy(self) -> None:
        """Rewrite the file without the copies that are not needed. Raises `OSError`."""
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
        """Return a new file without a name. Raises `OSError`."""
        place = paths.at(f"{self._directory}/{NAME}")
        if place.look() is not None:  # left over from an agent killed at this point
            place.unlink(own=True)
        writing, (reading, _) = place.create(0o600), place.open()
        place.unlink(own=True)
        return writing, reading


def _write(file: Handle, data: bytes, begin: int) -> None:
    """Write all data. Raises `OSError`."""
    rest = memoryview(data)
    while rest:
        count = os.pwrite(file.fd, rest, begin)
        rest, begin = rest[count:], begin + count

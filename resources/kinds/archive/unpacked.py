"""The uncompressed content of a compressed archive, as a file that can only be read forward.

Each read returns a bounded amount, even if a little compressed data expands to much more. The end of the compressed
data is checked.
"""

from __future__ import annotations

import bz2
import importlib
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from holdfast.resources.kinds.archive.members import PART, BadArchive, ExtractionBudget

MEMORY = 256 << 20
"""Maximum memory, in bytes, for the decompression of xz."""
LARGEST = 4 << 20
"""Maximum bytes of one read: only the headers of malicious archives need longer reads."""
FED = 1 << 15
"""Maximum bytes that a decompressor gets at once.

At the end of a stream it copies the rest of them, and a file may consist of tiny streams.
"""
MAGIC = 6
"""Maximum bytes needed to recognise the compression."""
DAMAGED = (zlib.error, lzma.LZMAError, EOFError, OSError, ValueError)
"""Exceptions that decompression raises for damaged data."""


class Decompressor(Protocol):
    """The common interface of the decompressors of bz2, lzma and zstd."""

    eof: bool
    needs_input: bool
    unused_data: bytes

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        """Return at most `max_length` bytes."""
        ...


class _Gzip:
    """zlib's decompressor with the interface of the others."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(wbits=31)

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        return self._zlib.decompress(self._zlib.unconsumed_tail + data, max_length)

    @property
    def eof(self) -> bool:
        return self._zlib.eof

    @property
    def needs_input(self) -> bool:
        return not self._zlib.unconsumed_tail and not self._zlib.eof

    @property
    def unused_data(self) -> bytes:
        return self._zlib.unused_data


def decompressor(beginning: bytes) -> Callable[[], Any] | None:
    """Return the class of the decompressor for data with this beginning; None if they are not compressed.

    Raises `BadArchive` for a compression that this Python cannot read.
    """
    if beginning.startswith(b"\x1f\x8b"):
        return _Gzip
    if beginning.startswith(b"BZh"):
        return bz2.BZ2Decompressor
    if beginning.startswith(b"\xfd7zXZ\0"):
        return lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MEMORY)
    if beginning.startswith((b"\x5d\0\0", b"\x6d\0\0")):
        return lambda: lzma.LZMADecompressor(lzma.FORMAT_ALONE, memlimit=MEMORY)
    if beginning.startswith(b"\x28\xb5\x2f\xfd"):
        try:
            zstd = importlib.import_module("compression.zstd")
        except ImportError:
            raise BadArchive("it is compressed with zstd, which needs Python 3.14 or later; use gz or xz") from None
        made: Callable[[], Any] = zstd.ZstdDecompressor
        return made
    return None


def _fed(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Yield compressed data in pieces of at most `FED` bytes."""
    return (part[at : at + FED] for part in parts for at in range(0, len(part), FED))


class Unpacked:
    """A file that can only be read forward, with `tell` and `seek` as tarfile needs them."""

    def __init__(
        self, parts: Iterator[bytes], make: Callable[[], Decompressor] | None, budget: ExtractionBudget
    ) -> None:
        self._parts = parts if make is None else _fed(parts)
        self._make, self._budget = make, budget
        self._decompressor: Decompressor | None = None
        self._given = b""
        self._ready = bytearray()
        self._at = 0
        self.block: bytes | None = None
        """The last block of 512 bytes, the size of a header, that was read; empty at the end."""

    def tell(self) -> int:
        """Return the offset."""
        return self._at

    def seek(self, to: int) -> int:
        """Read up to an offset. Raises `BadArchive` for an earlier offset."""
        if to < self._at:
            raise BadArchive("it cannot be read in one pass")
        while self._at < to:
            if not self.read(min(to - self._at, PART)):
                raise BadArchive("it ends too early")
        return self._at

    def read(self, size: int) -> bytes:
        """Return `size` bytes, fewer at the end. Raises `BadArchive` if the data are damaged or exceed a limit."""
        if size > LARGEST or size < 0:
            raise BadArchive("it has a header that is too large")
        while len(self._ready) < size and (piece := self._next(min(size, PART))):
            self._ready += piece
        data = bytes(self._ready[:size])
        del self._ready[:size]
        self._at += len(data)
        if size == 512:
            self.block = data
        return data

    def drain(self) -> None:
        """Read up to the end, so that all checksums of the compression are verified."""
        while self.read(PART):
            pass

    def _next(self, most: int) -> bytes:
        try:
            piece = next(self._parts, b"") if self._make is None else self._decompressed(most)
        except DAMAGED as error:
            raise BadArchive(f"it is damaged: {error or type(error).__name__}") from None
        self._budget.spend(len(piece))
        return piece

    def _decompressed(self, most: int) -> bytes:
        """Return some bytes; none at the end. Data after the end that are not another stream are ignored."""
        if self._make is None:
            return b""
        while True:
            if self._decompressor is None:
                self._skip_padding()
                if not self._given or (self._at and decompressor(self._given) is None):
                    return b""
                self._decompressor = self._make()
            one = self._decompressor
            if one.needs_input and not self._given:
                self._given = next(self._parts, b"")
                if not self._given:
                    raise EOFError("it ends too early")
            given, self._given = self._given, b""
            piece = one.decompress(given, most)
            if one.eof:
                self._given, self._decompressor = one.unused_data, None
            if piece:
                return piece

    def _skip_padding(self) -> None:
        """Skip zeros between two streams; then read enough bytes to recognise the compression, unless the data end."""
        self._given = self._given.lstrip(b"\0")
        while len(self._given) < MAGIC and (more := next(self._parts, b"")):
            self._given = (self._given + more).lstrip(b"\0")

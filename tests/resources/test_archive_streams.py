"""Compressed archives of several streams, as parallel compressors and `cat` make them."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable, Iterator

import pytest

from effort import effort
from holdfast.resources.kinds.archive.members import ExtractionBudget
from holdfast.resources.kinds.archive.unpacked import Unpacked, decompressor


def unpacked(data: bytes, size: int = 1 << 20) -> Unpacked:
    """Return the content of compressed data that are read in pieces of this size."""
    pieces: Iterator[bytes] = (data[at : at + size] for at in range(0, len(data), size))
    return Unpacked(pieces, decompressor(data), ExtractionBudget(1 << 30, 1))


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_streams_that_follow_each_other_are_one_content(compress: Callable[[bytes], bytes]) -> None:
    """The data may be read in pieces of any size, also within the magic bytes, and have zeros between streams."""
    data = compress(b"one\n") + bytes(8) + compress(b"") + compress(b"two\n") + bytes(4)
    for size in (1, 3, len(data)):
        content = unpacked(data, size)
        assert (content.read(99), content.read(1)) == (b"one\ntwo\n", b""), size


def test_many_tiny_streams_take_linear_time() -> None:
    """At the end of a stream, only a part of the rest is copied: 16 times as many streams take 16 times as long."""
    few, many = (gzip.compress(b"") * number for number in (3_000, 48_000))
    assert effort(lambda: unpacked(many).drain(), 32, lambda: unpacked(few).drain()) < 32

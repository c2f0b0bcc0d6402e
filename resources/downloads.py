"""What a download is asked for and what it returns: hashes, limits, and a private file that is open."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from holdfast.resources.errors import Permanent
from holdfast.resources.paths.handle import LIMIT, Handle, read_whole

SLICE = 1 << 20
"""Bytes that are read at once."""


class Digest(NamedTuple):
    """A declared hash."""

    algorithm: str
    """One of `sha256`, `md5`, ...; a name that hashlib knows."""
    value: str
    """Hexadecimal, in lower case."""


class DownloadBounds(NamedTuple):
    """Limits of one download."""

    size: int = 1 << 30
    """Most bytes."""
    stall: float = 30.0
    """Seconds without any data after which it fails."""
    total: float = 3600.0
    """Seconds after which it fails even if it makes progress."""

    @property
    def shown_size(self) -> str:
        """The size for a message."""
        return f"{self.size >> 20} MiB" if self.size >= 1 << 20 else f"{self.size} bytes"


DOWNLOAD_BOUNDS = DownloadBounds()
"""The limits unless a state declares others."""


class WrongDigest(Permanent):
    """The content does not have the declared hash."""


@dataclass(frozen=True)
class DownloadedFile:
    """A complete file with the declared hash, which only the agent can read or write.

    The file is open, and stays usable as long as this object exists, even if the cache drops its name.
    """

    handle: Handle
    size: int
    sha256: str

    @property
    def path(self) -> str:
        """A path for tools that cannot be given a descriptor; valid while this object and the agent exist."""
        return f"/proc/{os.getpid()}/fd/{self.handle.fd}"

    def read(self, limit: int = LIMIT) -> bytes:
        """Return the whole content. Blocks. Raises `OSError`, and `Permanent` if it has more than `limit` bytes."""
        return read_whole(self.handle.fd, os.fstat(self.handle.fd), limit, "the downloaded file")


def slices(handle: Handle) -> Iterator[bytes]:
    """Yield the content of an open file in slices, whatever its offset is. Blocks. Raises `OSError`."""
    at = 0
    while piece := os.pread(handle.fd, SLICE, at):
        yield piece
        at += len(piece)


def digests(pieces: Iterable[bytes], algorithms: Iterable[str]) -> Mapping[str, str]:
    """Return the hashes of content, algorithm -> hex digits. Blocks."""
    hashes = {name: hashlib.new(name, usedforsecurity=False) for name in algorithms}
    for piece in pieces:
        for each in hashes.values():
            each.update(piece)
    return {name: each.hexdigest() for name, each in hashes.items()}


def demand_digest(shown: str, found: Mapping[str, str], digest: Digest | None) -> None:
    """Raise `WrongDigest` if the content of the URL `shown` does not have the declared hash."""
    if digest is not None and found[digest.algorithm] != digest.value:
        raise WrongDigest(
            f"cannot use {shown}: its {digest.algorithm} is {found[digest.algorithm]}, "
            f"but source_hash says {digest.value}"
        )


def shown_url(url: str) -> str:
    """Return a URL for messages: without user, password, query and fragment, which may be secret."""
    scheme, found, rest = url.partition("://")
    if not found or scheme not in {"http", "https"}:
        return url
    address, slash, path = rest.partition("?")[0].partition("#")[0].partition("/")
    return f"{scheme}://{address.rpartition('@')[2]}{slash}{path}"

"""Private copies of files of this host, made in slices: the copy is checked and used, and no user can change it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from contextlib import suppress

from holdfast.agent import disk_room
from holdfast.agent.host.download_cache import DIRECTORY
from holdfast.agent.host.files import sweep
from holdfast.resources import paths
from holdfast.resources.downloads import Digest, DownloadBounds, DownloadedFile, demand_digest
from holdfast.resources.errors import Permanent, Temporary, refused_call
from holdfast.resources.paths.handle import Handle
from holdfast.resources.temporaries import give_back, take_name


def copied(
    state_dir: str, pieces: Iterable[bytes], url: str, digest: Digest | None, bounds: DownloadBounds
) -> DownloadedFile:
    """Return a private copy of content, as a file without a name. Blocks.

    Raises what `pieces` raises, `Permanent` if there is too much of it, `WrongDigest`, and `Temporary` if there is no
    room.
    """
    algorithms = {"sha256", *([digest.algorithm] if digest else ())}
    hashes = {name: hashlib.new(name, usedforsecurity=False) for name in algorithms}
    try:
        writing, reading = _nameless(f"{state_dir}/{DIRECTORY}")
        size = 0
        for piece in pieces:
            size += len(piece)
            if size > bounds.size:
                raise Permanent(f"cannot use {url}: it is larger than {bounds.shown_size}")
            if disk_room.spare(state_dir) < len(piece):
                raise Temporary(
                    f"cannot use {url}: the free space on the disk of {state_dir} is reserved for the journal"
                )
            writing.write(piece)
            for each in hashes.values():
                each.update(piece)
    except OSError as error:
        raise refused_call(f"cannot use {url}: {error.strerror}", error) from None
    found = {name: each.hexdigest() for name, each in hashes.items()}
    demand_digest(url, found, digest)
    return DownloadedFile(reading, size, found["sha256"])


def _nameless(directory: str) -> tuple[Handle, Handle]:
    """Return descriptors, to write and to read, of a new private file that has no name any more."""
    paths.make_parents(f"{directory}/copy", mode=0o700)
    place = paths.at(f"{directory}/{take_name('copy')}")
    sweep(place.directory)
    try:
        writing = place.create(0o600)
        return writing, Handle(os.open(f"/proc/self/fd/{writing.fd}", os.O_RDONLY | os.O_CLOEXEC))
    finally:
        with suppress(FileNotFoundError):
            place.unlink(own=True)
        give_back(place.name)

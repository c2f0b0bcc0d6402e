"""Changes a file that cannot be replaced because it is a mount point, such as /etc/hosts in a container."""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from holdfast.resources.errors import Permanent
from holdfast.resources.paths.handle import LIMIT, Handle, Unsafe, read_whole, what
from holdfast.resources.paths.mounts import points
from holdfast.resources.paths.place import Place


def is_mounted(place: Place) -> bool:
    """Return whether something is mounted at a place whose path only trusted users can change."""
    return not place.directory.holders and place.real in points()


def overwrite(place: Place, data: bytes, *, mode: int, uid: int = -1, gid: int = -1, durable: bool) -> None:
    """Write all data over the content of a file that is a mount point; -1 leaves the owner.

    Readers may meanwhile see a mixture of both. If the data cannot be written, the former content is written back.
    Raises `OSError`; `Permanent` if the file is not a regular file; `Unsafe` if another user may have put it there.
    """
    if not is_mounted(place):
        raise Unsafe(f"cannot write {place.path} in place: nothing is mounted there")
    handle = Handle(os.open(place.at, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=place.fd))
    seen = os.fstat(handle.fd)
    if not stat.S_ISREG(seen.st_mode):
        raise Permanent(f"cannot write {place.path}: it is {what(seen.st_mode)}")
    old = read_whole(handle.fd, seen, LIMIT, place.path)
    present = stat.S_IMODE(seen.st_mode)
    try:
        os.fchmod(handle.fd, present & mode)  # before the new content: no user may read it too early
        _put(handle, data)
    except OSError:
        with suppress(OSError):
            _put(handle, old)
            os.fchmod(handle.fd, present)
        raise
    if (uid, gid) != (-1, -1) and (uid, gid) != (seen.st_uid, seen.st_gid):
        os.fchown(handle.fd, uid, gid)
    os.fchmod(handle.fd, mode)
    if durable:
        os.fsync(handle.fd)


def _put(handle: Handle, data: bytes) -> None:
    """Write the data, then cut the file to their length: the file is never empty. Raises `OSError`."""
    os.lseek(handle.fd, 0, os.SEEK_SET)
    handle.write(data)
    os.ftruncate(handle.fd, len(data))

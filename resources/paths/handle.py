"""File descriptors, and checks of the files that they refer to."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable

from holdfast.resources.errors import Permanent
from holdfast.resources.paths.mounts import foreign, mounter
from holdfast.resources.paths.trust import ACL, DEFAULT_ACL, NOBODY, called, trusted_uids, writers
from holdfast.resources.visible import escaped

LIMIT = 256 << 20
"""Greatest size of a file that is read whole, in bytes."""
ENTRIES = 100_000
"""Greatest number of entries of a directory, or of a whole tree, that an untrusted user can write."""
CHUNK = 1 << 20
LOOK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
OPEN = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
ABSENT = (FileNotFoundError, NotADirectoryError)
"""Exceptions of lstat(2) for a path that does not exist."""


class Unsafe(Permanent):
    """An operation is refused because an unprivileged user could exploit it.

    The message is one line, even if file names contain line breaks.
    """

    def __init__(self, message: str) -> None:
        super().__init__(escaped(message))


class Handle:
    """A descriptor that is closed with the last reference to it. Users of the number must keep a reference."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def write(self, data: bytes) -> None:
        """Write all data. Raises `OSError`."""
        written = os.write(self.fd, data)
        while written < len(data):
            written += os.write(self.fd, memoryview(data)[written:])

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        """Close the descriptor.

        No other reference is left, so no thread that still runs can use the number after it belongs to another file.
        """
        close(self.fd)


def writers_inside(info: os.stat_result, acl: bytes) -> frozenset[int]:
    """Return the untrusted users who can replace entries of a directory with this status and ACL."""
    trusted = trusted_uids()
    if info.st_mode & stat.S_ISVTX:
        return NOBODY if info.st_uid in trusted else frozenset({info.st_uid})
    return writers(info, acl, trusted)


def mine(info: os.stat_result, who: frozenset[int]) -> bool:
    """Return whether the owner is the only user who could have put the file there."""
    return who == {info.st_uid}


def acl_of(handle: Handle) -> bytes:
    """Return the ACL of an open file; empty if it has none, or the file system does not support ACLs."""
    return acl_at(f"/proc/self/fd/{handle.fd}", follow=True)


def acl_at(path: str, *, follow: bool) -> bytes:
    """Return the ACL of a path, as `acl_of`. `follow`: return that of a link's target; a link has no ACL."""
    try:
        return os.getxattr(path, ACL, follow_symlinks=follow)
    except OSError:
        return b""


def drop_acls(path: str) -> None:
    """Remove the ACLs of a file or directory, if any. Raises `OSError`."""
    for name in (ACL, DEFAULT_ACL):
        try:
            os.removexattr(path, name)
        except OSError as error:
            if error.errno not in {
                errno.ENODATA,
                errno.ENOTSUP,
                errno.EACCES,
            }:  # EACCES: only a directory has a default ACL
                raise


def refuse_foreign(real: str, path: str) -> None:
    """Raise `Unsafe` for the mount point of a file system that a user has mounted."""
    owner = foreign().get(real)
    if owner is not None and owner not in trusted_uids():
        raise Unsafe(
            f"cannot inspect {path}: {called(owner)} has mounted a file system at {real}, and its content cannot be "
            "trusted"
        )


def refuse_mounted(handle: Handle, path: str) -> None:
    """Raise `Unsafe` for a file in a file system that a user has mounted, at any time."""
    owner = mounter(handle.fd)
    if owner not in trusted_uids():
        raise Unsafe(
            f"cannot inspect {path}: {called(owner)} may have mounted a file system there, and its content cannot be "
            "trusted"
        )


def read_whole(descriptor: int, info: os.stat_result, limit: int, path: str) -> bytes:
    """Return all bytes of an open file, which may grow while it is read.

    Raises `OSError`, and `Permanent` if there are more than `limit` bytes.
    """
    if info.st_size <= limit:
        if (
            info.st_size < 1 << 16
            and (data := os.read(descriptor, min(limit, 1 << 16) + 1))
            and len(data) == info.st_size
        ):
            return data
        os.lseek(descriptor, 0, os.SEEK_SET)
        pieces, left = [], limit + 1
        while left > 0 and (piece := os.read(descriptor, min(left, max(info.st_size + 1, 1 << 16), CHUNK))):
            pieces.append(piece)
            left -= len(piece)
        if left > 0:
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)
    shown = f"{limit >> 20} MiB" if limit >= 1 << 20 else f"{limit} bytes"
    raise Permanent(f"cannot read {path}: it has more than {shown}")


def what(mode: int) -> str:
    """Return the type of a file in words."""
    names = {
        stat.S_IFDIR: "a directory",
        stat.S_IFLNK: "a symbolic link",
        stat.S_IFREG: "a file",
        stat.S_IFIFO: "a fifo",
    }
    names |= {stat.S_IFSOCK: "a socket", stat.S_IFBLK: "a block device", stat.S_IFCHR: "a character device"}
    return names.get(stat.S_IFMT(mode), "a file of an unknown type")

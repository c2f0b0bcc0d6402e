"""fanotify(7): the kernel's reports of who changes the entries of a directory.

One group watches directories by marks on their inodes, so that nothing else on the file system costs anything. An event
holds the directory as a file handle, the name of the entry, the process id and a descriptor of the process. No event
opens a file, and no handle is ever opened: `key_of` makes the same key from the path of a directory.

The system calls are made through ctypes, because Python has none of them. They need Linux 5.15 and CAP_SYS_ADMIN.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import struct
from collections.abc import Iterator
from typing import NamedTuple

CLOEXEC, NONBLOCK, UNLIMITED_MARKS = 0x1, 0x2, 0x20
REPORT_PIDFD, REPORT_DIR_FID, REPORT_NAME = 0x80, 0x400, 0x800
FLAGS = CLOEXEC | NONBLOCK | UNLIMITED_MARKS | REPORT_PIDFD | REPORT_DIR_FID | REPORT_NAME
"""The kernel's bound of the queue stays: an event that is lost names no process, and nothing else depends on it."""
ADD, REMOVE, DONT_FOLLOW, ONLYDIR = 0x1, 0x2, 0x4, 0x8
MODIFY, ATTRIB, CLOSE_WRITE, MOVED_FROM, MOVED_TO, CREATE, DELETE = 0x2, 0x4, 0x8, 0x40, 0x80, 0x100, 0x200
ONDIR, ON_CHILD = 0x4000_0000, 0x0800_0000
STEP = DELETE | MOVED_FROM | MOVED_TO | ONDIR
"""Events of a directory that is only a component of a path: they are few, so a busy directory (/tmp) costs little."""
FULL = STEP | CREATE | ATTRIB | MODIFY | CLOSE_WRITE | ON_CHILD
"""Events of a directory that contains a watched path."""
BUFFER = 4096
"""Bytes that one read takes: about fifty events. Each event opens a descriptor, so few are read at once."""
AT_FDCWD = -100
SYMLINK_FOLLOW, HANDLE_FID = 0x400, 0x200
"""Flags of name_to_handle_at(2): follow a link; accept handles that cannot be opened (Linux 6.5), as fanotify does."""
HANDLE_BYTES = 128
META = struct.Struct("=IBBHQii")
"""`struct fanotify_event_metadata`: length, version, reserved, length of this structure, mask, descriptor, pid."""
INFO = struct.Struct("=BBH")
"""`struct fanotify_event_info_header`: type, reserved, length of the whole record."""
INTEGER = struct.Struct("=i")
DFID_NAME, PIDFD = 2, 4
"""Types of records: directory with the name of an entry; process."""
FSID, HANDLE = 8, 8
"""Bytes of a file system's id; bytes of the head of a handle, which holds its length and its type."""
NO_PROCESS = -1
"""In place of a descriptor: the process has ended, or is in another namespace."""

_libc = ctypes.CDLL(None, use_errno=True)


class FileEvent(NamedTuple):
    """An entry of a directory has been changed."""

    key: bytes
    """The directory, as `key_of` returns it."""
    name: bytes
    """The entry; `.` for the directory itself."""
    pid: int
    """The process; 0 if it is in another namespace."""
    pidfd: int
    """A descriptor of the process, which the receiver closes; negative if there is none."""


class FanotifyGroup:
    """One group of marks. Raises `OSError` if the kernel or the missing capability does not allow it."""

    def __init__(self) -> None:
        self.fd = _checked(_call("fanotify_init", FLAGS, os.O_RDONLY | os.O_CLOEXEC))

    def mark(self, path: str, *, full: bool, follow: bool) -> None:
        """Report changes of the entries of a directory. Raises `OSError`, also for file systems without handles."""
        self._mark(ADD, path, FULL if full else STEP, follow=follow)

    def unmark(self, path: str) -> None:
        """Report no more changes of the directory at a path, links followed. Raises `OSError` if it is not marked."""
        self._mark(REMOVE, path, FULL, follow=True)

    def _mark(self, action: int, path: str, mask: int, *, follow: bool) -> None:
        flags = action | ONLYDIR | (0 if follow else DONT_FOLLOW)
        _checked(_call("fanotify_mark", self.fd, flags, ctypes.c_uint64(mask), AT_FDCWD, os.fsencode(path)))

    def read(self) -> list[FileEvent]:
        """Return pending events, at most one buffer of them; never waits."""
        try:
            data = os.read(self.fd, BUFFER)
        except OSError:  # there is none, or no memory for it
            return []
        return list(_events(data))

    def close(self) -> None:
        """Close the group; the kernel removes its marks."""
        os.close(self.fd)


def _events(data: bytes) -> Iterator[FileEvent]:
    """Yield the events of a buffer. An overflow of the queue names no directory, and is left out."""
    at = 0
    while at < len(data):
        length, _, _, head, _, _, pid = META.unpack_from(data, at)
        key, name, pidfd = b"", b"", NO_PROCESS
        record, end = at + head, at + length
        while record < end:
            kind, _, size = INFO.unpack_from(data, record)
            if kind == PIDFD:
                pidfd = INTEGER.unpack_from(data, record + INFO.size)[0]
            elif kind == DFID_NAME:
                handle = record + INFO.size + FSID
                after = handle + HANDLE + INTEGER.unpack_from(data, handle)[0]
                key, name = data[record + INFO.size : after], data[after : record + size].partition(b"\0")[0]
            record += size
        at = end
        if key:
            yield FileEvent(key, name, pid, pidfd)
        elif pidfd >= 0:
            os.close(pidfd)


def key_of(path: str) -> bytes:
    """Return the key of the directory at a path, links followed. Raises `OSError`; may block as any access does."""
    handle = ctypes.create_string_buffer(HANDLE + HANDLE_BYTES)
    mount = ctypes.c_int()
    for flags in (SYMLINK_FOLLOW | HANDLE_FID, SYMLINK_FOLLOW):
        INTEGER.pack_into(handle, 0, HANDLE_BYTES)
        with contextlib.suppress(OSError):
            _checked(_call("name_to_handle_at", AT_FDCWD, os.fsencode(path), handle, ctypes.byref(mount), flags))
            break
    else:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)
    length = INTEGER.unpack_from(handle, 0)[0]
    return struct.pack("=Q", os.statvfs(path).f_fsid) + handle.raw[: HANDLE + length]


def _call(name: str, *arguments: object) -> int:
    """Call a function of the C library; `ENOSYS` if it does not have it."""
    function = getattr(_libc, name, None)
    if function is None:
        ctypes.set_errno(errno.ENOSYS)
        return -1
    return int(function(*arguments))


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result

"""fanotify(7): the kernel's reports of changes in marked directories, and of the processes that make them.

A group watches directories by marks on their inodes, so that nothing else on the file system costs anything. An event
holds the directory as a file handle, the name of the entry, the process id and, if wanted, a descriptor of the process.
No event opens a file, and no handle is ever opened: `key_of` makes the same key from an open directory.

The system calls are made through ctypes, because Python has none of them. They need Linux 5.15 and CAP_SYS_ADMIN.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from holdfast.agent.host.kernel_watches import FULL, MOVED_FROM, STEP

CLOEXEC, NONBLOCK, UNLIMITED_MARKS = 0x1, 0x2, 0x20
REPORT_PIDFD, REPORT_DIR_FID, REPORT_NAME = 0x80, 0x400, 0x800
FLAGS = CLOEXEC | NONBLOCK | UNLIMITED_MARKS | REPORT_DIR_FID | REPORT_NAME
"""The kernel's limit of the queue stays in force."""
ADD, REMOVE, ONLYDIR, FLUSH = 0x1, 0x2, 0x8, 0x80
ONDIR, ON_CHILD = 0x4000_0000, 0x0800_0000
EXTRA = {FULL: ON_CHILD, STEP: MOVED_FROM}
"""Further events for each set: changes of the entries' content; removals of entries, because a removed entry reports no
events itself."""
ALL = FULL | ONDIR | ON_CHILD
BUFFER, BUFFER_OF_PROCESSES = 1 << 14, 1 << 12
"""Bytes that one read takes: about 250 events, or about fifty with a descriptor of the process in each."""
AT_FDCWD = -100
EMPTY_PATH, HANDLE_FID = 0x1000, 0x200
"""Flags of name_to_handle_at(2): use the open file itself; accept handles that cannot be opened (Linux 6.5), as
fanotify does."""
HANDLE_BYTES = 128
HEAD = struct.Struct("=IBBHQii")
"""`struct fanotify_event_metadata`: length, version, reserved, length of this structure, mask, descriptor, pid."""
INFO = struct.Struct("=BBH")
"""`struct fanotify_event_info_header`: type, reserved, length of the whole record."""
FILE_SYSTEM = struct.Struct("=II")
"""The id of a file system: two numbers."""
HANDLE = struct.Struct("=8sIi")
"""The same, then `struct file_handle`: its length and its type; its bytes follow."""
INTEGER = struct.Struct("=i")
DFID_NAME, PIDFD = 2, 4
"""Types of records: directory with the name of an entry; process."""
NO_PROCESS = -1
"""In place of a descriptor: the process has ended, or is in another namespace."""
STATFS, TYPE = 256, struct.Struct("I")
"""`struct statfs`: its most bytes, and its first member, the type of the file system."""

_libc = ctypes.CDLL(None, use_errno=True)


class FileEvent(NamedTuple):
    """An entry of a directory has been changed, or the directory itself."""

    key: bytes
    """The directory, as `key_of` returns it. Empty: the kernel has lost events."""
    name: bytes
    """The entry; `.` for the directory itself."""
    mask: int
    """What has happened: the kernel may merge several events of a process."""
    pid: int
    """The process; 0 if it is in another namespace."""
    pidfd: int
    """A descriptor of the process, which the receiver closes; negative if there is none."""


class FanotifyGroup:
    """One group of marks. Raises `OSError` if the kernel or the missing capability does not allow it.

    `processes`: each event opens a descriptor of its process.
    """

    def __init__(self, *, processes: bool) -> None:
        self._buffer = BUFFER_OF_PROCESSES if processes else BUFFER
        flags = FLAGS | REPORT_PIDFD if processes else FLAGS
        self.fd = _checked(_call("fanotify_init", flags, os.O_RDONLY | os.O_CLOEXEC))

    def mark(self, directory: int, mask: int) -> None:
        """Report `FULL`, `STEP` or `END` of an open directory, in addition to earlier marks.

        Raises `OSError`, also for file systems without handles.
        """
        self._mark(ADD | ONLYDIR, directory, mask | EXTRA.get(mask, 0) | ONDIR)

    def unmark(self, directory: int) -> None:
        """Report no more events of an open directory. Raises `OSError` if it is not marked."""
        self._mark(REMOVE | ONLYDIR, directory, ALL)

    def flush(self) -> None:
        """Remove all marks. Raises `OSError`."""
        self._mark(FLUSH, AT_FDCWD, 0)

    def _mark(self, how: int, directory: int, mask: int) -> None:
        _checked(_call("fanotify_mark", self.fd, how, ctypes.c_uint64(mask), directory, b"."))

    def read(self) -> list[FileEvent]:
        """Return pending events, at most one buffer of them; never waits."""
        try:
            data = os.read(self.fd, self._buffer)
        except OSError:  # there is no event, or no memory for it
            return []
        return list(_events(data))

    def close(self) -> None:
        """Close the group; the kernel removes its marks."""
        os.close(self.fd)


def _events(data: bytes) -> Iterator[FileEvent]:
    """Yield the events of a buffer."""
    at = 0
    while at < len(data):
        length, _, _, head, mask, _, pid = HEAD.unpack_from(data, at)
        key, name, pidfd = b"", b"", NO_PROCESS
        record, at = at + head, at + length
        while record < at:
            kind, _, size = INFO.unpack_from(data, record)
            if kind == DFID_NAME:
                start = record + INFO.size
                after = start + HANDLE.size + HANDLE.unpack_from(data, start)[1]
                key, name = data[start:after], data[after : record + size].partition(b"\0")[0]
            elif kind == PIDFD:
                pidfd = INTEGER.unpack_from(data, record + INFO.size)[0]
            record += size
        yield FileEvent(key, name, mask, pid, pidfd)


@contextmanager
def opened(path: str, *, follow: bool) -> Iterator[int]:
    """Yield a descriptor of the directory at a path, for the functions below. Raises `OSError`."""
    directory = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
    try:
        yield directory
    finally:
        os.close(directory)


def type_of(directory: int) -> int:
    """Return the type of the file system of an open file, as statfs(2) has it. Raises `OSError`."""
    found = ctypes.create_string_buffer(STATFS)
    _checked(_call("fstatfs", directory, found))
    return int(TYPE.unpack_from(found)[0])


def key_of(directory: int) -> bytes:
    """Return the key of an open directory: the id of its file system, and its handle. Raises `OSError`."""
    found = ctypes.create_string_buffer(INTEGER.size * 2 + HANDLE_BYTES)
    for flags in (EMPTY_PATH | HANDLE_FID, EMPTY_PATH):
        INTEGER.pack_into(found, 0, HANDLE_BYTES)
        if _call("name_to_handle_at", directory, b"", found, ctypes.byref(ctypes.c_int()), flags) == 0:
            break
    else:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    number, length = os.fstatvfs(directory).f_fsid, INTEGER.unpack_from(found)[0]
    return FILE_SYSTEM.pack(number & 0xFFFF_FFFF, number >> 32) + found.raw[: INTEGER.size * 2 + length]


def _call(name: str, *arguments: object) -> int:
    """Call a function of the C library; raise `ENOSYS` if the library does not have it."""
    function = getattr(_libc, name, None)
    if function is None:
        ctypes.set_errno(errno.ENOSYS)
        return -1
    return int(function(*arguments))


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result

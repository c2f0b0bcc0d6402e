"""Locks of package managers, and the processes that hold them.

This module is cheap to import: the agent asks before each run of a resource whether packages are being changed, also
on hosts where no resource manages packages.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Iterable
from pathlib import Path

PACKAGES = (Path("/var/lib/dpkg/lock-frontend"), Path("/var/lib/dpkg/lock"))
"""Locks that programs take to change packages; the lock of frontends comes first."""
FLOCK = "hhqqi4x"
"""C's `struct flock` on 64-bit Linux: type, whence, start, length, pid."""
WISH = struct.pack(FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
"""A write lock on the whole file, for asking the kernel which process holds a conflicting lock."""


def held() -> bool:
    """Return whether any process holds one of the locks."""
    return any(map(holder, PACKAGES))


def holder(path: Path) -> int:
    """Return the id of the process that has locked a file; 0 for none, -1 for one in another namespace."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        kind, _, _, _, pid = struct.unpack(FLOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, WISH))
    finally:
        os.close(descriptor)  # closing would release a lock of our own, but we hold none
    return 0 if kind == fcntl.F_UNLCK else pid or -1


def lock_holder(paths: Iterable[Path]) -> str:
    """Return who holds one of these locks, `process 123 (apt-get)`, or an empty text."""
    pid = next(filter(None, map(holder, paths)), 0)
    return described(pid) if pid else ""


def described(pid: int) -> str:
    """Return a process as a text for messages."""
    if pid < 0:
        return "a process of another namespace"
    try:
        return f"process {pid} ({Path(f'/proc/{pid}/comm').read_text().strip()})"
    except OSError:
        return f"process {pid} (it has just ended)"


def is_ours(pid: int) -> bool:
    """Return whether a process is a descendant of the agent."""
    ours = os.getpid()
    while pid > 1 and pid != ours:
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            return False
    return pid == ours

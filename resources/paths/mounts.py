"""The mount table: the mount points, and which of them an unprivileged user has mounted.

The server of a FUSE file system that a user has mounted can give any answer: that root owns all files, or no answer at
all. The functions of this package make no system call that such a file system answers. If users can mount one that root
may enter (`user_allow_other` in fuse.conf), or have done so since the agent started, each file is opened with O_PATH
before its status is read, and the mount of that descriptor is looked up. A file system that is mounted after the table
was read is found in this way, too.
"""

from __future__ import annotations

import os
import re
import select
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.resources.paths.trust import ANYONE

TABLE = "/proc/self/mountinfo"
ESCAPED = re.compile(rb"\\([0-7]{3})")
"""Escapes of white space in a path of the table."""
OWNER = re.compile(rb"(?:^|,)user_id=(\d+)")


CONFIGURATION = "/etc/fuse.conf"
"""Configuration of FUSE: whether users may mount what root can enter."""
ALLOWED = re.compile(rb"^\s*user_allow_other\s*$", re.MULTILINE)
"""The line that allows users to do so."""
NUMBER = re.compile(rb"^mnt_id:\s*(\d+)$", re.MULTILINE)
"""Id of the mount of a descriptor, as /proc shows it."""


@dataclass(slots=True, eq=False, repr=False)
class MountTable:
    """The table as last read; read again when the kernel reports a change."""

    points: tuple[str, ...] = ()
    owners: Mapping[str, int] = field(default_factory=dict)
    """Mount point of a FUSE file system -> the uid that mounted it, except root's."""
    mounters: Mapping[int, int] = field(default_factory=dict)
    """Id of a mount -> the uid that mounted it."""
    allowed: bool = False
    """Whether users can mount what root may enter."""
    _root: int = -1
    """Id of the mount of `/`."""
    _file: int = -1
    _poll: select.epoll | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def fresh(self) -> MountTable:
        """Return the present table; empty if the kernel shows none."""
        with self._lock:  # other threads wait while the table is read
            if self._poll is None:
                self._open()
            elif self._poll.poll(0):
                self._read()
        return self

    def _open(self) -> None:
        try:
            self._file = os.open(TABLE, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return
        self._poll = select.epoll()
        self._poll.register(self._file, select.EPOLLPRI)
        with suppress(OSError):
            root = os.open("/", os.O_PATH | os.O_CLOEXEC)
            try:
                self._root = _number(root)
            finally:
                os.close(root)
        with suppress(OSError):
            self.allowed = ALLOWED.search(Path(CONFIGURATION).read_bytes()) is not None
        self._read()

    def again(self) -> MountTable:
        """Return the table after reading it again."""
        with self._lock:
            self._read()
        return self

    def _read(self) -> None:
        data, at = b"", 0
        while chunk := os.pread(self._file, 1 << 16, at):
            data, at = data + chunk, at + len(chunk)
        lines = [line.split(b" ") for line in data.split(b"\n") if line]  # names may contain other line ends
        self.points = tuple(unescaped(words[4]) for words in lines)
        mounters, owners = {}, {}
        for words in lines:
            kind, options = words[words.index(b"-") + 1], words[-1]
            found = OWNER.search(options) if kind.startswith(b"fuse") else None
            mounters[int(words[0])] = owners[unescaped(words[4])] = int(found[1]) if found else 0
        mounters.setdefault(self._root, 0)  # in a chroot the table lacks the mount of `/`
        self.mounters = mounters
        self.owners = {point: uid for point, uid in owners.items() if uid}
        self.allowed = self.allowed or bool(self.owners)


_table = MountTable()


def foreign() -> Mapping[str, int]:
    """Return mount point -> uid of the file systems that other users than root have mounted."""
    return _table.fresh().owners


def careful() -> bool:
    """Return whether a path must be opened before its status is read."""
    return _table.fresh().allowed


def mounter(descriptor: int) -> int:
    """Return the uid that mounted the file system of an open file; `ANYONE` if it is no longer mounted.

    Makes no system call that the file system answers. Raises `OSError`.
    """
    number = _number(descriptor)
    known = _table.fresh().mounters
    if number not in known:
        known = _table.again().mounters
    return known.get(number, ANYONE)


def _number(descriptor: int) -> int:
    found = NUMBER.search(Path(f"/proc/self/fdinfo/{descriptor}").read_bytes())
    return int(found[1]) if found else -1


def points() -> tuple[str, ...]:
    """Return all mount points."""
    return _table.fresh().points


def below(real: str) -> list[str]:
    """Return the mount points at or below a path without links."""
    inside = real.rstrip("/") + "/"
    return [point for point in points() if point == real or point.startswith(inside)]


def unescaped(path: bytes) -> str:
    """Return a path of the table without escapes."""
    return os.fsdecode(ESCAPED.sub(lambda code: bytes([int(code[1], 8)]), path))

"""The mount table: which mount points there are, and which of them show what an unprivileged user makes up.

A FUSE file system that a user has mounted answers whatever its server likes: that all is root's, or nothing, for ever. No system call
here asks such a file system for anything. Where users can mount one that root may enter (`user_allow_other` in fuse.conf), or have done so
since the agent began, a descriptor holds each thing before it is asked about, and the mount of that descriptor is looked up. So a mount
between a look at the table and a look at the path changes nothing.
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
"""Blanks and their like in a path, as the kernel writes them there."""
OWNER = re.compile(rb"(?:^|,)user_id=(\d+)")


CONFIGURATION = "/etc/fuse.conf"
"""Where root says whether users may mount what root can enter."""
ALLOWED = re.compile(rb"^\s*user_allow_other\s*$", re.MULTILINE)
"""The line that says so."""
NUMBER = re.compile(rb"^mnt_id:\s*(\d+)$", re.MULTILINE)
"""A mount's own number, as /proc tells it of a descriptor."""


@dataclass(slots=True)
class Table:
    """The table as last read; read again when the kernel says that it has changed."""

    points: tuple[str, ...] = ()
    owners: Mapping[str, int] = field(default_factory=dict)
    """Mount point of a FUSE file system -> the uid that mounted it; those of root left out."""
    mounters: Mapping[int, int] = field(default_factory=dict)
    """Number of a mount -> the uid that mounted it."""
    allowed: bool = False
    """Whether users can mount what root may enter."""
    _root: int = -1
    """Number of the mount that `/` lies in."""
    _file: int = -1
    _poll: select.epoll | None = None
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def fresh(self) -> Table:
        """The table as it is now; empty where the kernel shows none."""
        with self._turn:  # a thread that asks during the read waits for the new table
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

    def again(self) -> Table:
        """The table read anew, whether or not it is said to have changed."""
        with self._turn:
            self._read()
        return self

    def _read(self) -> None:
        data, at = b"", 0
        while chunk := os.pread(self._file, 1 << 16, at):
            data, at = data + chunk, at + len(chunk)
        lines = [line.split(b" ") for line in data.split(b"\n") if line]  # other ends of a line may be in a name
        self.points = tuple(unescaped(words[4]) for words in lines)
        mounters, owners = {}, {}
        for words in lines:
            kind, options = words[words.index(b"-") + 1], words[-1]
            found = OWNER.search(options) if kind.startswith(b"fuse") else None
            mounters[int(words[0])] = owners[unescaped(words[4])] = int(found[1]) if found else 0
        mounters.setdefault(self._root, 0)  # in a chroot the table does not have it
        self.mounters = mounters
        self.owners = {point: uid for point, uid in owners.items() if uid}
        self.allowed = self.allowed or bool(self.owners)


_table = Table()


def foreign() -> Mapping[str, int]:
    """Mount point -> uid, of the file systems that others than root have mounted."""
    return _table.fresh().owners


def careful() -> bool:
    """Whether a path must be held before it is asked about."""
    return _table.fresh().allowed


def mounter(descriptor: int) -> int:
    """The uid that has mounted the file system in which an open file or directory lies; `ANYONE` where it is mounted no more.

    Does not ask that file system. Raises `OSError`.
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
    """All mount points."""
    return _table.fresh().points


def below(real: str) -> list[str]:
    """Mount points at or below a path without links on the way."""
    inside = real.rstrip("/") + "/"
    return [point for point in points() if point == real or point.startswith(inside)]


def unescaped(path: bytes) -> str:
    """A path of the table as it is."""
    return os.fsdecode(ESCAPED.sub(lambda code: bytes([int(code[1], 8)]), path))

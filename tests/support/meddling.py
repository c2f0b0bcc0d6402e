"""A user acts just before a system call of the path modules, which is intercepted through their name `os`."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from holdfast.agent.host import files
from holdfast.resources.kinds import sysctl
from holdfast.resources.kinds.file import disk, removal, trees
from holdfast.resources.paths import attributes, handle, mounts, place, walk

SEAM = (files, disk, removal, sysctl, trees, attributes, handle, mounts, place, walk)
ON_PATHS = (
    "chmod",
    "chown",
    "lstat",
    "mkdir",
    "open",
    "readlink",
    "rename",
    "rmdir",
    "stat",
    "symlink",
    "unlink",
    "utime",
)
ON_DESCRIPTORS = (
    "fchmod",
    "fchown",
    "fstat",
    "getxattr",
    "listxattr",
    "read",
    "scandir",
    "sendfile",
    "setxattr",
    "write",
)
CALLS = frozenset({*ON_PATHS, *ON_DESCRIPTORS})


class Entry(NamedTuple):
    """A file, a directory or a link. Its content is empty if it is neither a file nor a link."""

    inode: int
    mode: int
    uid: int
    gid: int
    content: bytes | str


class Adversary:
    """Replaces `os`: calls `act` once, just before the system call with this number. `calls` counts all of them."""

    def __init__(self, number: int = -1, act: Callable[[], None] = lambda: None) -> None:
        self.calls = 0
        self._number, self._act = number, act

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of `os`. System calls are counted, and the chosen one waits until the user has acted."""
        real = getattr(os, name)
        if name not in CALLS:
            return real

        def call(*args: Any, **options: Any) -> Any:
            if self.calls == self._number:
                self._act()
            self.calls += 1
            return real(*args, **options)

        return call

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Make the path modules use this object as `os`."""
        patches = [mock.patch.object(module, "os", self) for module in SEAM]
        for patch in patches:
            patch.start()
        try:
            yield
        finally:
            for patch in reversed(patches):
                patch.stop()


def state_of(top: Path) -> dict[str, Entry]:
    """Return each entry at and below a directory, by relative path. It is called very often, so it makes no `Path`."""
    found = {".": _entry(str(top))}
    _add(found, str(top), "")
    return found


def _add(found: dict[str, Entry], directory: str, prefix: str) -> None:
    """Add the entries below a directory."""
    with os.scandir(directory) as listed:
        names = [each.name for each in listed]
    for name in names:
        entry = found[prefix + name] = _entry(f"{directory}/{name}")
        if stat.S_ISDIR(entry.mode):
            _add(found, f"{directory}/{name}", f"{prefix}{name}/")


def _entry(path: str) -> Entry:
    seen = os.lstat(path)
    content: bytes | str = b""
    if stat.S_ISREG(seen.st_mode):
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - as above
            content = file.read()
    elif stat.S_ISLNK(seen.st_mode):
        content = os.readlink(path)  # noqa: PTH115 - as above
    return Entry(seen.st_ino, seen.st_mode, seen.st_uid, seen.st_gid, content)

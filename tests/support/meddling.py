"""A user acts just before a system call of the path modules, which is intercepted through their name `os`."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
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


class Adversary:
    """Stands for `os`: calls `act` once, before the call of this number. `calls` counts all."""

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


def state_of(top: Path) -> dict[str, tuple[object, ...]]:
    """Return type, mode, owner and content of each entry at and below a directory."""
    found: dict[str, tuple[object, ...]] = {}
    for path in (top, *top.rglob("*")):
        seen = path.lstat()
        content = (
            path.read_bytes() if stat.S_ISREG(seen.st_mode) else path.readlink() if stat.S_ISLNK(seen.st_mode) else None
        )
        found[str(path.relative_to(top))] = (seen.st_ino, seen.st_mode, seen.st_uid, seen.st_gid, content)
    return found

"""Files put in place whole: a reader, or the next boot after a power cut, sees the old content or the new, never half.

The new content goes to a temporary beside the target, named `.NAME.holdfast-PID-N`, closed to others from its first byte, which
is then renamed over the target. What a killed agent has left of those is recognised by its name and removed the next
time something is written in that directory.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from holdfast.resources.temporaries import OWN, TEMPORARY, give_back, take_name

LARGE = 1 << 20
"""Bytes from which on writing happens in a thread, so that the loop is not held up."""
STALE = 3600.0
"""Seconds after which a temporary is taken for left over even if a process with its number exists."""
SWEEP = 600.0
"""Seconds after which a directory that is written to is searched for leftovers again."""
KEPT = ("user.", "security.selinux", "system.posix_acl_access")
"""Extended attributes that a replaced file hands on; capabilities are not: they belonged to the old content."""
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

_swept: dict[str, float] = {}
"""Directory -> when it was last searched for leftovers, by the monotonic clock."""


@dataclass(slots=True)
class Replacement:
    """One file on its way into place."""

    path: str
    data: bytes
    mode: int
    uid: int
    gid: int
    durable: bool
    temporary: str = ""
    abandoned: bool = False

    def fill(self) -> None:
        """Make the temporary: content, owner, attributes, mode, and on the disk if durable. Raises `OSError` and leaves nothing."""
        directory, name = os.path.split(self.path)
        sweep(directory)
        self.temporary = os.path.join(directory, os.fsdecode(take_name(name)))  # noqa: PTH118 - Path objects are slow
        try:
            descriptor = os.open(self.temporary, NEW, 0o600)
            try:
                self._write(descriptor)
            finally:
                os.close(descriptor)
        except BaseException:
            self.discard()
            raise
        if self.abandoned:
            self.discard()

    def _write(self, descriptor: int) -> None:
        view = memoryview(self.data)
        while view:
            view = view[os.write(descriptor, view) :]
        if self.uid != -1 or self.gid != -1:
            os.fchown(descriptor, self.uid, self.gid)
        carry(self.path, descriptor)
        os.fchmod(descriptor, self.mode)
        if self.durable:
            os.fsync(descriptor)

    def commit(self) -> None:
        """Rename the temporary over the target. Raises `OSError`."""
        os.rename(self.temporary, self.path)  # noqa: PTH104 - Path objects are slow
        give_back(self.temporary)
        if self.durable:
            sync_directory(os.path.dirname(self.path))  # noqa: PTH120 - the same

    def place(self) -> None:
        """Both, unless it was given up in between. Raises `OSError` and leaves nothing."""
        self.fill()
        if self.abandoned:
            return
        try:
            self.commit()
        except OSError:
            self.discard()
            raise

    def discard(self) -> None:
        """Remove the temporary; harmless when there is none."""
        self.abandoned = True
        if self.temporary:
            with contextlib.suppress(OSError):
                os.unlink(self.temporary)  # noqa: PTH108 - the same
            give_back(self.temporary)


async def replace(
    file: Replacement, blocking: Callable[..., Awaitable[object]], check: Callable[[str], Awaitable[None]] | None = None
) -> None:
    """Put a file in place. `check` is awaited with the path of the finished temporary and may raise to stop it.

    On any error, cancellation included, the target is as it was and no temporary is left. Raises `OSError`.
    """
    threaded = file.durable or len(file.data) > LARGE
    try:
        if check is None:
            await _call(blocking, file.place, threaded=threaded)
            return
        await _call(blocking, file.fill, threaded=threaded)
        await check(file.temporary)
        await _call(blocking, file.commit, threaded=file.durable)
    except (asyncio.CancelledError, Exception):
        file.discard()
        raise


async def _call(blocking: Callable[..., Awaitable[object]], step: Callable[[], None], *, threaded: bool) -> None:
    """Do one step, in a thread only if it may take long: a thread costs more than a small file."""
    if threaded:
        await blocking(step)
    else:
        step()


def sweep(directory: str) -> None:
    """Remove what killed agents left in a directory; looks into each now and then, for what a one-shot run left meanwhile."""
    now = time.monotonic()
    # A directory may be given by a descriptor, whose number stands for another one next time.
    known = os.readlink(directory) if directory.startswith("/proc/self/fd/") else directory  # noqa: PTH115 - Path objects are slow
    if now < _swept.get(known, -SWEEP) + SWEEP:
        return
    _swept[known] = now
    raw = os.fsencode(directory)
    try:
        names = os.listdir(raw)  # noqa: PTH208 - Path objects are slow
    except OSError:
        return
    for name in names:
        found = TEMPORARY.fullmatch(name)
        if found and name not in OWN:
            path = os.path.join(raw, name)  # noqa: PTH118 - the same
            with contextlib.suppress(OSError):
                if not in_use(int(found[1], 16), path):
                    os.unlink(path)  # noqa: PTH108 - the same


def in_use(pid: int, path: bytes) -> bool:
    """Whether another process, the one-shot run beside a daemon, is likely to be writing this temporary now."""
    if pid == os.getpid() or time.time() - os.lstat(path).st_mtime > STALE:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def carry(old: str, descriptor: int) -> None:
    """Give a new file the extended attributes (labels, ACLs) of the one it replaces, as far as that is possible."""
    try:
        names = os.listxattr(old, follow_symlinks=False)
    except OSError:
        return
    for name in names:
        if name.startswith(KEPT):
            with contextlib.suppress(OSError):
                os.setxattr(descriptor, name, os.getxattr(old, name, follow_symlinks=False))


def sync_directory(directory: str) -> None:
    """Have the entries of a directory on the disk. Raises `OSError`."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

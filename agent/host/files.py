"""Files put in place whole: a reader, or the next boot after a power cut, sees the old content or the new, never half.

The new content goes to a temporary beside the target, named `.NAME.holdfast-PID-N`, closed to others from its first byte, which
is then renamed over the target. What a killed agent has left of those is recognised by its name and removed the next
time something is written in that directory. All of it happens in the directory that the target's path led to at the beginning.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import islice
from stat import S_ISREG

from holdfast.agent.host.blocking import Blocking
from holdfast.resources import paths
from holdfast.resources.paths.handle import Handle
from holdfast.resources.paths.place import Directory, Place
from holdfast.resources.temporaries import OWN, TEMPORARY, give_back, take_name

LARGE = 1 << 20
"""Bytes from which on writing happens in a thread, so that the loop is not held up."""
STALE = 3600.0
"""Seconds after which a temporary is taken for left over even if a process with its number exists."""
SWEEP = 600.0
"""Seconds after which a directory that is written to is searched for leftovers again."""
KEPT = ("user.", "security.selinux", "system.posix_acl_access")
"""Extended attributes that a replaced file hands on; capabilities are not: they belonged to the old content."""
SWEPT = 10_000
"""Entries of a directory that are looked at for leftovers."""

_swept: dict[str, float] = {}
"""Directory -> when it was last searched for leftovers, by the monotonic clock."""


@dataclass(slots=True)
class Replacement:
    """One file on its way into place. Where only the path is given, where that leads is seen when the temporary is made."""

    target: Place | str
    data: bytes
    mode: int
    uid: int
    gid: int
    durable: bool
    renaming: Callable[[], None] | None = None
    """Called right before the target changes, perhaps in a thread."""
    later: Callable[[Directory], None] | None = None
    """Takes the directory whose flush may wait, perhaps in a thread. None: it may not."""
    temporary: Place | None = None
    pinned: Handle | None = None
    """The temporary, where somebody could put another thing in its place."""
    abandoned: bool = False

    def fill(self) -> None:
        """Make the temporary: content, owner, attributes, mode, and on the disk if durable. Raises `OSError` and `Unsafe`, and leaves nothing."""
        if isinstance(self.target, str):
            self.target = paths.at(self.target)
        sweep(self.target.directory)
        self.temporary = self.target.beside(take_name(self.target.name))
        try:
            self._write(self.temporary.create(0o600), self.target)
        except BaseException:
            self.discard()
            raise
        if self.abandoned:
            self.discard()

    def _write(self, handle: Handle, target: Place) -> None:
        handle.write(self.data)
        if self.uid != -1 or self.gid != -1:
            os.fchown(handle.fd, self.uid, self.gid)
        carry(target, handle, self.uid)
        os.fchmod(handle.fd, self.mode)
        if self.durable:
            os.fsync(handle.fd)
        if target.directory.holders:  # for reading: what is open for writing cannot be executed
            self.pinned = Handle(os.open(f"/proc/self/fd/{handle.fd}", os.O_RDONLY | os.O_CLOEXEC))

    @property
    def shown(self) -> str:
        """A path of the temporary for commands that root runs. A user who owns the directory cannot make it lead to another file."""
        if self.pinned is not None:
            return f"/proc/{os.getpid()}/fd/{self.pinned.fd}"
        return "" if self.temporary is None else self.temporary.real

    def commit(self) -> None:
        """Rename the temporary over the target. Raises `OSError`."""
        if self.temporary is None or isinstance(self.target, str):
            raise RuntimeError("a file cannot be put in place before it is filled")
        if self.renaming is not None:
            self.renaming()
        self.temporary.rename(self.target)
        give_back(self.temporary.name)
        self.pinned = None
        if self.durable and self.later is not None:
            self.later(self.target.directory)
        elif self.durable:
            self.target.directory.sync()

    def place(self) -> None:
        """Both, unless it was given up in between. Raises `OSError` and `Unsafe`, and leaves nothing."""
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
        self.abandoned, self.pinned = True, None
        if self.temporary is not None:
            with contextlib.suppress(OSError):
                self.temporary.unlink()
            give_back(self.temporary.name)


async def replace(file: Replacement, blocking: Blocking, check: Callable[[str], Awaitable[None]] | None = None) -> None:
    """Put a file in place. `check` is awaited with the path of the finished temporary and may raise to stop it.

    On any error, cancellation included, the target is as it was and no temporary is left. Raises `OSError` and `Unsafe`.
    """
    large = len(file.data) > LARGE
    waits = blocking if large else blocking.brief if file.durable else _at_once
    try:
        if check is None:
            await waits(file.place)
            return
        await waits(file.fill)
        await check(file.shown)
        await (blocking.brief if file.durable else _at_once)(file.commit)
    except (asyncio.CancelledError, Exception):
        file.discard()
        raise


async def _at_once(step: Callable[[], None]) -> None:
    """Do what no disk is waited for: a thread costs more than a small file."""
    step()


def sweep(directory: Directory) -> None:
    """Remove what killed agents left in a directory; looks into each now and then, for what a one-shot run left meanwhile."""
    now = time.monotonic()
    if now < _swept.get(directory.real, -SWEEP) + SWEEP:
        return
    _swept[directory.real] = now
    try:
        names = list(islice(directory.names(SWEPT + 1), SWEPT))
    except OSError:
        return
    for name in names:
        found = TEMPORARY.fullmatch(os.fsencode(name))
        if found and name not in OWN:
            place = directory.entry(name)
            with contextlib.suppress(OSError, paths.Unsafe):
                if not in_use(int(found[1], 16), place):
                    place.unlink()


def in_use(pid: int, place: Place) -> bool:
    """Whether another process, the one-shot run beside a daemon, is likely to be writing this temporary now."""
    seen = place.look()
    if pid == os.getpid() or seen is None or time.time() - seen.st_mtime > STALE:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def carry(old: Place, new: Handle, uid: int) -> None:
    """Give a new file, which is to belong to `uid`, the extended attributes (labels, ACLs) of the one it replaces, as far as that is possible."""
    try:
        handle, info = (None, old.look()) if old.directory.handle is None else old.pin()
        if info is None or not S_ISREG(info.st_mode) or not old.keeps_attributes(info, uid):
            return
        path = old.real if handle is None else f"/proc/self/fd/{handle.fd}"
        names = os.listxattr(path)
    except OSError:
        return
    for name in names:
        if name.startswith(KEPT):
            with contextlib.suppress(OSError):
                os.setxattr(new.fd, name, os.getxattr(path, name))

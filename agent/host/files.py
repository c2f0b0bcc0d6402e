"""Atomic replacement of files: readers, and the next boot after a power cut, see the old or the new content, not a mix.

The new content goes to a temporary beside the target, named `.NAME.holdfast-PID-N`. Its mode is 0600 from the first
byte; when it is complete, it is renamed over the target. Temporaries left over from a killed agent are recognised by
name and removed the next time a file is written in that directory. The target's path is resolved once, so all steps use
the same directory. A file that is a mount point itself, such as /etc/hosts in a container, cannot be
replaced: it is written in place.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import islice
from stat import S_ISREG
from traceback import clear_frames

from holdfast.agent.host.blocking import Blocking
from holdfast.resources import paths
from holdfast.resources.paths.handle import Handle
from holdfast.resources.paths.overwriting import is_mounted, overwrite
from holdfast.resources.paths.place import Place, SafeDirectory
from holdfast.resources.paths.replacing import likely_to_replace
from holdfast.resources.temporaries import OWN, TEMPORARY, give_back, take_name

LARGE = 1 << 20
"""Bytes above which a file is written in a thread, so that the event loop is not blocked."""
STALE = 3600.0
"""Seconds after which a temporary counts as left over, even if a process with its number exists."""
SWEEP = 600.0
"""Seconds after which a directory is searched for leftovers again when a file is written there."""
KEPT = ("user.", "security.selinux", "system.posix_acl_access")
"""Extended attributes that a new file takes over. Capabilities are not among them: they belong to the old content."""
SWEPT = 10_000
"""Most entries of a directory that are checked for leftovers."""

_swept: dict[str, float] = {}
"""Directory -> time of the last search for leftovers, by the monotonic clock."""


@dataclass(slots=True, eq=False, repr=False)
class Replacement:
    """One file to be replaced. If only a path is given, it is resolved when the temporary is made."""

    target: Place | str
    data: bytes
    mode: int
    uid: int
    gid: int
    durable: bool
    renaming: Callable[[], None] | None = None
    """Called directly before the target changes, possibly in a thread."""
    later: Callable[[SafeDirectory], None] | None = None
    """Called with a directory to flush later, possibly in a thread. None: the directory is flushed at once."""
    temporary: Place | None = None
    pinned: Handle | None = None
    """The temporary, kept open where another user could replace it."""
    abandoned: bool = False

    def fill(self) -> None:
        """Make the temporary: content, owner, attributes, mode; flushed if durable.

        Raises `OSError` and `Unsafe`; then nothing is left.
        """
        if isinstance(self.target, str):
            self.target = paths.at(self.target)
        sweep(self.target.directory)
        self.temporary = self.target.beside(take_name(self.target.name))
        try:
            self._write(self.temporary.create(0o600), self.target)
        except BaseException as error:
            self.discard()
            clear_frames(error.__traceback__)  # an open descriptor would keep the removed file's space on the disk
            raise
        if self.abandoned:
            self.discard()

    def prepare(self) -> None:
        """Do as `fill`, and have the present file kept now: little time must pass between a check and `commit`."""
        self.fill()
        likely_to_replace(self.target, self.temporary)

    def _write(self, handle: Handle, target: Place) -> None:
        handle.write(self.data)
        if self.uid != -1 or self.gid != -1:
            os.fchown(handle.fd, self.uid, self.gid)
        carry(target, handle, self.uid)
        os.fchmod(handle.fd, self.mode)
        if self.durable:
            os.fsync(handle.fd)
        if target.directory.holders:  # opened for reading: the kernel refuses to execute files open for writing
            self.pinned = Handle(os.open(f"/proc/self/fd/{handle.fd}", os.O_RDONLY | os.O_CLOEXEC))

    @property
    def shown(self) -> str:
        """A path of the temporary for commands that root runs.

        The owner of the directory cannot make it lead to another file.
        """
        if self.pinned is not None:
            return f"/proc/{os.getpid()}/fd/{self.pinned.fd}"
        return "" if self.temporary is None else self.temporary.real

    def commit(self) -> None:
        """Rename the temporary over the target. Raises `OSError`."""
        if self.temporary is None or isinstance(self.target, str):
            raise RuntimeError("cannot put a file in place before it is filled")
        if self.renaming is not None:
            self.renaming()
        try:
            self.temporary.rename(self.target)
        except OSError as error:
            if error.errno != errno.EBUSY or not is_mounted(self.target):
                raise
            overwrite(self.target, self.data, mode=self.mode, uid=self.uid, gid=self.gid, durable=self.durable)
            self.temporary.unlink(own=True)
        give_back(self.temporary.name)
        self.pinned = None
        if self.durable and self.later is not None:
            self.later(self.target.directory)
        elif self.durable:
            self.target.directory.sync()

    def place(self) -> None:
        """Do as `fill` and `commit`, unless cancelled in between.

        Raises `OSError` and `Unsafe`; then nothing is left.
        """
        self.fill()
        if self.abandoned:
            return
        try:
            self.commit()
        except OSError:
            self.discard()
            raise

    def discard(self) -> None:
        """Remove the temporary, if there is one."""
        self.abandoned, self.pinned = True, None
        if self.temporary is not None:
            with contextlib.suppress(OSError):
                self.temporary.unlink(own=True)
            give_back(self.temporary.name)


async def replace(file: Replacement, blocking: Blocking, check: Callable[[str], Awaitable[None]] | None = None) -> None:
    """Put a file in place. `check` is awaited with the path of the finished temporary and may raise to stop it.

    On any error, cancellation included, the target is as it was and no temporary is left. Raises `OSError` and
    `Unsafe`.
    """
    large = len(file.data) > LARGE
    waits = blocking if large else blocking.brief if file.durable else _at_once
    try:
        if check is None:
            await waits(file.place)
            return
        await waits(file.prepare)
        await check(file.shown)
        await (blocking.brief if file.durable else _at_once)(file.commit)
    except (asyncio.CancelledError, Exception):
        file.discard()
        raise


async def _at_once(step: Callable[[], None]) -> None:
    """Run a step without a thread: a thread costs more than writing a small file that needs no flush."""
    step()


def sweep(directory: SafeDirectory) -> None:
    """Remove leftovers of killed agents from a directory. Each directory is searched again after `SWEEP` seconds."""
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
                    place.unlink(own=True)


def in_use(pid: int, place: Place) -> bool:
    """Return whether another process (a one-shot run beside a daemon) is probably writing this temporary now."""
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
    """Copy extended attributes (labels, ACLs) of the old file to the new one, owned by `uid`, as far as possible."""
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

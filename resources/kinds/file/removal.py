"""Removal and copying of files and whole directories. No link is followed, and no mount point is crossed."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from itertools import islice

from holdfast.resources.errors import Permanent
from holdfast.resources.kinds.file.base import os_errors
from holdfast.resources.kinds.file.trees import EntryBudget, enter, reach
from holdfast.resources.paths import Place, SafeDirectory, Unsafe, mounts
from holdfast.resources.paths.handle import ABSENT, ENTRIES, LIMIT

BATCH = 10_000
"""Number of entries of a directory to list at a time for removal."""


def remove_below(top: SafeDirectory, path: str) -> None:
    """Remove the file or directory at a path below `top`, opened from there. Blocks. Raises the errors of `remove`."""
    with os_errors("remove", path):
        place = reach(top, path)
    if place is not None:
        remove(place)


def remove(place: Place, budget: EntryBudget | None = None) -> None:
    """Remove a file, a link (not its target) or a whole directory. A missing entry is not an error.

    Blocks. `budget` counts the removed entries. Raises `Temporary` or `Permanent`; also `Permanent` for a mount point,
    because a state that removes a directory does not mean the file system that is mounted there.
    """
    mounted = mounts.below(place.real)
    if mounted:
        raise Permanent(f"cannot remove {place.path}: {mounted[0]} is a mount point; unmount it first")
    with os_errors("remove", place.path):
        _remove(place, 1, budget or EntryBudget(10 * ENTRIES))


def _remove(place: Place, level: int, budget: EntryBudget) -> None:
    budget.spend(place.directory, level)
    seen = place.look()
    if seen is None:
        return
    try:
        if not stat.S_ISDIR(seen.st_mode):
            place.unlink()
            budget.removed += 1
            return
        inside = place.enter()
        if place.refusal(inside.info):
            _remove_empty(place, inside.info)
            return
        while names := list(islice(inside.names(BATCH + 1), BATCH)):
            for name in names:
                _remove(inside.entry(name), level + 1, budget)
            if len(names) < BATCH:
                break
        place.rmdir()
        budget.removed += 1
    except ABSENT:  # removed by another process
        return


def _remove_empty(place: Place, seen: os.stat_result) -> None:
    """Remove a directory that a user may have moved there, if it is empty. Raises `OSError` and `Unsafe`."""
    try:
        place.rmdir()
    except OSError as error:
        if error.errno in {errno.ENOTEMPTY, errno.EEXIST}:
            place.demand_own(seen, "remove")
        raise


def copy(origin: Place, to: Place) -> None:
    """Copy a file, a link or a whole directory, with owner, mode and times, to a free path.

    After an error, no part of the copy remains. Blocks. Raises `OSError`, `Permanent` and `Unsafe`.
    """
    try:
        _copy(origin, to, 1, EntryBudget())
    except BaseException:
        remove(to)
        raise


def _copy(origin: Place, to: Place, level: int, budget: EntryBudget) -> None:
    budget.spend(origin.directory, level)
    seen = origin.look()
    if seen is None:
        return
    if stat.S_ISLNK(seen.st_mode):
        to.symlink(origin.readlink(), seen.st_uid, seen.st_gid)
    elif stat.S_ISDIR(seen.st_mode):
        inside = enter(origin, seen)
        if inside is not None:
            made = to.mkdir(inside.info.st_uid, inside.info.st_gid, stat.S_IMODE(inside.info.st_mode))
            for name in list(inside.names()):
                _copy(inside.entry(name), made.entry(name), level + 1, budget)
    else:
        _copy_file(origin, to)


def _copy_file(origin: Place, to: Place) -> None:
    """Copy a regular file; read owner, mode and times from the same descriptor as the content."""
    source, info = origin.open()
    origin.demand_own(info, "move")
    loose = bool(origin.directory.holders)
    if loose and info.st_size > LIMIT:
        raise Unsafe(f"cannot move {origin.path}: it has more than {LIMIT >> 20} MiB, and {origin.directory.reason}")
    new = to.create(0o600)
    left = info.st_size
    while left > 0 and (done := os.sendfile(new.fd, source.fd, None, min(left, BATCH << 10))):  # None: from its offset
        left -= done
    os.fchown(new.fd, info.st_uid, info.st_gid)
    os.fchmod(new.fd, stat.S_IMODE(info.st_mode) & (0o777 if loose else 0o7777))
    if not loose:
        for name in os.listxattr(source.fd):
            with suppress(OSError):  # this file system may not support it
                os.setxattr(new.fd, name, os.getxattr(source.fd, name))
    os.utime(new.fd, (info.st_atime, info.st_mtime))

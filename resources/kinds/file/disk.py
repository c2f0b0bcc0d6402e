"""Read, compare, show and back up files on the disk for the runs of file kinds."""

from __future__ import annotations

import os
import stat
import time
from dataclasses import dataclass
from functools import partial

from holdfast.resources import accounts, paths
from holdfast.resources.context import Context
from holdfast.resources.diff import unified
from holdfast.resources.kinds.file import content
from holdfast.resources.kinds.file.base import LARGE, UNDECLARED, Ownership, found, os_errors
from holdfast.resources.paths import Place, Unsafe
from holdfast.resources.paths.handle import LIMIT, read_whole

KEPT = 20
"""Maximum number of backups of one file."""
KEPT_OF_USERS = 16 << 20
"""Maximum size of a backup, in bytes, if an untrusted user can write the file."""
DIFF_LIMIT = 8 << 20
"""Size of old content, in bytes, above which it is not read just for the diff."""


@dataclass(slots=True, eq=False, repr=False)
class FileComparison:
    """The file that one run found at a path, and the file that should be there."""

    path: str
    place: Place | None
    """Place of the file; None if its directory does not exist yet."""
    seen: os.stat_result | None
    """Status of the file; None if there is no file, or a link that will be replaced."""
    owner: Ownership
    wanted: bytes | None = None
    """Wanted content; None if the content must not be changed."""
    old: bytes | None = None
    """Old content; None if it was not read because it is too large, must not be shown, or does not exist."""
    differs: bool = False

    def needs_new_file(self) -> bool:
        """Return whether a new file must be written to repair the owner and mode.

        The present file may belong to another user, or its creator may still hold it open.
        """
        if self.place is None or self.seen is None:
            return True
        return bool(self.place.refusal(self.seen)) or self.place.changes_hands(self.seen, self.owner.uid)

    def demand_givable(self) -> None:
        """Raise `Unsafe` if the content would get another owner although a third user may have put it there."""
        if self.place is None or self.seen is None:
            return
        self.place.demand_own(self.seen, "change owner or mode of")
        if self.place.directory.shared and self.seen.st_uid in paths.trusted_uids():
            raise Unsafe(
                f"cannot give {self.path} to another: others may have put it there, because "
                f"{self.place.directory.path} is open to all users"
            )


def effective_owner(owner: Ownership, place: Place | None, seen: os.stat_result | None) -> Ownership:
    """Return the owner that a file should have.

    If no owner is declared and an untrusted user could have put the file there, the owner is the agent's user.
    """
    if owner.user is not None or place is None or seen is None or not place.who(seen):
        return owner
    uid, gid = os.geteuid(), os.getegid()
    group = owner if owner.group is not None else owner._replace(group=accounts.group_name(gid), gid=gid)
    return group._replace(user=accounts.user_name(uid), uid=uid)


def attributes_of_new(comparison: FileComparison, default: int) -> tuple[int, int, int]:
    """Return uid, gid and mode of the new file.

    An undeclared owner or group is that of the replaced file (-1 if that is the agent's), unless an untrusted user
    could have put the file there. An undeclared mode is that of the replaced file without set-uid and set-gid bits; if
    an untrusted user chose the mode, also without the bits that `default`, the mode of a new file, lacks.
    """
    owner, seen = comparison.owner, comparison.seen
    uid, gid = max(owner.uid, UNDECLARED), max(owner.gid, UNDECLARED)
    if seen is None or comparison.place is None:
        return uid, gid, default if owner.mode is None else owner.mode
    if not comparison.place.who(seen):
        uid = seen.st_uid if uid < 0 and seen.st_uid != os.geteuid() else uid
        gid = seen.st_gid if gid < 0 and seen.st_gid != os.getegid() else gid
    kept = 0o777 if comparison.place.keeps_attributes(seen, uid) else default
    return uid, gid, stat.S_IMODE(seen.st_mode) & kept if owner.mode is None else owner.mode


async def read(ctx: Context, place: Place, seen: os.stat_result, *, published: bool = True) -> bytes:
    """Return the content of a regular file; read a large file in a thread. See `Place.read`.

    Raises `OSError`, `Permanent` and `Unsafe`.
    """
    reading = partial(place.read, published=published, seen=seen)
    return bytes(await ctx.blocking(reading)) if seen.st_size > LARGE else reading()


async def compare(ctx: Context, comparison: FileComparison, wanted: bytes) -> None:
    """Record whether the content differs, and the old content if it may be shown.

    Raises `OSError`, `Permanent` and `Unsafe`.
    """
    if comparison.seen is None or comparison.place is None:
        return
    size = comparison.seen.st_size
    if size != len(wanted) and size > DIFF_LIMIT:
        comparison.differs = True
        return
    try:
        handle, now = comparison.place.open(comparison.seen)
    except FileNotFoundError:
        comparison.seen = None
        return
    if now.st_size > LARGE:
        old = bytes(await ctx.blocking(read_whole, handle.fd, now, LIMIT, comparison.path))
    else:
        old = read_whole(handle.fd, now, LIMIT, comparison.path)
    comparison.differs = old != wanted
    comparison.old = old if comparison.place.readable(now) else None


def difference(comparison: FileComparison) -> str:
    """Return the unified diff, or one line if the content is too large to show."""
    wanted = comparison.wanted or b""
    if comparison.old is None:
        return f"content of {comparison.path} differs: it is now {len(wanted)} bytes\n"
    return unified(comparison.old, wanted, comparison.path)


def source_mode(ctx: Context, url: str) -> int | None:
    """Return the mode of a source; None if it is not on this host."""
    mode = b"" if url.startswith(content.REMOTE) else ctx.source_view(url, *MODE)
    return int(mode, 8) if mode else None


def _mode_of(path: str) -> bytes:
    """Return the octal mode of a file; empty if there is no file."""
    place, seen = found(path, follow=True)
    return b"" if place is None or seen is None else f"{stat.S_IMODE(kept_mode(place, seen)):o}".encode()


MODE = ("mode", _mode_of)
"""The view that reads the mode of a source."""


def kept_mode(place: Place, seen: os.stat_result) -> int:
    """Return the type and mode that a copy of a source gets.

    Set-uid and set-gid bits are removed if an untrusted user may have set them.
    """
    return seen.st_mode if place.keeps_attributes(seen, -1) else seen.st_mode & ~(stat.S_ISUID | stat.S_ISGID)


def back_up(place: Place, directory: str) -> None:
    """Keep a copy of a file that only the agent can read, and remove the oldest copies.

    Raises `Permanent` or `Temporary`.
    """
    name = place.name
    with os_errors("back up", place.path):
        seen = place.look()
        data = place.read(KEPT_OF_USERS if seen is not None and place.weakness(seen) else LIMIT, seen=seen)
        kept = paths.directory(directory)
        copy = kept.entry(f"{name}_{time.strftime('%Y%m%d-%H%M%S')}_{time.time_ns() % 10**9:09d}").create(0o600)
        copy.write(data)
        for old in sorted(entry for entry in kept.names() if entry.startswith(f"{name}_"))[:-KEPT]:
            kept.entry(old).unlink()

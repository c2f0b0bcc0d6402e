"""Operations on one entry of a directory, by the directory's descriptor and the entry's name.

A `SafeDirectory` is the result of resolving a path. If only trusted users can change the path, the path identifies the
directory. Otherwise a descriptor does, which stays open as long as any thread refers to it.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace

from holdfast.resources.errors import Permanent
from holdfast.resources.paths.handle import (
    ABSENT,
    ENTRIES,
    LIMIT,
    LOOK,
    OPEN,
    Handle,
    Unsafe,
    acl_at,
    acl_of,
    drop_acls,
    mine,
    read_whole,
    refuse_foreign,
    refuse_mounted,
    what,
    writers_inside,
)
from holdfast.resources.paths.mounts import careful
from holdfast.resources.paths.replacing import about_to_replace
from holdfast.resources.paths.trust import Weakness, called, trusted_uids, weakness


@dataclass(slots=True, eq=False, repr=False)
class SafeDirectory:
    """A directory that was reached safely."""

    path: str
    """The path as given."""
    real: str
    """The path without links."""
    handle: Handle | None
    """None if only trusted users can change to which directory the path leads."""
    info: os.stat_result
    above: frozenset[int]
    """Untrusted users who can replace this directory or one above it."""
    holders: frozenset[int]
    """The users of `above`, and those who can replace any entry of this directory."""
    reason: str
    """Why the users of `holders` can do so, for a message; empty if there are none."""
    closed: bool = False
    """Whether an untrusted user who cannot pass this directory may have moved it, or one above it, to its place."""
    weak: Weakness | None = None
    """The weakness, with a hint on how to fix it."""
    follower: int | None = None
    """The user whose link led to this directory: this user must own all entries that are used."""

    @property
    def fd(self) -> int | None:
        """Value of `dir_fd` for system calls."""
        return None if self.handle is None else self.handle.fd

    @property
    def sticky(self) -> bool:
        """Whether only the owner of the directory and the owner of an entry can replace the entry."""
        return bool(self.info.st_mode & stat.S_ISVTX)

    @property
    def shared(self) -> bool:
        """Whether others may add entries, also a file of root, but not replace those of other users."""
        return self.sticky and bool(self.info.st_mode & (stat.S_IWGRP | stat.S_IWOTH))

    def entry(self, name: str) -> Place:
        """Return the place of an entry, which need not exist."""
        if name == ".":
            return Place(self, name, self.path, self.real)
        path = f"{self.path}/{name}" if self.path != "/" else f"/{name}"
        real = path if self.real == self.path else f"{self.real}/{name}" if self.real != "/" else f"/{name}"
        return Place(self, name, path, real)

    def who(self, info: os.stat_result) -> frozenset[int]:
        """Return the untrusted users who could have put this entry there."""
        if self.info.st_mode & stat.S_ISVTX and info.st_uid not in trusted_uids():
            return self.holders | {info.st_uid}
        return self.holders

    def again(self) -> SafeDirectory:
        """Return the directory with its present owner and mode. Raises `OSError`."""
        if self.handle is None:
            return self
        info, acl = os.fstat(self.handle.fd), acl_of(self.handle)
        holders = self.above | writers_inside(info, acl)
        weak = self.weak or (weakness(self.path, info, acl, trusted_uids()) if holders else None)
        return replace(self, info=info, holders=holders, weak=weak)

    def as_if_private(self) -> SafeDirectory:
        """Return the directory as it will be when only its owner can write it, for a plan with this change."""
        return replace(self, holders=self.above)

    def open(self) -> Handle:
        """Return a descriptor for listing the directory. Raises `OSError`."""
        path = "." if self.handle is not None else self.real
        return Handle(os.open(path, OPEN | os.O_DIRECTORY, dir_fd=self.fd))

    def names(self, limit: int = ENTRIES) -> Iterator[str]:
        """Yield the names of the entries.

        Raises `OSError`, and `Unsafe` if a directory that others can write has more than `limit` entries.
        """
        handle = self.open()
        with os.scandir(handle.fd) as entries:
            for number, entry in enumerate(entries):
                if number >= limit and (self.holders or self.shared):
                    raise Unsafe(
                        f"cannot walk {self.path}: it has more than {limit} entries, "
                        f"and {self.reason or 'others may write it'}"
                    )
                yield entry.name

    def sync(self) -> None:
        """Flush the entries to disk. Raises `OSError`."""
        handle = self.open()
        os.fsync(handle.fd)


@dataclass(slots=True, eq=False, repr=False)
class Place:
    """One entry of a directory, which need not exist. No operation follows a link there."""

    directory: SafeDirectory
    name: str
    path: str
    """The path for messages."""
    real: str
    """The path without links."""

    @property
    def at(self) -> str:
        """The path for system calls, with `dir_fd`."""
        return self.name if self.directory.handle is not None else self.real

    @property
    def fd(self) -> int | None:
        """Value of `dir_fd` for system calls."""
        return self.directory.fd

    def beside(self, name: str) -> Place:
        """Return another entry of the same directory."""
        return self.directory.entry(name)

    # -- reading -----------------------------------------------------------------------------------------------

    def look(self) -> os.stat_result | None:
        """Return the status of the entry; None if there is none.

        Raises `OSError`, and `Unsafe` for a file system that a user has mounted.
        """
        handle = self.directory.handle
        try:
            if careful():
                return self.pin()[1]
            return os.lstat(self.real) if handle is None else os.lstat(self.name, dir_fd=handle.fd)
        except ABSENT:
            return None

    def who(self, info: os.stat_result) -> frozenset[int]:
        """Return the untrusted users who could have put an entry with this status there."""
        return self.directory.who(info)

    def weakness(self, info: os.stat_result) -> Weakness | None:
        """Return why an untrusted user can write the entry with this status, or replace it; None if none can."""
        if self.directory.weak is not None or (stat.S_ISLNK(info.st_mode) and info.st_uid in trusted_uids()):
            return self.directory.weak  # the mode of a link means nothing
        path = self.real if self.fd is None else f"/proc/self/fd/{self.fd}/{self.name}"
        acl = acl_at(path, follow=False) if info.st_mode & stat.S_IWGRP else b""
        return weakness(self.path, info, acl, trusted_uids())

    def pin(self) -> tuple[Handle, os.stat_result]:
        """Return an O_PATH descriptor of the entry, and its status. Raises `OSError` and `Unsafe`."""
        wary = careful()
        if wary:
            refuse_foreign(self.real, self.path)
        handle = Handle(os.open(self.at, LOOK, dir_fd=self.fd))
        if wary or careful():
            refuse_mounted(handle, self.path)
        return handle, os.fstat(handle.fd)

    def readlink(self) -> str:
        """Return the target of a link, verbatim. Raises `OSError`."""
        return os.readlink(self.at, dir_fd=self.fd)

    def read(self, limit: int = LIMIT, *, published: bool = False, seen: os.stat_result | None = None) -> bytes:
        """Return the content of a regular file. Never waits for a fifo; blocks while the disk is read.

        `seen` is the status just read. `published` means that others will be able to read the content. Then a file is
        refused that an untrusted user may have put there but could not read. Raises `OSError`, `Unsafe`, and
        `Permanent` if there is no regular file or if it has more than `limit` bytes.
        """
        handle, info = self.open(seen)
        if published:
            self.demand_readable(info)
        return read_whole(handle.fd, info, limit, self.path)

    def open(self, seen: os.stat_result | None = None) -> tuple[Handle, os.stat_result]:
        """Open a regular file for reading; return its descriptor and status.

        `seen`: the status just read. Raises `OSError` and `Permanent`.
        """
        if self.directory.handle is None and not careful():
            if seen is None:
                seen = os.lstat(self.real)
            info = seen
            if stat.S_ISREG(info.st_mode):  # opening a device may have an effect on it
                handle = Handle(os.open(self.real, OPEN | os.O_NOFOLLOW))
                info = os.fstat(handle.fd)
        else:
            pinned, info = self.pin()
            if stat.S_ISREG(info.st_mode):
                self.demand_followed(info)
                handle = Handle(os.open(f"/proc/self/fd/{pinned.fd}", OPEN))
        if stat.S_ISLNK(info.st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), self.path)
        if not stat.S_ISREG(info.st_mode):
            raise Permanent(f"cannot read {self.path}: it is not a regular file but {what(info.st_mode)}")
        return handle, info

    def readable(self, info: os.stat_result) -> bool:
        """Return whether the user who may have put a file there could read the file.

        The user can if the file is the user's own, or if everybody may reach and read it.
        """
        who = self.who(info)
        return not who or mine(info, who) or (bool(info.st_mode & stat.S_IROTH) and not self.directory.closed)

    def demand_readable(self, info: os.stat_result) -> None:
        """Raise `Unsafe` for a file that a user may have put there but could not read."""
        if not self.readable(info):
            raise Unsafe(
                f"cannot read {self.path}: it belongs to {called(info.st_uid)} and is not for others to read, "
                f"but {self.reason(info)}"
            )

    def demand_followed(self, info: os.stat_result) -> None:
        """Raise `Unsafe` for the target of a user's link if the user does not own the target."""
        follower = self.directory.follower
        if follower is not None and info.st_uid != follower:
            raise Unsafe(
                f"cannot use {self.path}: a link of {called(follower)} points there, but it belongs to "
                f"{called(info.st_uid)}"
            )

    def reason(self, info: os.stat_result) -> str:
        """Return why an untrusted user may have put an entry with this status there, for a message."""
        return (
            self.directory.reason or f"others may have put it there, because {self.directory.path} is open to all users"
        )

    # -- changing ----------------------------------------------------------------------------------------------

    def refusal(self, info: os.stat_result) -> str:
        """Return why the entry must not be changed in place; empty if it may be changed.

        An untrusted user can move or link the file of another user there, so that the agent changes its owner or mode.
        Where an untrusted user could have put an entry, only an entry that this user owns and that has no other link is
        changed.
        """
        who = self.who(info)
        if who and not mine(info, who):
            return f"it belongs to {called(info.st_uid)}, but {self.reason(info)}"
        if (who or self.directory.shared) and info.st_nlink > 1 and not stat.S_ISDIR(info.st_mode):
            return f"it has more than one link, and {self.reason(info)}"
        return ""

    def demand_own(self, info: os.stat_result, doing: str) -> None:
        """Raise `Unsafe` if the entry must not be changed in place; `doing` is the verb of the message."""
        refusal = self.refusal(info)
        if refusal:
            raise Unsafe(f"cannot {doing} {self.path}: {refusal}; if this is intended, do it by hand")
        self.demand_followed(info)

    def keeps_attributes(self, info: os.stat_result, uid: int) -> bool:
        """Return whether a new file of `uid` (-1: the agent) may keep ACL, attributes and mode bits of the old one."""
        return info.st_uid == uid or (not self.who(info) and info.st_uid in trusted_uids())

    def changes_hands(self, info: os.stat_result, uid: int) -> bool:
        """Return whether the entry would pass from an untrusted user, who may hold it open, to another user.

        In a directory that all users can write, any user may have created the entry, or moved it there.
        """
        suspect = bool(self.who(info)) or self.directory.shared or info.st_uid not in trusted_uids()
        return suspect and uid not in {-1, info.st_uid}

    def create(self, mode: int) -> Handle:
        """Create a file and open it for writing. Raises `OSError`, as `FileExistsError` if there is an entry."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = Handle(os.open(self.at, flags, mode, dir_fd=self.fd))
        try:
            self._disinherit(f"/proc/self/fd/{handle.fd}")
        except OSError:
            self.unlink(own=True)
            raise
        return handle

    def _disinherit(self, path: str) -> None:
        """Remove the group and the ACLs that a new entry has inherited from the directory of an untrusted user."""
        if self.directory.holders:
            drop_acls(path)
            os.chown(path, -1, os.getegid())

    def mkdir(self, uid: int = -1, gid: int = -1, mode: int | None = None) -> SafeDirectory:
        """Make a directory: private at first, then with owner and mode.

        The default mode is 0755, with the set-group-ID bit of the parent unless an untrusted user may write the parent.
        Raises `OSError`, and `Unsafe` if it was replaced.
        """
        os.mkdir(self.at, 0o700, dir_fd=self.fd)
        made = self.enter()
        if self.directory.holders and (
            made.info.st_uid != os.geteuid() or made.info.st_mode & 0o077 or any(made.names())
        ):
            raise Unsafe(
                f"cannot make directory {self.path}: another directory was put in its place, "
                f"because {self.directory.reason}"
            )
        path = f"/proc/self/fd/{made.fd}"
        self._disinherit(path)
        if uid >= 0 or gid >= 0:
            os.chown(path, uid, gid)
        if mode is None:
            mode = 0o755 | (0 if self.directory.holders else made.info.st_mode & stat.S_ISGID)
        os.chmod(path, mode)  # noqa: PTH101 - fchmod refuses such a descriptor
        return made.again()

    def symlink(self, target: str, uid: int = -1, gid: int = -1) -> None:
        """Make a link. Raises `OSError`, and `Unsafe` if another file has replaced the link before `chown`."""
        os.symlink(target, self.at, dir_fd=self.fd)
        if uid >= 0 or gid >= 0:
            handle, info = self.pin()
            ours = stat.S_ISLNK(info.st_mode) and info.st_uid == os.geteuid() and info.st_nlink == 1
            if not ours or os.readlink("", dir_fd=handle.fd) != target:
                raise Unsafe(
                    f"cannot link {self.path}: another file was put in its place, because {self.directory.reason}"
                )
            os.chown(f"/proc/self/fd/{handle.fd}", uid, gid)

    def rename(self, to: Place) -> None:
        """Rename the entry atomically. Blocks while an entry that is replaced is kept. Raises `OSError`."""
        about_to_replace(to, self)
        os.rename(self.at, to.at, src_dir_fd=self.fd, dst_dir_fd=to.fd)

    def unlink(self, *, own: bool = False) -> None:
        """Remove the entry, other than a directory. Blocks while it is kept. Raises `OSError`.

        `own`: the caller has made the entry itself, and its content need not be kept.
        """
        if not own:
            about_to_replace(self, None)
        os.unlink(self.at, dir_fd=self.fd)

    def rmdir(self) -> None:
        """Remove an empty directory. Raises `OSError`."""
        os.rmdir(self.at, dir_fd=self.fd)

    # -- entering -----------------------------------------------------------------------------------------------

    def enter(self) -> SafeDirectory:
        """Open the directory at this place; a link is not followed. Raises `OSError` and `Unsafe`."""
        handle, info = self.pin()
        if not stat.S_ISDIR(info.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), self.path)
        return self.entered(handle, info)

    def entered(self, handle: Handle, info: os.stat_result) -> SafeDirectory:
        """Return the directory of a descriptor and a status."""
        above = self.who(info)
        acl = acl_of(handle) if info.st_mode & (stat.S_IWGRP | stat.S_IWOTH) else b""
        inside = writers_inside(info, acl)
        holders = above | inside
        weak = self.directory.weak or (weakness(self.path, info, acl, trusted_uids()) if holders else None)
        moved = bool(above) and not mine(info, above) and not info.st_mode & stat.S_IXOTH
        closed = self.directory.closed or moved
        reason = self.directory.reason or self._why_unsafe(info, above, inside)
        return SafeDirectory(
            self.path, self.real, handle, info, above, holders, reason, closed, weak, self.directory.follower
        )

    def _why_unsafe(self, info: os.stat_result, above: frozenset[int], inside: frozenset[int]) -> str:
        """Return why an untrusted user can replace this directory or its entries, for a message; empty if none can."""
        if above:
            return f"{self.path} belongs to {called(info.st_uid)}"
        if inside:
            verb = "belongs to" if info.st_uid in inside else "may be written by"
            return f"{self.path} {verb} {called(max(inside))}"
        return ""

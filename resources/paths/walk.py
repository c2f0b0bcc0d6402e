"""Where a path leads: component by component, with a descriptor for each, and who could lead it elsewhere.

A link that only trusted users could have put there is followed. One that an untrusted user owns, or could have put there, is followed
only while all behind it is that user's: his files, his directories, and root's directories on the way to them that anybody may pass.
The models are systemd's unsafe path transition (CHASE_SAFE) and OpenSSH's StrictModes.

A directory whose whole path only trusted users can change is remembered for a while by that path, and only looked at again.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from dataclasses import replace

from holdfast.resources.paths.handle import ABSENT, LIMIT, Handle, Unsafe, acl_of, read_whole, what
from holdfast.resources.paths.place import Directory, Place
from holdfast.resources.paths.trust import ANYONE, NOBODY, called, trusted_uids, weakness

PATH_MAX = 4096
"""Bytes that the kernel takes of a path."""
HOPS = 40
"""Links followed on one way; the kernel's own limit."""
NAMES = 256
"""Names in the links of a user that are followed on one way: he could make it take as long as he likes."""
SHOWN = 200
"""Characters from which on a link's text is not told."""
MAGIC = re.compile(r"/proc/\d+(?:/task/\d+)?/(?:cwd|exe|root|(?:fd|ns|map_files)/[^/]+)")
"""Links of the kernel's whose text is no path, or one that means something else in another process."""
KNOWN = 4096
"""Directories remembered."""
AGE = 60.0
"""Seconds after which one is walked to again: an inode number may have been given to another by then."""

_known: dict[str, tuple[Directory, float, int]] = {}
"""Path of a directory that only trusted users can change -> it, until when it is taken to be so, and for which user."""


def at(path: str, *, follow: bool = False) -> Place:
    """The place that an absolute, normalised path names, which may be empty.

    `follow`: where links at its end lead, too. Raises `OSError` when a directory on the way is missing or cannot be passed,
    `Unsafe` when a user leads it where he must not.
    """
    if len(path) >= PATH_MAX:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), path)
    if "\0" in path:
        raise OSError(errno.EINVAL, "a path cannot contain a NUL character", path)
    parent, _, name = path.rpartition("/")
    found = _remembered(parent or "/")
    place = found.entry(name or ".") if found is not None else None
    if place is not None and not follow:
        return place
    if place is not None and (seen := place.look()) is not None and not stat.S_ISLNK(seen.st_mode):
        return place
    return _Walk(path).place(follow=follow)


def directory(path: str) -> Directory:
    """The directory that a path leads to, links at its end followed. Raises `OSError` and `Unsafe`."""
    return _remembered(path) or _Walk(path).directory()


def nearest(path: str) -> Directory:
    """The directory that a path lies in; where that is missing, the nearest one above it. Raises `OSError` and `Unsafe`."""
    while True:
        path = path.rpartition("/")[0]
        try:
            return directory(path or "/")
        except ABSENT:
            continue


def resolve(path: str) -> str:
    """A path without links, like `realpath`, but for what is missing at its end. Raises `OSError` and `Unsafe`."""
    return at(path, follow=True).real


def exists(path: str) -> bool:
    """Whether something is at a path, links followed. Raises `OSError` and `Unsafe`."""
    try:
        return at(path, follow=True).look() is not None
    except ABSENT:
        return False


def read(path: str, limit: int = LIMIT, *, published: bool = False) -> bytes:
    """The content of a regular file, links followed; see `Place.read`. Raises `OSError`, `Permanent` and `Unsafe`."""
    return at(path, follow=True).read(limit, published=published)


def demand_trusted(place: Place, info: os.stat_result, acl: bytes = b"") -> None:
    """Raise `Unsafe` unless only trusted users could have put this there, or written it."""
    if place.directory.shared:
        raise Unsafe(
            f"cannot trust {place.path}: others may have put it there, for {place.directory.path} is open to all"
        )
    weak = place.directory.weak or weakness(place.path, info, acl, trusted_uids())
    if weak is not None:
        raise Unsafe(f"cannot trust {place.path}: {weak}" if weak.path != place.path else f"cannot trust {weak}")


def read_trusted(path: str, limit: int = LIMIT) -> bytes:
    """The content of a file, links followed, that only trusted users could have written. Raises `OSError`, `Permanent` and `Unsafe`."""
    place = at(path, follow=True)
    handle, info = place.open()
    demand_trusted(place, info, acl_of(handle))
    return read_whole(handle.fd, info, limit, path)


def make_parents(path: str, uid: int = -1, gid: int = -1, mode: int = 0o755) -> list[str]:
    """Make the directories on the way to a path; those that exist are left as they are. The paths that were made, outermost first.

    Raises `OSError` and `Unsafe`.
    """
    made: list[str] = []
    missing = []
    parent = path.rpartition("/")[0]
    while parent:
        try:
            if at(parent).look() is not None:
                break
        except ABSENT:
            pass
        missing.append(parent)
        parent = parent.rpartition("/")[0]
    for each in reversed(missing):
        try:
            at(each).mkdir(uid, gid, mode)
        except FileExistsError:  # somebody else was faster, or it is a link that leads nowhere
            directory(each)
            continue
        except OSError as error:
            error.filename = each
            raise
        made.append(each)
    return made


def forget() -> None:
    """Forget all directories: for tests that change who may be trusted."""
    _known.clear()


def _remembered(path: str) -> Directory | None:
    """A directory that is remembered, if what is at its path is still the same."""
    known = _known.get(path)
    if known is None:
        return None
    found, until, user = known
    try:
        now = os.stat(path)  # noqa: PTH116 - Path objects are slow
    except OSError:
        now = None
    if now is None or _identity(now) != _identity(found.info) or time.monotonic() > until or user != os.geteuid():
        _known.pop(path, None)
        return None
    return found


def _identity(info: os.stat_result) -> tuple[int, ...]:
    return info.st_dev, info.st_ino, info.st_mode, info.st_uid, info.st_gid


def _remember(path: str, found: Directory) -> None:
    """Remember a directory that only trusted users can change. One whose group may write is not: an ACL may come without a trace."""
    if found.handle is not None or found.follower is not None:
        return
    if found.info.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not found.sticky:
        return
    if len(_known) >= KNOWN:
        _known.clear()
    _known[path] = found, time.monotonic() + AGE, os.geteuid()


def _process_files() -> int:
    """The number of the device that /proc is; -1 where there is none."""
    try:
        return os.stat("/proc/self").st_dev  # noqa: PTH116 - Path objects are slow
    except OSError:
        return -1


def _let_go(found: Directory) -> Directory:
    """A directory without its descriptor, where it is not needed."""
    return found if found.holders else replace(found, handle=None)


class _Walk:
    """One way through the file system, from the nearest directory that is remembered."""

    def __init__(self, path: str) -> None:
        if not path.startswith("/"):
            raise ValueError(f"cannot look at {path!r}: it is not an absolute path")
        self._path = path
        self._hops = self._names = 0
        self._follower: int | None = None
        self._link = ""
        """The last link that was followed, and whose it is, for messages."""
        self._stack: list[Directory] = []
        self._todo: list[tuple[str, str]] = []
        """Names still to go, the next last; each with the path asked for that it completes, or nothing inside a link."""
        start = path
        while start:
            start = start.rpartition("/")[0]
            found = _remembered(start or "/")
            if found is not None:
                break
        else:
            found = None
        if found is None:
            found, start = self._root(), ""
        self._stack.append(found)
        names, done = [], start
        for name in path[len(start) :].split("/"):
            if name:
                done = f"{done}/{name}"
                names.append((name, done))
        self._todo = names[::-1]

    def place(self, *, follow: bool) -> Place:
        """The place at the end of the way."""
        led = False
        while self._todo:
            name, asked = self._todo.pop()
            if self._todo or name in {".", ".."}:
                self._step(name, asked)
                continue
            place = self._here.entry(name)
            link = self._link_at(place) if follow else None
            if link is None:
                return self._ended(place, "" if led else asked)
            self._follow(place, *link, asked)
            led = True
        return self._ended(self._here.entry("."), "" if led else self._path)

    def directory(self) -> Directory:
        """The directory at the end of the way."""
        while self._todo:
            self._step(*self._todo.pop())
        return self._ended(self._here.entry("."), self._path).directory

    @property
    def _here(self) -> Directory:
        return self._stack[-1]

    @staticmethod
    def _root() -> Directory:
        handle = Handle(os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
        info = os.fstat(handle.fd)
        # What is below the root is judged like an entry of a directory that only root can write.
        above = Directory("/", "/", None, info, NOBODY, NOBODY, "")
        found = _let_go(replace(Place(above, ".", "/", "/").entered(handle, info), real="/"))
        _remember("/", found)
        return found

    @staticmethod
    def _link_at(place: Place) -> tuple[Handle, os.stat_result] | None:
        """The link that is there; None for anything else, or nothing."""
        try:
            handle, info = place.pin()
        except FileNotFoundError:
            return None
        return (handle, info) if stat.S_ISLNK(info.st_mode) else None

    def _step(self, name: str, asked: str) -> None:
        """Go one directory on, or up, or take in what a link says."""
        if name == ".":
            return
        if name == "..":
            self._up()
            return
        place = self._here.entry(name)
        handle, info = place.pin()
        if stat.S_ISLNK(info.st_mode):
            self._follow(place, handle, info, asked)
            return
        if not stat.S_ISDIR(info.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), place.path)
        found = _let_go(replace(place.entered(handle, info), path=asked or place.path, follower=self._follower))
        self._demand_passable(found)
        self._stack.append(found)
        if asked:
            _remember(asked, found)

    def _up(self) -> None:
        """To the directory above; that of a remembered one is walked to, for all above it is root's as well."""
        if len(self._stack) > 1:
            self._stack.pop()
        elif self._here.real != "/":
            self._stack[0] = directory(self._here.real.rpartition("/")[0] or "/")
        self._demand_passable(self._here)

    def _follow(self, place: Place, handle: Handle, info: os.stat_result, asked: str) -> None:
        """Take in what a link says, if it may be followed. Raises `OSError` and `Unsafe`."""
        self._hops += 1
        if self._hops > HOPS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), self._path)
        if place.directory.info.st_dev == _process_files() and MAGIC.fullmatch(place.real):
            raise Unsafe(f"cannot follow {place.path}: where it leads cannot be said by a path")
        target = os.readlink("", dir_fd=handle.fd)
        who = place.who(info) | ({info.st_uid} - trusted_uids()) | ({ANYONE} if place.directory.shared else NOBODY)
        if who:
            owner = next(iter(who)) if len(who) == 1 else ANYONE
            if owner == ANYONE or self._follower not in {None, owner}:
                raise Unsafe(f"cannot follow {place.path}: it is a link to {target} that {self._made_by(place, info)}")
            self._follower = owner
            self._link = f"{place.path}, which {self._made_by(place, info)} and leads to {target if len(target) < SHOWN else '...'}"
        if self._follower is not None:
            self._demand_short(target)
        names = [(name, "") for name in target.split("/") if name]
        if names:
            names[-1] = (names[-1][0], asked)
        self._todo += names[::-1]
        if target.startswith("/"):
            self._stack = [_remembered("/") or self._root()]
        if self._follower is not None:
            self._demand_passable(self._here)

    def _demand_short(self, target: str) -> None:
        """Count the names in a user's link. Raises `Unsafe` when his links make the way too long."""
        self._names += target.count("/") + 1
        if self._names > NAMES:
            raise Unsafe(f"cannot follow {self._link}: there are more than {NAMES} names in the links on the way")

    @staticmethod
    def _made_by(place: Place, info: os.stat_result) -> str:
        if info.st_uid not in trusted_uids():
            return f"belongs to {called(info.st_uid)}"
        return f"may be anybody's, for {place.directory.reason or f'{place.directory.path} is open to all'}"

    def _demand_passable(self, found: Directory) -> None:
        """Raise `Unsafe` for a directory to which an untrusted user's link must not lead."""
        if self._follower is None or found.info.st_uid == self._follower:
            return
        if not found.holders and found.info.st_uid in trusted_uids() and found.info.st_mode & stat.S_IXOTH:
            return
        raise Unsafe(f"cannot follow {self._link}: {found.real} belongs to {called(found.info.st_uid)}")

    def _ended(self, place: Place, path: str) -> Place:
        """The place, by the path asked for, or where a link at its end led. Raises `Unsafe` where a user's link led to what is not his."""
        place = replace(place, path=path or place.real)
        if self._follower is None:
            return place
        here = self._here
        if here.info.st_uid != self._follower:
            raise Unsafe(
                f"cannot follow {self._link}: {place.real} does not lie in a directory of {called(self._follower)}"
            )
        place = replace(place, directory=replace(here, follower=self._follower))
        info = place.look()
        if info is not None and info.st_uid != self._follower:
            raise Unsafe(f"cannot follow {self._link}: {place.real} is {what(info.st_mode)} of {called(info.st_uid)}")
        return place

"""Resolution of paths: component by component, with a descriptor for each, and the users who could redirect the path.

A link that only trusted users could have put there is followed. A link that an untrusted user owns, or could have put
there, is followed only to files and directories that this user owns; the target's path may also contain directories
that root owns and that everybody may enter. The models are systemd's unsafe path transition (CHASE_SAFE) and OpenSSH's
StrictModes.

A directory whose path only trusted users can change is cached for `AGE` seconds by its path; meanwhile only its status
is read.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from dataclasses import replace

from holdfast.resources.paths.handle import ABSENT, LIMIT, Handle, Unsafe, read_whole, what
from holdfast.resources.paths.place import Place, SafeDirectory
from holdfast.resources.paths.trust import ANYONE, NOBODY, called, trusted_uids

PATH_MAX = 4096
"""Greatest length of a path that the kernel accepts, in bytes."""
HOPS = 40
"""Greatest number of links that are followed for a path, as in the kernel."""
NAMES = 256
"""Greatest number of names in a user's links on one path, so that the user cannot set how long the resolution takes."""
SHOWN = 200
"""Greatest number of characters of a link's target that messages show."""
MAGIC = re.compile(r"/proc/\d+(?:/task/\d+)?/(?:cwd|exe|root|(?:fd|ns|map_files)/[^/]+)")
"""Links of the kernel whose text is not a path, or is a path that another process resolves differently."""
KNOWN = 4096
"""Greatest number of cached directories."""
AGE = 60.0
"""Seconds after which a cached directory is resolved again: its inode number may have been reused."""

_known: dict[str, tuple[SafeDirectory, tuple[int, ...], float, int]] = {}
"""Path of a directory that only trusted users can change -> the directory, its identity, when the entry expires, and
the user."""


def at(path: str, *, follow: bool = False) -> Place:
    """Return the place of an absolute, normalised path, which may be empty.

    `follow`: follow links at its end, too. Raises `OSError` if a directory of the path is missing or cannot be entered,
    `Unsafe` if a link of an untrusted user must not be followed.
    """
    if len(path) >= PATH_MAX:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), path)
    if "\0" in path:
        raise OSError(errno.EINVAL, "a path cannot contain a NUL character", path)
    parent, _, name = path.rpartition("/")
    found = _cached(parent or "/")
    place = found.entry(name or ".") if found is not None else None
    if place is not None and not follow:
        return place
    if place is not None and (seen := place.look()) is not None and not stat.S_ISLNK(seen.st_mode):
        return place
    return _Walk(path).place(follow=follow)


def directory(path: str) -> SafeDirectory:
    """Return the directory of a path, links at its end followed. Raises `OSError` and `Unsafe`."""
    return _cached(path) or _Walk(path).directory()


def nearest(path: str) -> SafeDirectory:
    """Return the nearest existing parent of a path. Raises `OSError` and `Unsafe`."""
    while True:
        path = path.rpartition("/")[0]
        try:
            return directory(path or "/")
        except ABSENT:
            continue


def resolve(path: str) -> str:
    """Return a path without links, like `realpath`; its end may be missing. Raises `OSError` and `Unsafe`."""
    return at(path, follow=True).real


def exists(path: str) -> bool:
    """Return whether something is at a path, links followed. Raises `OSError` and `Unsafe`."""
    try:
        return at(path, follow=True).look() is not None
    except ABSENT:
        return False


def read(path: str, limit: int = LIMIT, *, published: bool = False) -> bytes:
    """Return the content of a regular file, links followed; see `Place.read`.

    Raises `OSError`, `Permanent` and `Unsafe`.
    """
    return at(path, follow=True).read(limit, published=published)


def demand_trusted(place: Place, info: os.stat_result) -> None:
    """Raise `Unsafe` unless only trusted users could have put the file there, or written it."""
    if place.directory.shared:
        raise Unsafe(
            f"cannot trust {place.path}: others may have put it there, because {place.directory.path} is open to all "
            "users"
        )
    if (weak := place.weakness(info)) is not None:
        raise Unsafe(f"cannot trust {place.path}: {weak}" if weak.path != place.path else f"cannot trust {weak}")


def read_trusted(path: str, limit: int = LIMIT, *, secret: bool = False) -> bytes:
    """Return the content of a file, links followed, that only trusted users could have written.

    `secret`: a file that everybody can read is refused. Raises `OSError`, `Permanent` and `Unsafe`.
    """
    handle, info = _open_trusted(path)
    if secret and info.st_mode & stat.S_IROTH:
        raise Unsafe(f"cannot use the secret in {path}: everybody can read it; chmod o= {path}")
    return read_whole(handle.fd, info, limit, path)


def demand_trusted_file(path: str) -> None:
    """Raise `Unsafe` unless only trusted users could have put the file at this path, or written it.

    Raises `OSError` if there is no file, and `Permanent` if it is not a regular file.
    """
    _open_trusted(path)


def _open_trusted(path: str) -> tuple[Handle, os.stat_result]:
    place = at(path, follow=True)
    handle, info = place.open()
    demand_trusted(place, info)
    return handle, info


def make_parents(path: str, uid: int = -1, gid: int = -1, mode: int | None = None) -> list[str]:
    """Make the missing parents of a path; return their paths, outermost first. `mode` is that of `Place.mkdir`.

    Existing directories are not changed. Raises `OSError` and `Unsafe`.
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
        except FileExistsError:  # another process has just made the directory, or there is a dangling link
            directory(each)
            continue
        except OSError as error:
            error.filename = each
            raise
        made.append(each)
    return made


def forget() -> None:
    """Clear the cache, for tests that change which users are trusted."""
    _known.clear()


def _cached(path: str) -> SafeDirectory | None:
    """Return the cached directory of a path if the path still leads to it, else None."""
    known = _known.get(path)
    if known is None:
        return None
    found, identity, until, user = known
    try:
        now = os.stat(path)  # noqa: PTH116 - Path objects are slow
    except OSError:
        now = None
    if now is None or _identity(now) != identity or time.monotonic() > until or user != os.geteuid():
        _known.pop(path, None)
        return None
    return found


def _identity(info: os.stat_result) -> tuple[int, ...]:
    return info.st_dev, info.st_ino, info.st_mode, info.st_uid, info.st_gid


def _cache(path: str, found: SafeDirectory) -> None:
    """Cache a directory that only trusted users can change.

    A directory that its group may write is not cached, because its status does not show a new ACL.
    """
    if found.handle is not None or found.follower is not None:
        return
    if found.info.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not found.sticky:
        return
    if len(_known) >= KNOWN:
        _known.clear()
    _known[path] = found, _identity(found.info), time.monotonic() + AGE, os.geteuid()


def _process_files() -> int:
    """Return the device number of /proc; -1 if there is none."""
    try:
        return os.stat("/proc/self").st_dev  # noqa: PTH116 - Path objects are slow
    except OSError:
        return -1


def _without_descriptor(found: SafeDirectory) -> SafeDirectory:
    """Return a directory without its descriptor, if that is not needed."""
    return found if found.holders else replace(found, handle=None)


class _Walk:
    """The resolution of one path, from the nearest cached directory."""

    def __init__(self, path: str) -> None:
        if not path.startswith("/"):
            raise ValueError(f"cannot inspect {path!r}: it is not an absolute path")
        self._path = path
        self._hops = self._names = 0
        self._follower: int | None = None
        self._link = ""
        """The last link that was followed, and its owner, for messages."""
        self._stack: list[SafeDirectory] = []
        self._todo: list[tuple[str, str]] = []
        """Remaining names, the next one last.

        Each has the part of the given path that ends with it; empty for names from the target of a link.
        """
        start = path
        while start:
            start = start.rpartition("/")[0]
            found = _cached(start or "/")
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
        """Return the place at the end of the path."""
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

    def directory(self) -> SafeDirectory:
        """Return the directory at the end of the path."""
        while self._todo:
            self._step(*self._todo.pop())
        return self._ended(self._here.entry("."), self._path).directory

    @property
    def _here(self) -> SafeDirectory:
        return self._stack[-1]

    @staticmethod
    def _root() -> SafeDirectory:
        handle = Handle(os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
        info = os.fstat(handle.fd)
        # The root directory is checked like an entry of a directory that only root can write.
        above = SafeDirectory("/", "/", None, info, NOBODY, NOBODY, "")
        found = _without_descriptor(replace(Place(above, ".", "/", "/").entered(handle, info), real="/"))
        _cache("/", found)
        return found

    @staticmethod
    def _link_at(place: Place) -> tuple[Handle, os.stat_result] | None:
        """Open the link at a place; None if there is no link."""
        try:
            handle, info = place.pin()
        except FileNotFoundError:
            return None
        return (handle, info) if stat.S_ISLNK(info.st_mode) else None

    def _step(self, name: str, asked: str) -> None:
        """Process one name: enter a directory, go up, or follow a link."""
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
        found = _without_descriptor(
            replace(place.entered(handle, info), path=asked or place.path, follower=self._follower)
        )
        self._demand_passable(found)
        self._stack.append(found)
        if asked:
            _cache(asked, found)

    def _up(self) -> None:
        """Go to the parent. That of a cached directory is found by its path, which only trusted users can change."""
        if len(self._stack) > 1:
            self._stack.pop()
        elif self._here.real != "/":
            self._stack[0] = directory(self._here.real.rpartition("/")[0] or "/")
        self._demand_passable(self._here)

    def _follow(self, place: Place, handle: Handle, info: os.stat_result, asked: str) -> None:
        """Follow a link, if allowed. Raises `OSError` and `Unsafe`."""
        self._hops += 1
        if self._hops > HOPS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), self._path)
        if place.directory.info.st_dev == _process_files() and MAGIC.fullmatch(place.real):
            raise Unsafe(f"cannot follow {place.path}: no path leads to its target")
        target = os.readlink("", dir_fd=handle.fd)
        self._demand_followable(place, info, target)
        if self._follower is not None:
            self._demand_short(target)
        names = [(name, "") for name in target.split("/") if name]
        if names:
            names[-1] = (names[-1][0], asked)
        self._todo += names[::-1]
        if target.startswith("/"):
            self._stack = [_cached("/") or self._root()]
        if self._follower is not None:
            self._demand_passable(self._here)

    def _demand_followable(self, place: Place, info: os.stat_result, target: str) -> None:
        """Note the untrusted user who made the link, if any. Raises `Unsafe` if it may be another user's link."""
        who = place.who(info) | ({info.st_uid} - trusted_uids()) | ({ANYONE} if place.directory.shared else NOBODY)
        if not who:
            return
        owner = next(iter(who)) if len(who) == 1 else ANYONE
        if owner == ANYONE or self._follower not in {None, owner}:
            raise Unsafe(f"cannot follow {place.path}: it is a link to {target} that {self._made_by(place, info)}")
        self._follower = owner
        shown = target if len(target) < SHOWN else "..."
        self._link = f"{place.path}, which {self._made_by(place, info)} and points to {shown}"

    def _demand_short(self, target: str) -> None:
        """Count the names in a user's link. Raises `Unsafe` if there are too many."""
        self._names += target.count("/") + 1
        if self._names > NAMES:
            raise Unsafe(f"cannot follow {self._link}: its links have more than {NAMES} names")

    @staticmethod
    def _made_by(place: Place, info: os.stat_result) -> str:
        if info.st_uid not in trusted_uids():
            return f"belongs to {called(info.st_uid)}"
        return f"may be any user's, because {place.directory.reason or f'{place.directory.path} is open to all users'}"

    def _demand_passable(self, found: SafeDirectory) -> None:
        """Raise `Unsafe` for a directory to which the link of an untrusted user must not lead."""
        if self._follower is None or found.info.st_uid == self._follower:
            return
        if not found.holders and found.info.st_uid in trusted_uids() and found.info.st_mode & stat.S_IXOTH:
            return
        raise Unsafe(f"cannot follow {self._link}: {found.real} belongs to {called(found.info.st_uid)}")

    def _ended(self, place: Place, path: str) -> Place:
        """Return the place, by the given path or the target of a link.

        Raises `Unsafe` if the link of an untrusted user led to a file that this user does not own.
        """
        place = replace(place, path=path or place.real)
        if self._follower is None:
            return place
        here = self._here
        if here.info.st_uid != self._follower:
            raise Unsafe(f"cannot follow {self._link}: {place.real} is not in a directory of {called(self._follower)}")
        place = replace(place, directory=replace(here, follower=self._follower))
        info = place.look()
        if info is not None and info.st_uid != self._follower:
            raise Unsafe(f"cannot follow {self._link}: {place.real} is {what(info.st_mode)} of {called(info.st_uid)}")
        return place

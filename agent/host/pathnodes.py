"""What the path watcher keeps of paths: a tree of their components, and who is interested in which."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from holdfast.resources import paths
from holdfast.resources.paths import mounts

if TYPE_CHECKING:
    from holdfast.agent.host.inotify import Entry

Signature = tuple[int, ...]
"""What is compared when a path is polled; first its type and permissions."""


FEW = 8
"""Members up to which a group is a tuple: there are as many groups as watched files, nearly all of one member, and a set takes 200 bytes."""
Member = TypeVar("Member")
Group = tuple[Member, ...] | set[Member]
"""A few of something, or many."""


def joined(group: Group[Member], new: Member) -> Group[Member]:
    """The group with a new member."""
    if isinstance(group, set):
        group.add(new)
        return group
    return {*group, new} if len(group) >= FEW else group if new in group else (*group, new)


def left(group: Group[Member], member: Member) -> Group[Member]:
    """The group without a member, if it was one."""
    if isinstance(group, set):
        group.discard(member)
        return group
    return tuple([each for each in group if each is not member])


class Subscription:
    """One watcher's interest in some paths; `close` ends it."""

    __slots__ = ("_leave", "callback", "deep", "links", "nodes", "own")

    def __init__(self, callback: Callable[[], None], leave: Callable[[Subscription], None], *, deep: bool) -> None:
        self.callback = callback
        self._leave = leave
        self.deep = deep
        self.own: Sequence[Node] = ()
        """Nodes of the paths it asked for."""
        self.links: Sequence[Node] = ()
        """Symbolic links on the way to them."""
        self.nodes: Group[Node] = ()
        """`own`, and where those links lead."""

    def close(self) -> None:
        """Get no more events, and give back what only this watcher needed. Harmless when done twice."""
        self._leave(self)


NOBODY: frozenset[Subscription] = frozenset()
"""One for all: there are as many nodes as watched paths, and few of them are watched with all below."""
CHILDLESS: Mapping[str, Node] = MappingProxyType({})
"""One for all: most nodes are files."""


class Node:
    """One component of a path: a directory passed through, or the thing at its end."""

    __slots__ = (
        "children",
        "covered",
        "deep",
        "full",
        "kernel",
        "loose",
        "name",
        "parent",
        "path",
        "real",
        "seal",
        "shut",
        "subscribers",
        "target",
    )

    def __init__(self, name: str, parent: Node | None) -> None:
        self.name = name
        self.parent = parent
        self.path: str = f"/{name}" if parent is None or parent.parent is None else f"{parent.path}/{name}"
        self.children: Mapping[str, Node] = CHILDLESS
        self.subscribers: Group[Subscription] = ()
        self.deep: frozenset[Subscription] = NOBODY
        """Those that watch all below it, too."""
        self.full = False
        """Whether all events of its entries are asked for."""
        self.kernel: Entry | None = None
        self.target: str | None = None
        """Where it leads, if it is a symbolic link that is followed."""
        self.real = self.path
        """Its path without links on the way."""
        self.seal = 0
        """`seal` of the file that is watched there, when last looked at."""
        self.covered = False
        """Whether a recursive watch reaches it."""
        self.loose = False
        """Whether an untrusted user can put entries there; kept only where a recursive watch reaches."""
        self.shut = False
        """Whether the file system is not asked about what lies there or below: a user decides what it answers."""

    def grow(self, name: str) -> Node:
        """A new node below this one."""
        child = Node(name, self)
        if isinstance(self.children, dict):
            self.children[name] = child
        else:
            self.children = {name: child}
        return child

    def drop(self, name: str) -> None:
        """Forget what is below this one by that name."""
        if isinstance(self.children, dict):
            self.children.pop(name, None)

    def below(self) -> list[Node]:
        """The node and all under it, each before what is under it."""
        nodes = [self]
        for node in nodes:
            nodes.extend(node.children.values())
        return nodes

    def upward(self) -> Iterator[Node]:
        """The node and all on the way to the root."""
        node: Node | None = self
        while node is not None:
            yield node
            node = node.parent


NOTHING = os.stat_result((0,) * 10)
"""The status of what is not there."""


@contextmanager
def held(path: str, *, follow: bool = False) -> Iterator[str]:
    """A path for a system call that leads to what is there now, also if a user mounts a file system there before the call.

    Such a file system could hold the call up for ever. The result is the path itself where users cannot mount any. Raises `OSError`; nothing is there where it is not safe to look.
    """
    if not mounts.careful():
        yield path
        return
    try:
        handle, _ = paths.at(path, follow=follow).pin()
    except paths.Unsafe as error:
        raise FileNotFoundError(errno.ENOENT, str(error), path) from None
    yield f"/proc/self/fd/{handle.fd}"


def status(path: str) -> os.stat_result:
    """The status of what is there, links not followed; `NOTHING` when there is nothing."""
    try:
        if mounts.careful():
            return paths.at(path).look() or NOTHING
        return os.lstat(path)
    except (OSError, paths.Unsafe):
        return NOTHING


def is_loose(info: os.stat_result) -> bool:
    """Whether an untrusted user may write a directory. Where it has an ACL, the mode bits of the group are its mask."""
    return bool(info.st_mode & (stat.S_IWGRP | stat.S_IWOTH)) or info.st_uid not in paths.trusted_uids()


def leads(path: str) -> tuple[str | None, str | None]:
    """Where a symbolic link leads: the absolute path it names, one hop on, and the path without links at the end of all hops.

    The first is None when an untrusted user could have placed the link and `holdfast.resources.paths` does not follow it; the
    second, when a later link is not followed, either. `..` after a name in such a link is not followed: it depends on further
    links, which are resolved later.
    """
    try:
        place = paths.at(path)
        pinned, info = place.pin()
        target = os.readlink("", dir_fd=pinned.fd)
    except (OSError, paths.Unsafe):  # it has just been replaced, and the event follows
        return None, None
    named = os.path.normpath(os.path.join(place.directory.real, target))  # noqa: PTH118 - Path objects are slow
    trusted = info.st_uid in paths.trusted_uids() and not place.who(info)
    if not trusted and _turns_back(target):
        return None, None
    try:
        return named, paths.at(path, follow=True).real
    except paths.Unsafe:
        return named if trusted else None, None
    except OSError:  # something is missing, or they lead in a circle
        return named, named if trusted else None


def _turns_back(target: str) -> bool:
    """Whether `..` follows a name."""
    names = ["..", *(name for name in target.split("/") if name not in {"", "."})]
    return any(name != ".." and after == ".." for name, after in pairwise(names))


def signature(path: str) -> Signature:
    """What changes when the thing does; a directory's entries do not count. Empty when there is nothing."""
    s = status(path)
    if s is NOTHING:
        return ()
    known = (s.st_mode, s.st_dev, s.st_ino, s.st_uid, s.st_gid)
    return known if stat.S_ISDIR(s.st_mode) else (*known, s.st_size, s.st_mtime_ns, s.st_ctime_ns)


def seal(info: os.stat_result) -> int:
    """One number that changes when a file does: as many are kept as files are watched. 0 for a directory, which has one name, and for nothing."""
    if info is NOTHING or stat.S_ISDIR(info.st_mode):
        return 0
    return hash((info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns))

"""Data of the path watcher: a tree of path components, and the subscriptions to each."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from types import MappingProxyType
from typing import Protocol, TypeVar

from holdfast.resources import paths
from holdfast.resources.author import Author
from holdfast.resources.paths import mounts

Signature = tuple[int, ...]
"""Compared when a path is polled; the type and permissions come first."""


FEW = 8
"""Most members of a group that is a tuple. Each watched file has a group; nearly all have one member, and a set takes
200 bytes."""
Member = TypeVar("Member")
Group = tuple[Member, ...] | set[Member]
"""A tuple of few members, or a set of many."""


def joined(group: Group[Member], new: Member) -> Group[Member]:
    """Return the group with a new member added."""
    if isinstance(group, set):
        group.add(new)
        return group
    return {*group, new} if len(group) >= FEW else group if new in group else (*group, new)


def left(group: Group[Member], member: Member) -> Group[Member]:
    """Return the group without this member."""
    if isinstance(group, set):
        group.discard(member)
        return group
    return tuple([each for each in group if each is not member])


class Owner(Protocol):
    """The watcher to which subscriptions belong."""

    def subscribe(self, paths: Iterable[str], callback: Callable[[], None], *, recursive: bool = False) -> Subscription:
        """Watch with a callback."""
        ...

    def leave(self, subscription: Subscription) -> None:
        """End a subscription."""

    async def who(self, subscription: Subscription, since: float) -> Author | None:
        """Return the last process that has changed what a subscription watches."""
        ...


class Subscription:
    """One watcher's subscription to some paths; `close` ends it."""

    __slots__ = ("_owner", "callback", "deep", "links", "nodes", "own")

    def __init__(self, callback: Callable[[], None], owner: Owner, *, deep: bool) -> None:
        self.callback = callback
        self._owner = owner
        self.deep = deep
        self.own: Sequence[PathNode] = ()
        """Nodes of the subscribed paths."""
        self.links: Sequence[PathNode] = ()
        """Symbolic links on the way to those paths."""
        self.nodes: Group[PathNode] = ()
        """`own` and the targets of those links."""

    def close(self) -> None:
        """Receive no more events, and release the nodes that only this subscription needed. May be called twice."""
        self._owner.leave(self)

    async def changed_by(self, since: float) -> Author | None:
        """Return the last process that has changed a watched path since this loop time; None if none is known."""
        return await self._owner.who(self, since)


NOBODY: frozenset[Subscription] = frozenset()
"""Shared by all nodes: there are as many nodes as watched paths, and few have recursive subscriptions."""
CHILDLESS: Mapping[str, PathNode] = MappingProxyType({})
"""Shared by all nodes without children: most nodes are files."""


class PathNode:
    """One component of a path: a directory on the way, or the file or directory at the end of the path."""

    __slots__ = (
        "children",
        "covered",
        "deep",
        "foreign",
        "full",
        "kernel",
        "name",
        "parent",
        "path",
        "real",
        "seal",
        "subscribers",
        "target",
        "user_writable",
    )

    def __init__(self, name: str, parent: PathNode | None) -> None:
        self.name = name
        self.parent = parent
        self.path: str = f"/{name}" if parent is None or parent.parent is None else f"{parent.path}/{name}"
        self.children: Mapping[str, PathNode] = CHILDLESS
        self.subscribers: Group[Subscription] = ()
        self.deep: frozenset[Subscription] = NOBODY
        """Subscriptions that also watch everything below the node."""
        self.full = False
        """Whether all events of the directory's entries are requested."""
        self.kernel: KernelWatch | None = None
        self.target: str | None = None
        """The target of a symbolic link that is followed."""
        self.real = self.path
        """The node's path with links resolved."""
        self.seal = 0
        """`seal` of the watched file at the last check."""
        self.covered = False
        """Whether a recursive watch includes the node."""
        self.user_writable = False
        """Whether an untrusted user can create entries there, and so controls the number of events."""
        self.foreign = False
        """Whether the file system of the node and all nodes below is not accessed: an untrusted user controls it."""

    def grow(self, name: str) -> PathNode:
        """Create a child node."""
        child = PathNode(name, self)
        if isinstance(self.children, dict):
            self.children[name] = child
        else:
            self.children = {name: child}
        return child

    def share(self, path: str) -> None:
        """Use the text of the path that the watched resource has, to save memory; for new nodes."""
        if self.path == path:
            self.path = self.real = path

    def drop(self, name: str) -> None:
        """Remove the child node of that name, if there is one."""
        if isinstance(self.children, dict):
            self.children.pop(name, None)

    def below(self) -> list[PathNode]:
        """Return the node and all its descendants; parents come first."""
        nodes = [self]
        for node in nodes:
            nodes.extend(node.children.values())
        return nodes

    def walk(self) -> Iterator[PathNode]:
        """Yield the node and all its descendants. Nodes may be added and removed meanwhile."""
        left = [self]
        while left:
            node = left.pop()
            left.extend(node.children.values())
            yield node

    def upward(self) -> Iterator[PathNode]:
        """Yield the node and its ancestors up to the root."""
        node: PathNode | None = self
        while node is not None:
            yield node
            node = node.parent


class Backend(Protocol):
    """A backend that makes watches: see `kernel_watches`."""

    entries: dict[Hashable, KernelWatch]

    def remove(self, key: Hashable, path: str) -> bool:
        """Have the kernel remove a watch."""
        ...


class KernelWatch:
    """One watch of the kernel: the watch of a directory, to which several paths may lead."""

    __slots__ = ("backend", "key", "nodes")

    def __init__(self, key: Hashable, backend: Backend) -> None:
        self.key = key
        """The kernel's name of the watch in its events."""
        self.backend = backend
        self.nodes: set[PathNode] = set()


NOTHING = os.stat_result((0,) * 10)
"""The status of a path that does not exist."""


@contextmanager
def held(path: str, *, follow: bool = False) -> Iterator[str]:
    """Yield a path for a system call, which leads to the present file even if a user mounts a file system there.

    Such a file system could block the call forever. Where users cannot mount file systems, the result is the path
    itself. Raises `OSError`; a path that cannot be accessed safely counts as missing.
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
    """Return the status of a path, links not followed; `NOTHING` if there is nothing."""
    try:
        if mounts.careful():
            return paths.at(path).look() or NOTHING
        return os.lstat(path)
    except (OSError, paths.Unsafe):
        return NOTHING


def is_user_writable(info: os.stat_result) -> bool:
    """Return whether an untrusted user may write a directory.

    If it has an ACL, the mode bits of the group are the ACL's mask.
    """
    return bool(info.st_mode & (stat.S_IWGRP | stat.S_IWOTH)) or info.st_uid not in paths.trusted_uids()


def leads(path: str) -> tuple[str | None, str | None]:
    """Return the absolute path that a symbolic link names, and the link-free path at the end of all links.

    The first is None if an untrusted user could have placed the link and `holdfast.resources.paths` does not follow it.
    The second is None if that holds for the link or a later one. In a link of an untrusted user, `..` after a name is
    not followed: it depends on further links, which are resolved later.
    """
    try:
        place = paths.at(path)
        pinned, info = place.pin()
        target = os.readlink("", dir_fd=pinned.fd)
    except (OSError, paths.Unsafe):  # the link has just been replaced; its event will follow
        return None, None
    named = os.path.normpath(os.path.join(place.directory.real, target))  # noqa: PTH118 - Path objects are slow
    trusted = info.st_uid in paths.trusted_uids() and not place.who(info)
    if not trusted and _turns_back(target):
        return None, None
    try:
        return named, paths.at(path, follow=True).real
    except paths.Unsafe:
        return named if trusted else None, None
    except OSError:  # a target is missing, or the links form a loop
        return named, named if trusted else None


def _turns_back(target: str) -> bool:
    """Return whether `..` comes after a name."""
    names = ["..", *(name for name in target.split("/") if name not in {"", "."})]
    return any(name != ".." and after == ".." for name, after in pairwise(names))


def signature(path: str) -> Signature:
    """Return a value that changes when the file at a path changes; changes of a directory's entries do not count.

    Empty if the path does not exist.
    """
    s = status(path)
    if s is NOTHING:
        return ()
    known = (s.st_mode, s.st_dev, s.st_ino, s.st_uid, s.st_gid)
    return known if stat.S_ISDIR(s.st_mode) else (*known, s.st_size, s.st_mtime_ns, s.st_ctime_ns)


def seal(info: os.stat_result) -> int:
    """Return a number that changes when a file changes.

    A single number saves memory: each watched file has one. Returns 0 for a missing file, and for a directory, which
    has only one name.
    """
    if info is NOTHING or stat.S_ISDIR(info.st_mode):
        return 0
    return hash((info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns))

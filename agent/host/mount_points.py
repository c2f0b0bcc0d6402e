"""The mount points that concern a tree of watched paths: those of users, and all others by their directory."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from holdfast.resources import paths
from holdfast.resources.paths import mounts


class ForeignChange(NamedTuple):
    """Mount points of file systems that untrusted users have mounted."""

    new: Collection[str] = ()
    gone: Collection[str] = ()


class MountPoints:
    """The mount points as they were at the last `renew`."""

    def __init__(self) -> None:
        self._points: tuple[str, ...] = ()
        self._names: Mapping[str, set[str]] = {}
        """Path of a directory -> its entries that are mount points."""
        self._owners: Mapping[str, int] = {}
        self._foreign: frozenset[str] = frozenset()
        """Mount points of file systems that an untrusted user has mounted."""

    def renew(self) -> ForeignChange:
        """Read the mount table if it has changed; return those that have become foreign, or no longer are."""
        owners, points = mounts.foreign(), mounts.points()
        if points is not self._points:
            names: dict[str, set[str]] = {}
            for point in points:
                directory, _, name = point.rpartition("/")
                names.setdefault(directory or "/", set()).add(name)
            self._points, self._names = points, names
        if owners is self._owners:
            return ForeignChange()
        trusted, before = paths.trusted_uids(), self._foreign
        self._owners = owners
        self._foreign = frozenset(point for point, uid in owners.items() if uid not in trusted)
        return ForeignChange(self._foreign - before, before - self._foreign)

    def among(self, directory: str) -> Collection[str]:
        """Return the entries of a directory, given by its path without links, that are mount points."""
        return self._names.get(directory, ())

    def has(self, real: str) -> bool:
        """Return whether a path without links is a mount point."""
        directory, _, name = real.rpartition("/")
        return name in self.among(directory or "/")

    def is_foreign(self, real: str, name: str = "") -> bool:
        """Return whether a path without links, or the entry `name` of this directory, is foreign."""
        return bool(self._foreign) and (f"{real.rstrip('/')}/{name}" if name else real) in self._foreign

"""The installed packages, as the providers of `pkg` read them from the database of their tool."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.resources.interfaces.results import Pkg

Changes = dict[str, dict[str, str]]
"""Name of a package -> {old, new}; as in Salt, an empty text means "not installed"."""


@dataclass(frozen=True, slots=True)
class PackageDatabase:
    """The content of the database at one time. A tool fills the fields that it has."""

    installed: Mapping[str, list[Pkg]] = field(default_factory=dict)
    provided: Mapping[str, list[Pkg]] = field(default_factory=dict)
    """Name that packages provide besides their own -> these packages."""
    held: frozenset[str] = frozenset()
    residual: frozenset[str] = frozenset()
    """Removed packages whose configuration files are left."""
    unfinished: frozenset[str] = frozenset()
    """Unpacked or half-configured packages: an installation was interrupted."""
    halved: frozenset[str] = frozenset()
    """Those of `unfinished` that are not even unpacked: only another installation completes them."""

    def named(self, name: str) -> list[Pkg]:
        """Return the installed packages with this name, or with this `name:architecture`."""
        name, _, arch = name.partition(":")
        return [pkg for pkg in self.installed.get(name, ()) if arch in ("", pkg.arch)]

    def find(self, name: str) -> list[Pkg]:
        """Return the installed packages with this name or, if there are none, those that provide the name."""
        return self.named(name) or self.provided.get(name, [])

    def known(self, names: Iterable[str]) -> object:
        """Return all data of these packages (default: of all), for comparison with another read."""
        marks = (self.held, self.residual, self.unfinished, self.halved)
        return [(self.find(name), *[name in mark for mark in marks]) for name in names] or self

    def versions(self) -> dict[str, str]:
        """Return the installed versions by name; several versions of one name are joined by commas."""
        return {name: joined({pkg.version for pkg in found}) for name, found in self.installed.items()}


def joined(versions: Iterable[str]) -> str:
    """Return the versions of one name as a text."""
    return ",".join(sorted(versions))


def by_name(pkgs: Iterable[Pkg]) -> dict[str, list[Pkg]]:
    """Return packages by their names."""
    found: dict[str, list[Pkg]] = {}
    for pkg in pkgs:
        found.setdefault(pkg.name, []).append(pkg)
    return found


def differences(before: PackageDatabase, after: PackageDatabase) -> Changes:
    """Return the changes between two reads."""
    old, new = before.versions(), after.versions()
    return {
        name: {"old": old.get(name, ""), "new": new.get(name, "")}
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    }


class Cache:
    """The database, read again only after one of its files has changed."""

    def __init__(self, paths: Sequence[Path], read: Callable[[], Awaitable[PackageDatabase]]) -> None:
        self._paths, self._read = paths, read
        self._stamp: tuple[object, ...] = ()
        self._database = PackageDatabase()
        self._reading = asyncio.Lock()

    async def read(self) -> PackageDatabase:
        """Return the present database. Concurrent calls share one read: all watches report the same change."""
        async with self._reading:
            stamp = self._look()
            if stamp != self._stamp or not stamp:
                self._database, self._stamp = await self._read(), stamp
            return self._database

    @property
    def last(self) -> PackageDatabase | None:
        """The database as last read, however long ago; None if its files were missing."""
        return self._database if self._stamp else None

    def _look(self) -> tuple[object, ...]:
        """Return values, at least one of which changes whenever the database changes; none without a database."""
        found = tuple(map(_status, self._paths))
        return found if found and found[0] else ()


def _status(file: Path) -> tuple[int, ...]:
    try:
        status = file.stat()
    except OSError:
        return ()
    return (status.st_ino, status.st_mtime_ns, status.st_size)

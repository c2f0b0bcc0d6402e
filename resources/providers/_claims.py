"""The paths that packages claim, from dpkg's lists, ucf's registry and dpkg's diversions."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.resources.providers._dpkg import ADMIN

UCF = Path("/var/lib/ucf/registry")
"""ucf(1)'s registry: configuration file -> package; dpkg's lists do not contain these files."""


@dataclass(slots=True)
class Claims:
    """All paths that a growing set of packages claims, or has claimed since the first update.

    Paths are kept here after their removal, because dpkg and ucf no longer list them then.
    """

    admin: Path = ADMIN
    ucf: Path = UCF
    arch: str = ""
    """Architecture of the host."""
    paths: set[str] = field(default_factory=set)
    """The claimed paths, except directories that every host has."""
    _stamps: dict[Path, tuple[int, ...]] = field(default_factory=dict)
    """File -> its status at the last read."""
    _common: frozenset[str] = frozenset()
    _registered: dict[str, str] = field(default_factory=dict)
    """Path -> package, from all updates of ucf's registry."""
    _diverted: set[tuple[str, str, str]] = field(default_factory=set)
    """Present and former diversions: path, path of the diverted file, package."""

    def update(self, names: Collection[str]) -> None:
        """Add the paths that these packages claim now.

        The list of a package changes while it is unpacked. Only files that have changed since the last update are read.
        Blocks.
        """
        self._registered |= registered(self._news(self.ucf))
        self._diverted |= diverted(self._news(self.admin / "diversions"))
        self._common |= self._list("base-files")
        for name in names:
            self.paths |= self._list(name) - self._common
        self.paths |= {path for path, name in self._registered.items() if name in names}
        self.paths |= {
            each for path, to, name in self._diverted if name in names or path in self.paths for each in (path, to)
        }

    def _list(self, name: str) -> set[str]:
        """Return the paths that a package ships, its conffiles included; nothing if they are already known."""
        info = self.admin / "info"
        lines = "\n".join([self._news(info / f"{name}.list"), self._news(info / f"{name}:{self.arch}.list")]).split(
            "\n"
        )
        return {*lines} - {""}

    def _news(self, path: Path) -> str:
        """Return the content of a file; empty if it has not changed since the last read, or cannot be read."""
        try:
            info = path.stat()
            stamp = (info.st_ino, info.st_mtime_ns, info.st_size)
            if stamp == self._stamps.get(path):
                return ""
            text = path.read_text(errors="surrogateescape")
        except OSError:
            return ""
        self._stamps[path] = stamp
        return text


def registered(text: str) -> dict[str, str]:
    """Parse ucf's registry: lines of a package, white space and a path. Other lines are skipped."""
    pairs = (line.split(None, 1) for line in text.split("\n"))
    return {pair[1].rstrip(): pair[0] for pair in pairs if len(pair) == 2 and pair[1].startswith("/")}


def diverted(text: str) -> set[tuple[str, str, str]]:
    """Parse dpkg's diversions: three lines each; the package of an administrator's diversion is `:`."""
    lines = iter(text.split("\n"))
    triples = zip(lines, lines, lines)  # noqa: B905 - an incomplete triple is skipped
    return {each for each in triples if each[0].startswith("/") and each[1].startswith("/")}

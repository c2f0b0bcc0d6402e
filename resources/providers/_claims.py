"""The paths that packages claim: what dpkg's lists, ucf's registry and dpkg's diversions say of them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.resources.providers._dpkg import ADMIN

UCF = Path("/var/lib/ucf/registry")
"""Which package has given which configuration file to ucf(1); dpkg's lists do not have these files."""


@dataclass(slots=True)
class Claims:
    """All that a growing number of packages claims, or has claimed since the first update: dpkg and ucf forget what is removed."""

    admin: Path = ADMIN
    ucf: Path = UCF
    arch: str = ""
    """The host's own architecture."""
    paths: set[str] = field(default_factory=set)
    """What they claim, but for the directories that every host has."""
    _stamps: dict[Path, tuple[int, ...]] = field(default_factory=dict)
    """File -> its status when it was read."""
    _common: frozenset[str] = frozenset()
    _registered: dict[str, str] = field(default_factory=dict)
    """Path -> package, as ucf has it or has had it."""
    _diverted: set[tuple[str, str, str]] = field(default_factory=set)
    """Likewise of diversions: path, where its file is instead, and the package for whose sake."""

    def update(self, names: Collection[str]) -> None:
        """Add what these packages claim now: one that is unpacked gets another list meanwhile. Reads what has changed since the last time. Blocks."""
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
        """What a package ships, its conffiles among that; nothing when that is known already."""
        info = self.admin / "info"
        lines = "\n".join([self._news(info / f"{name}.list"), self._news(info / f"{name}:{self.arch}.list")]).split(
            "\n"
        )
        return {*lines} - {""}

    def _news(self, path: Path) -> str:
        """What is in a file; empty when it has not changed since it was read, or cannot be."""
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
    """Read ucf's registry: lines of a package, white space and a path. Other lines are skipped."""
    pairs = (line.split(None, 1) for line in text.split("\n"))
    return {pair[1].rstrip(): pair[0] for pair in pairs if len(pair) == 2 and pair[1].startswith("/")}


def diverted(text: str) -> set[tuple[str, str, str]]:
    """Read dpkg's diversions: three lines for each, the package `:` for one of the administrator."""
    lines = iter(text.split("\n"))
    return {each for each in zip(lines, lines, lines) if each[0].startswith("/") and each[1].startswith("/")}  # noqa: B905 - a cut one is none

"""The members of an archive as they may be extracted: names that stay inside, known types, and within limits."""

from __future__ import annotations

import fnmatch
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from holdfast.resources.errors import Permanent
from holdfast.resources.visible import escaped

Type = Literal["directory", "file", "link"]
DEEPEST, LONGEST, LONGEST_NAME = 100, 4000, 255
"""Most components of a member's path; most bytes of the path and of one component."""
CONTROL = re.compile(r"[\x00-\x1f\x7f]")
SPECIAL = 0o7022
"""Bits of a mode that only a trusted archive may set: set-uid, set-gid, sticky, writable by group and others."""
PART = 1 << 20
"""Most bytes of content that are in memory at once."""


class Refused(Permanent):
    """An archive that must not be extracted, or cannot be read."""


class Member(NamedTuple):
    """One member, as it would be extracted."""

    path: str
    """Relative to the directory, without `.` and `..`."""
    type: Type
    mode: int = 0
    mtime: int = 0
    target: str = ""
    """Of a link: its text. Of a file that is another name of an earlier one: the path of that."""
    size: int = 0
    """Declared size of a file."""


Content = Callable[[], Iterator[bytes]]
"""Returns the content of a file in parts. Called at most once, before the next member is read."""


@dataclass(frozen=True)
class Rules:
    """How members are extracted; a change of these makes another result of the same archive."""

    strip: int = 0
    """Leading components that are removed from each path; shorter paths are left out."""
    exclude: tuple[str, ...] = ()
    """Globs of members that are left out."""
    trusted: bool = False
    """Whether links may lead out of the directory, and modes are as in the archive."""
    modes: bool = True
    """Whether the archive gives modes; else 0755 for directories and 0644 for files."""

    def mode(self, type_: Type, given: int) -> int:
        """Return the mode of an extracted file or directory."""
        if not self.modes or not given:
            return 0o755 if type_ == "directory" else 0o644
        allowed = given & 0o7777 if self.trusted else given & 0o7777 & ~SPECIAL
        return allowed | (0o700 if type_ == "directory" else 0o600)

    def path(self, name: str) -> str | None:
        """Return where a member is extracted; None if it is left out. Raises `Refused` for a name that is unsafe."""
        parts = [part for part in name.split("/") if part not in {"", "."}]
        if name.startswith("/") or ".." in parts or CONTROL.search(name):
            why = "an absolute path" if name.startswith("/") else "a path that leads out of the directory"
            why = "a path with a control character" if CONTROL.search(name) else why
            raise Refused(f"it has a member with {why}: {shown(name)}")
        size = len(name.encode(errors="surrogateescape"))
        longest = max((len(each.encode(errors="surrogateescape")) for each in parts), default=0)
        if len(parts) > DEEPEST or size > LONGEST or longest > LONGEST_NAME:
            raise Refused(f"it has a member with a path that is too long: {shown(name)}")
        left = parts[self.strip :]
        return None if not left or self._excludes(parts) else "/".join(left)

    def _excludes(self, parts: Sequence[str]) -> bool:
        """Return whether a member or a directory above it matches one of the globs, by its name or whole path."""
        names = [*parts, *("/".join(parts[:number]) for number in range(2, len(parts) + 1))]
        return any(fnmatch.fnmatchcase(name, glob) for glob in self.exclude for name in names)

    def demand_inside(self, path: str, target: str) -> None:
        """Raise `Refused` for a symbolic link that leads out of the directory, unless the archive is trusted.

        `..` may only be at the beginning of its target: after the name of another link, it leads elsewhere.
        """
        if "\0" in target or not target or len(target) > LONGEST:
            raise Refused(f"it has a link without a proper target: {shown(path)}")
        if self.trusted:
            return
        parts = [part for part in target.split("/") if part not in {"", "."}]
        up = next((number for number, part in enumerate(parts) if part != ".."), len(parts))
        if target.startswith("/") or up > path.count("/") or ".." in parts[up:]:
            raise Refused(
                f"it has a link that leads out of the directory: {shown(path)} -> {shown(target)}; "
                "if you trust the archive, set trusted: true"
            )


@dataclass
class Budget:
    """What may still be extracted of one archive."""

    size: int
    members: int
    given: tuple[int, int] = field(init=False)

    def __post_init__(self) -> None:
        """Remember the limits for messages."""
        self.given = self.size, self.members

    def count(self, size: int = 0) -> None:
        """Count one member, and its declared size. Raises `Refused`."""
        self.demand(1)
        self.members -= 1
        if size > self.size:
            self._too_large()

    def demand(self, members: int) -> None:
        """Raise `Refused` for more members than may still be extracted."""
        if members > self.members:
            raise Refused(f"it has more than {self.given[1]} members, the limit (member_limit)")

    def spend(self, size: int) -> None:
        """Count bytes of content. Raises `Refused`."""
        self.size -= size
        if self.size < 0:
            self._too_large()

    def _too_large(self) -> None:
        raise Refused(f"its members have more than {self.given[0] >> 20} MiB, the limit (size_limit)")


@contextmanager
def readable(format_: str, errors: tuple[type[Exception], ...]) -> Iterator[None]:
    """Raise `Refused` for what the library that reads a format raises for damaged archives."""
    try:
        yield
    except errors as error:
        raise Refused(f"it is not a {format_} archive, or damaged: {error or type(error).__name__}") from None


def member_mode(mode: int) -> int:
    """Return the permission bits of a mode of Unix."""
    return stat.S_IMODE(mode)


def shown(name: str) -> str:
    """Return a name of an archive for a message: one line, of bounded length."""
    text = escaped(name)
    return text if len(text) <= 200 else f"{text[:200]}..."

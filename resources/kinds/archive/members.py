"""Members of an archive, checked: their paths stay in the directory, and their types and sizes are accepted."""

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
"""Maximum number of components of a member's path; maximum bytes of the path and of one component."""
CONTROL = re.compile(r"[\x00-\x1f\x7f]")
SPECIAL = 0o7022
"""Mode bits that only a trusted archive may set: set-uid, set-gid, sticky, writable by group and others."""
PART = 1 << 20
"""Maximum bytes of content in memory at once."""


class BadArchive(Permanent):
    """An archive that must not be extracted, or cannot be read."""


class ArchiveMember(NamedTuple):
    """One member as it is extracted."""

    path: str
    """Path relative to the directory, without `.` and `..`."""
    type: Type
    mode: int = 0
    mtime: int = 0
    target: str = ""
    """The text of a link. For a file that is another name of an earlier file, the path of that file."""
    size: int = 0
    """Declared size of a file."""


Content = Callable[[], Iterator[bytes]]
"""Returns the content of a file in parts. Called at most once, before the next member is read."""


@dataclass(frozen=True)
class ExtractionRules:
    """How members are extracted; with other rules, the same archive gives another result."""

    strip: int = 0
    """Number of leading components to remove from each path; shorter paths are left out."""
    exclude: tuple[str, ...] = ()
    """Globs of members that are left out."""
    trusted: bool = False
    """Whether links may lead out of the directory and modes are as in the archive."""
    modes: bool = True
    """Whether to use the modes of the archive; otherwise 0755 for directories and 0644 for files."""

    def mode(self, type_: Type, given: int) -> int:
        """Return the mode of an extracted file or directory."""
        if not self.modes or not given:
            return 0o755 if type_ == "directory" else 0o644
        allowed = given & 0o7777 if self.trusted else given & 0o7777 & ~SPECIAL
        return allowed | (0o700 if type_ == "directory" else 0o600)

    def path(self, name: str) -> str | None:
        """Return the path of an extracted member; None if it is left out. Raises `BadArchive` for an unsafe name."""
        parts = [part for part in name.split("/") if part not in {"", "."}]
        if name.startswith("/") or ".." in parts or CONTROL.search(name):
            why = "an absolute path" if name.startswith("/") else "a path that leads out of the directory"
            why = "a path with a control character" if CONTROL.search(name) else why
            raise BadArchive(f"it has a member with {why}: {shown(name)}")
        size = len(name.encode(errors="surrogateescape"))
        longest = max((len(each.encode(errors="surrogateescape")) for each in parts), default=0)
        if len(parts) > DEEPEST or size > LONGEST or longest > LONGEST_NAME:
            raise BadArchive(f"it has a member with a path that is too long: {shown(name)}")
        left = parts[self.strip :]
        return None if not left or self._excludes(parts) else "/".join(left)

    def _excludes(self, parts: Sequence[str]) -> bool:
        """Return whether the name or the path of a member, or of a directory above it, matches one of the globs."""
        names = [*parts, *("/".join(parts[:number]) for number in range(2, len(parts) + 1))]
        return any(fnmatch.fnmatchcase(name, glob) for glob in self.exclude for name in names)

    def demand_inside(self, path: str, target: str) -> None:
        """Raise `BadArchive` for a symbolic link that leads out of the directory, unless the archive is trusted.

        `..` is allowed only at the beginning of the target: after the name of another link, it leads elsewhere.
        """
        if "\0" in target or not target or len(target) > LONGEST:
            raise BadArchive(f"it has a link without a valid target: {shown(path)}")
        if self.trusted:
            return
        parts = [part for part in target.split("/") if part not in {"", "."}]
        up = next((number for number, part in enumerate(parts) if part != ".."), len(parts))
        if target.startswith("/") or up > path.count("/") or ".." in parts[up:]:
            raise BadArchive(
                f"it has a link that leads out of the directory: {shown(path)} -> {shown(target)}; "
                "if you trust the archive, set trusted: true"
            )


@dataclass
class ExtractionBudget:
    """How much may still be extracted from one archive."""

    size: int
    members: int
    given: tuple[int, int] = field(init=False)

    def __post_init__(self) -> None:
        """Remember the limits for messages."""
        self.given = self.size, self.members

    def count(self, size: int = 0) -> None:
        """Count one member and its declared size. Raises `BadArchive`."""
        self.demand(1)
        self.members -= 1
        if size > self.size:
            self._too_large()

    def demand(self, members: int) -> None:
        """Raise `BadArchive` for more members than may still be extracted."""
        if members > self.members:
            raise BadArchive(f"it has more than {self.given[1]} members, the limit (member_limit)")

    def spend(self, size: int) -> None:
        """Count bytes of content. Raises `BadArchive`."""
        self.size -= size
        if self.size < 0:
            self._too_large()

    def _too_large(self) -> None:
        raise BadArchive(f"its members have more than {self.given[0] >> 20} MiB, the limit (size_limit)")


@contextmanager
def readable(format_: str, errors: tuple[type[Exception], ...]) -> Iterator[None]:
    """Turn errors of a library that reads damaged archives into `BadArchive`."""
    try:
        yield
    except errors as error:
        raise BadArchive(f"it is damaged or not a {format_} archive: {error or type(error).__name__}") from None


def member_mode(mode: int) -> int:
    """Return the permission bits of a Unix mode."""
    return stat.S_IMODE(mode)


def shown(name: str) -> str:
    """Return a name from an archive for a message: one line of bounded length."""
    text = escaped(name)
    return text if len(text) <= 200 else f"{text[:200]}..."

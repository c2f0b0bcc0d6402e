"""Parse, compare and write lines of fstab(5), and keep all other lines of the file."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from holdfast.resources.kinds._lines import bare, end_of, ended, split

FIELDS = 6
"""Number of fields of a line; the last three may be missing."""
ESCAPED = re.compile(r"\\([0-7]{3})")
SECRET = re.compile(r"(?<![\w-])((?:pass|passwd|password|pw|key|secret|ticket)\d*=)[^,\s]+", re.IGNORECASE)
"""Matches options whose value is a secret."""
TAG = re.compile(r'((?:PART)?(?:UUID|LABEL)|ID)="?([^"]*)"?', re.IGNORECASE)
"""Matches a device that is named by an identifier of its content."""


def unescaped(word: str) -> str:
    r"""Return a word of the file with its escapes decoded: `\040` is a blank."""
    return ESCAPED.sub(lambda found: chr(int(found[1], 8)), word)


def escaped(word: str) -> str:
    """Return a word with the escapes of the file."""
    return re.sub(r"[\s\\#]", lambda found: f"\\{ord(found[0]):03o}", word)


def masked(text: str) -> str:
    """Return a text with the values of secret options replaced."""
    return SECRET.sub(r"\1***", text)


class MountLine(NamedTuple):
    """One line of the file."""

    device: str
    name: str
    """The mount point; `none` for swap space."""
    fstype: str
    opts: tuple[str, ...] = ("defaults",)
    dump: int = 0
    pass_num: int = 0

    def same(self, other: MountLine) -> bool:
        """Return whether both lines are equivalent; the order of options does not matter."""
        return self.normal == other.normal

    @property
    def normal(self) -> tuple[object, ...]:
        """The line in a form that is equal for equivalent lines."""
        options = frozenset(self.opts) - {"defaults"}
        return (plain_device(self.device), self.name, self.fstype, options, self.dump, self.pass_num)

    def line(self) -> str:
        """Return the line."""
        options = ",".join(self.opts) or "defaults"
        words = (*(escaped(word) for word in (self.device, self.name, self.fstype, options)), self.dump, self.pass_num)
        return "\t".join(str(word) for word in words)


def plain_device(device: str) -> str:
    """Return a device with its tag in capitals and without quotes: `UUID=x` for `uuid="x"`."""
    found = TAG.fullmatch(device)
    return f"{found[1].upper()}={found[2]}" if found else device


def parsed(line: str) -> MountLine | None:
    """Return the entry of a line; None for comments, blank lines and lines that are not entries."""
    words = [unescaped(word) for word in re.split(r"[ \t]+", bare(line).strip(" \t")) if word]
    if not 3 <= len(words) <= FIELDS or line.lstrip(" \t").startswith("#"):
        return None
    numbers = [int(word) if word.isascii() and word.isdigit() else -1 for word in words[4:]]
    if -1 in numbers:
        return None
    opts = tuple(words[3].split(",")) if len(words) > 3 else ("defaults",)
    name = words[1].rstrip("/") or words[1]
    return MountLine(words[0], name, words[2], opts, *numbers)


def found_in(text: str, matches: Callable[[MountLine], bool]) -> Sequence[MountLine]:
    """Return the entries that match."""
    return [entry for line in split(text) if (entry := parsed(line)) and matches(entry)]


def with_entry(text: str, wanted: MountLine | None, matches: Callable[[MountLine], bool]) -> str:
    """Return the text with one entry in place of all matching entries; None: remove the matching entries."""
    lines: list[str] = []
    left = wanted
    for line in split(text):
        entry = parsed(line)
        if entry is None or not matches(entry):
            lines.append(line)
        elif left is not None:
            lines.append(line if entry.same(left) else left.line() + end_of(line))
            left = None
    if left is not None:
        return f"{ended(''.join(lines))}{left.line()}\n"
    return "".join(lines)

"""`file.line`: one line of a file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, BeforeValidator, model_validator

from holdfast.resources.accepts import accepts
from holdfast.resources.context import Context
from holdfast.resources.errors import Permanent
from holdfast.resources.fields import Mode, Owner, Text
from holdfast.resources.kinds._lines import bare, end_of, ended, split
from holdfast.resources.kinds.file.base import Ownership, octal, ownership
from holdfast.resources.kinds.file.edit import Edit, one_line

NEEDED: Mapping[str, tuple[tuple[str, ...], str]] = {
    "delete": (("match", "content"), "match, or content"),
    "ensure": (("before", "after"), "before or after, or both"),
    "insert": (("before", "after", "location"), "before, after or location"),
}
"""Mode -> the arguments that it needs at least one of, and their names in a message."""


@accepts()
def lower_case(value: object) -> object:
    """Return text in lower case."""
    return str(value).lower()


class Line(Edit, kind="file.line"):
    """A file contains a line at its place, or does not contain it.

    A line is at its place if it is on the declared side of `after` or `before`, so several states may name the same
    neighbour.

    /etc/hosts.conf:
      file.line:
        - mode: ensure
        - content: order hosts,bind
        - after: ^# lookup
    """

    ignored: ClassVar[Mapping[str, str]] = Edit.ignored

    mode: Annotated[Literal["ensure", "insert", "replace", "delete"], BeforeValidator(lower_case)]
    """How to keep the line.

    `insert`: the line is after or before another line, or anywhere in the file, and is added if it is missing.
    `ensure`: the same, but between two lines it is the only line. `replace`: the line replaces the lines that match.
    `delete`: the lines that match are removed.
    """
    content: Annotated[Text | None, AfterValidator(one_line)] = None
    """The line."""
    match: Text | None = None
    """Text of a line to replace or delete: a regular expression or plain text. Default: `content`."""
    location: Literal["start", "end"] | None = None
    """Where `insert` adds the line, instead of `before` or `after`."""
    before: Text | None = None
    """The line must be before the one line that contains this: a regular expression or plain text."""
    after: Text | None = None
    """The line must be after the one line that contains this."""
    indent: bool = True
    """Indent the line like its neighbour or the line that it replaces, and ignore differences in indentation."""
    quiet: bool = False
    """Accept a missing file."""
    create: bool = False
    """Create the file if it is missing."""
    user: Owner | None = None
    """Owner of a new file."""
    group: Owner | None = None
    """Group of a new file."""
    file_mode: Mode | None = None
    """Mode of a new file. Default: 0644."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.mode != "delete" and not (self.content or "").strip():
            raise ValueError(f"mode {self.mode} needs content")
        words, needed = NEEDED.get(self.mode, ((), ""))
        if words and not any(getattr(self, word) for word in words):
            raise ValueError(f"mode {self.mode} needs {needed}")
        return self

    def makes(self) -> bool:
        """Return whether `create` is set."""
        return self.create

    def tolerates(self) -> bool:
        """Return whether `quiet` is set and `create` is not."""
        return self.quiet and not self.create

    def patterns(self) -> tuple[str, ...]:
        """Return the arguments that may be regular expressions; plain text need not be a valid expression."""
        return tuple(filter(None, (self.match, self.content, self.before, self.after)))

    async def owner_of_new(self, ctx: Context) -> Ownership:
        """Return `user`, `group` and `file_mode`."""
        return await ownership(ctx, self.user, self.group, octal(self.file_mode))

    def edited(self, text: str, given: tuple[str, ...]) -> str:
        """Return the text with or without the line."""
        lines = split(text)
        if self.mode == "delete":
            return "".join(line for line in lines if not holds(line, self.match or self.content or ""))
        if self.mode == "replace":
            return "".join(self._replaced(lines))
        if self.mode == "insert" and self.location:
            return text if any(map(self._is_it, lines)) else self._at_end(text)
        return "".join(self._placed(lines))

    def _at_end(self, text: str) -> str:
        """Return the text with the line at its start or end, depending on `location`."""
        line = (self.content or "").rstrip() + end_of(text[: text.find("\n") + 1])
        return line + text if self.location == "start" else ended(text) + line

    def _is_it(self, line: str) -> bool:
        """Return whether this is the declared line."""
        line, content = line.rstrip(), (self.content or "").rstrip()
        return line.lstrip() == content.lstrip() if self.indent else line == content

    def _like(self, other: str) -> str:
        """Return the declared line with the indentation and line end of another line."""
        content = (self.content or "").rstrip()
        indentation = other[: len(other) - len(other.lstrip(" \t"))]
        return (indentation + content.lstrip() if self.indent else content) + end_of(other)

    def _replaced(self, lines: list[str]) -> list[str]:
        """Replace each line that matches; if the replacement also matches, replace only the first line."""
        match = self.match or self.content or ""
        for n, line in enumerate(lines):
            if holds(line, match):
                new = self._like(line)
                lines[n] = new if line.endswith("\n") else bare(new)
                if holds(new, match):
                    break
        return lines

    def _placed(self, lines: list[str]) -> list[str]:
        """Return the lines with the declared line at its place. Raises `Permanent` if the place is not found."""
        first, last = self._find(lines, "after"), self._find(lines, "before")
        start, end = self._bounds(lines, first, last)
        if any(map(self._is_it, lines[start:end])):
            return lines
        between = end - start if first is not None and last is not None and self.mode == "ensure" else 0
        if between > 1:
            raise Permanent(
                f"cannot edit {self.name}: there are {between} lines between after and before, but mode ensure "
                "replaces only one; use insert"
            )
        if first is not None and (last is None or self.mode == "ensure"):
            lines[first] = ended(lines[first])
            lines[start : start + between] = [self._like(lines[first])]
        else:
            lines.insert(end, self._like(lines[end]))
        return lines

    def _bounds(self, lines: list[str], first: int | None, last: int | None) -> tuple[int, int]:
        """Return the first and last index at which the line may be inserted. Raises `Permanent` if there is none.

        `first` and `last` are the lines that match `after` and `before`, or None.
        """
        if first is None and last is None:
            words = " or ".join(
                f"{word} {getattr(self, word)!r}" for word in ("after", "before") if getattr(self, word)
            )
            raise Permanent(f"cannot edit {self.name}: no line matches {words}")
        start = 0 if first is None else first + 1
        end = len(lines) if last is None else last
        if start > end:
            raise Permanent(
                f"cannot edit {self.name}: the line that matches after {self.after!r} (line {start}) is below the "
                f"line that matches before {self.before!r}"
            )
        return start, end

    def _find(self, lines: list[str], word: str) -> int | None:
        """Return the index of the one other line that matches `after` or `before`.

        Raises `Permanent` if several lines match.
        """
        wanted = getattr(self, word)
        found = [n for n, line in enumerate(lines) if wanted and holds(line, wanted) and not self._is_it(line)]
        if len(found) > 1:
            raise Permanent(
                f"cannot edit {self.name}: {word} {wanted!r} matches lines {found[0] + 1} and {found[1] + 1}; "
                "it must match one"
            )
        return found[0] if found else None


def holds(line: str, wanted: str) -> bool:
    """Return whether a line contains the plain text or matches it as a regular expression."""
    line = bare(line)
    try:
        return wanted in line or re.search(wanted, line) is not None
    except (re.error, OverflowError):  # plain text
        return False

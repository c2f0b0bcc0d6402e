"""`file.replace`, `file.comment`, `file.uncomment`: edits of text that a regular expression matches."""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Self, cast

from pydantic import BeforeValidator, field_validator, model_validator

from holdfast.resources.accepts import ITEM, VALUE, accepts
from holdfast.resources.errors import Permanent
from holdfast.resources.fields import Text, field, parse_list
from holdfast.resources.kinds._lines import bare, ended, split
from holdfast.resources.kinds.file.append import has_lines
from holdfast.resources.kinds.file.content import finished
from holdfast.resources.kinds.file.edit import Edit, Regex

FLAGS = re.IGNORECASE | re.MULTILINE | re.DOTALL | re.VERBOSE | re.ASCII
"""Flags that a pattern may have; UNICODE always applies."""


@accepts(VALUE, ITEM, int, None)
def parse_flags(value: object) -> object:
    """Return flags as a tuple of long names, from long or short names or their sum."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = _flag_names(value)
    given = cast("list[object]", parse_list(value))
    names = [(flag, re.RegexFlag.__members__.get(str(flag).upper())) for flag in given]
    for said, flag in names:
        if flag is None or flag not in FLAGS | re.UNICODE:
            raise ValueError(f"{said} is not a flag; available: {', '.join(str(known.name) for known in FLAGS)}")
    return tuple(flag.name for _, flag in names if flag is not None and flag is not re.UNICODE)


def _flag_names(number: int) -> list[str | None]:
    """Return the names of the flags in a sum; for a sum with unknown flags, the number itself as text."""
    known = number & ~(FLAGS | re.UNICODE) == 0
    return [flag.name for flag in FLAGS if number & flag] if known else [str(number)]


class Replace(Edit, kind="file.replace"):
    """Each match of a regular expression in a file is replaced.

    The replacement must not match again; otherwise each run changes the file.

    /etc/ssh/sshd_config:
      file.replace:
        - pattern: ^#?PermitRootLogin .*$
        - repl: PermitRootLogin no
        - append_if_not_found: true
    """

    ignored: ClassVar[Mapping[str, str]] = {**Edit.ignored, "bufsize": "files are always read whole"}

    pattern: Regex
    """Python regular expression; `^` and `$` match at every line."""
    repl: Text = ""
    r"""The replacement; `\1` and `\g<name>` insert groups."""
    count: int = field(0, ge=0)
    """Maximum number of replacements; 0: all."""
    flags: Annotated[tuple[str, ...], BeforeValidator(parse_flags)] = ("MULTILINE",)
    """Names of flags of Python's re module, or their sum as a number."""
    append_if_not_found: bool = False
    """Add the replacement at the end if the pattern does not match."""
    prepend_if_not_found: bool = False
    """Add the replacement at the beginning if the pattern does not match."""
    not_found_content: str | None = None
    """Text to add instead of `repl`."""
    ignore_if_missing: bool = False
    """Accept a missing file."""
    backslash_literal: bool = False
    """Treat backslashes in `repl` literally."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        try:
            re.compile(self.pattern, self._flags())
        except re.error as error:
            raise ValueError(f"{self.pattern!r} is not a regular expression with these flags: {error}") from None
        return self

    def _flags(self) -> re.RegexFlag:
        return functools.reduce(operator.or_, (re.RegexFlag[name] for name in self.flags), re.RegexFlag(0))

    def tolerates(self) -> bool:
        """Return whether `ignore_if_missing` is set."""
        return self.ignore_if_missing

    def patterns(self) -> tuple[str, ...]:
        """Return the pattern."""
        return (self.pattern,)

    def edited(self, text: str, given: tuple[str, ...]) -> str:
        """Return the text with the matches replaced, or with the replacement added."""
        replacement = self.repl.replace("\\", "\\\\") if self.backslash_literal else self.repl
        try:
            changed, found = re.subn(self.pattern, replacement, text, count=self.count, flags=self._flags())
        except (re.error, IndexError) as error:
            raise Permanent(f"cannot edit {self.name}: the replacement does not fit the pattern: {error}") from None
        added = finished(self.not_found_content if self.not_found_content is not None else self.repl, newline=True)
        if found or not (self.append_if_not_found or self.prepend_if_not_found) or has_lines(text, added):
            return changed
        return ended(text) + added if self.append_if_not_found else added + text


GLOBAL = re.compile(r"(?:\(\?([aiLmsux]+)\))?\^?(.*)", re.DOTALL)
"""Matches the parts of a regular expression: the flags at its beginning, and the rest without a `^`."""


class Marked(Edit):
    """Base of the kinds for lines and comments whose beginning a regular expression matches."""

    regex: Regex
    """Regular expression, matched at the beginning of a line or after its comment sign.

    A `^` at its beginning has no effect; a `$` at its end matches the end of the line.
    """
    char: str = "#"
    """The comment sign."""

    @field_validator("char")
    @classmethod
    def _visible(cls, char: str) -> str:
        if not char.strip() or "\n" in char:
            raise ValueError(f"{char!r} cannot be a comment sign; write a sign such as '#'")
        return char

    @field_validator("regex")
    @classmethod
    def _fits(cls, regex: str) -> str:
        anchored(regex)
        return regex

    def patterns(self) -> tuple[str, ...]:
        """Return the regular expression."""
        return (self.regex,)

    def matches(self, line: str) -> bool:
        """Return whether the expression matches a line without comment sign and line end."""
        return anchored(self.regex).match(line) is not None

    def says(self, text: str) -> bool:
        """Return whether the expression matches the text, or the text without some of its leading blanks."""
        return any(self.matches(text[blanks:]) for blanks in range(len(text) - len(text.lstrip()) + 1))

    def is_comment(self, line: str) -> bool:
        """Return whether a line begins with the comment sign, possibly after blanks."""
        return line.lstrip().startswith(self.char.strip())

    def content(self, line: str) -> str:
        """Return the text of a comment."""
        return line.lstrip().removeprefix(self.char.strip())

    def foreseen(self, changes: dict[str, str]) -> dict[str, str]:
        """Return only that the file changes, because the report also shows the diff."""
        return {self.name: "updated"}

    def demand(self, *, found: bool) -> None:
        """Raise `Permanent` if no line matches."""
        if not found:
            hint = r"it must match at the beginning of a line; write \s* or .* before it if other text may precede it"
            raise Permanent(f"cannot edit {self.name}: no line matches {self.regex!r}, comment or not; {hint}")


@functools.lru_cache
def anchored(regex: str) -> re.Pattern[str]:
    """Return the expression that matches at the beginning of a line's text.

    Raises `ValueError` if the expression cannot be part of another expression.
    """
    flags, core = GLOBAL.fullmatch(regex).groups()  # type: ignore[union-attr]  # this matches everything
    whole = core.endswith("$") and (len(core) - len(core[:-1].rstrip("\\"))) % 2 == 1
    core, end = (core[:-1], "$") if whole else (core, "")
    try:
        return re.compile(
            f"(?{flags or ''}:{core}\n){end}" if "x" in (flags or "") else f"(?{flags or ''}:{core}){end}"
        )
    except re.error as error:
        raise ValueError(f"{regex!r} cannot be matched at the beginning of a line: {error}") from None


class Comment(Marked, kind="file.comment"):
    r"""Lines are turned into comments. The state fails if neither a line nor a comment matches.

    /etc/fstab:
      file.comment:
        - regex: ^//192\.168\.0\.5
    """

    ignore_missing: bool = False
    """Succeed if no line matches."""

    def edited(self, text: str, given: tuple[str, ...]) -> str:
        """Return the text with the matching lines as comments."""
        lines, found = split(text), self.ignore_missing
        for n, line in enumerate(lines):
            if self.is_comment(line):
                found = found or self.matches(bare(line)) or self.says(self.content(bare(line)))
            elif self.matches(bare(line)):
                lines[n], found = f"{self.char}{line}", True
        self.demand(found=found)
        return "".join(lines)


class Uncomment(Marked, kind="file.uncomment"):
    """Comments are turned into lines: the comment sign before a match is removed. The state fails if nothing matches.

    /etc/adduser.conf:
      file.uncomment:
        - regex: EXTRA_GROUPS
    """

    def edited(self, text: str, given: tuple[str, ...]) -> str:
        """Return the text with the matching comments as lines."""
        lines, found = split(text), False
        for n, line in enumerate(lines):
            found = found or self.says(bare(line))
            rest = line
            while self.is_comment(rest) and (comment := self.content(bare(rest))).strip() and self.says(comment):
                indent = rest[: len(rest) - len(rest.lstrip())]
                rest, found = indent + self.content(rest), True
            lines[n] = rest
        self.demand(found=found)
        return "".join(lines)

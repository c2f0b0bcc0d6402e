"""`file.append`, `file.prepend`, `file.replace`: parts of a file that is otherwise somebody else's."""

from __future__ import annotations

import os
import re
import stat
from abc import abstractmethod
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, field_validator

from holdfast.resources.context import Context
from holdfast.resources.diff import unified
from holdfast.resources.errors import Permanent
from holdfast.resources.fields import field, parse_list
from holdfast.resources.kinds.file.base import PathResource, demand_parent, make_parents, note, ownership, status, telling, what
from holdfast.resources.kinds.file.content import finished, parse_contents
from holdfast.resources.kinds.file.disk import back_up, read

FLAGS = {"IGNORECASE": re.IGNORECASE, "MULTILINE": re.MULTILINE, "DOTALL": re.DOTALL, "VERBOSE": re.VERBOSE, "ASCII": re.ASCII}
Lines = Annotated[tuple[str, ...], BeforeValidator(lambda value: tuple(str(parse_contents(item)) for item in parse_list(value)))]


class Edit(PathResource):
    """A file of which a part is declared: subclasses say what the text should become."""

    exclusive: ClassVar[bool] = False

    makedirs: bool = False
    """Make missing parent directories."""
    backup: str | Literal[False] | None = None
    """Keep a copy of what is replaced, in the agent's own directory."""
    show_changes: bool = True
    """Show the diff. Turn off for secrets."""
    missing: ClassVar[bool] = True
    """Whether a missing file is made."""

    @abstractmethod
    def edited(self, text: str) -> str:
        """The text as it should be."""

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Read, edit, compare, write whole."""
        path = os.path.realpath(self.name)
        seen, old = await self._read(ctx, path)
        new = self.edited(old)
        if new == old and seen is not None:
            ctx.report.comment = f"{self.name} is as declared"
            return True
        if apply:
            ctx.report.touched = True
            await self._write(ctx, path, seen, new)
        diff = unified(old.encode(errors="surrogateescape"), new.encode(errors="surrogateescape"), path) if self.show_changes else ""
        ctx.report.diff = diff
        done = f"edited {self.name}" if seen is not None else f"created {self.name}"
        note(ctx, {"diff": diff if self.show_changes else "<show_changes=False>"}, done if apply else f"would have {done}")
        return False

    async def _read(self, ctx: Context, path: str) -> tuple[os.stat_result | None, str]:
        seen = status(path)
        if seen is None:
            if not self.missing:
                raise Permanent(f"cannot edit {self.name}: it does not exist")
            return None, ""
        if not stat.S_ISREG(seen.st_mode):
            raise Permanent(f"cannot edit {self.name}: it is {what(seen.st_mode)}")
        with telling("read", path):
            return seen, (await read(ctx, path, seen.st_size)).decode(errors="surrogateescape")

    async def _write(self, ctx: Context, path: str, seen: os.stat_result | None, text: str) -> None:
        demand_parent(path, makedirs=self.makedirs, apply=True)
        if seen is None and self.makedirs:
            make_parents(path, await ownership(ctx, None, None))
        if seen is not None and self.backup:
            await ctx.blocking(back_up, path, str(ctx.var_dir))
        mode, uid, gid = (stat.S_IMODE(seen.st_mode), seen.st_uid, seen.st_gid) if seen is not None else (0o644, -1, -1)
        with telling("write", path):
            await ctx.write_file(path, text.encode(errors="surrogateescape"), mode=mode, uid=uid, gid=gid)


class Append(Edit, kind="file.append"):
    """Lines that the file holds somewhere; those it does not are added at its end.

    /etc/profile:
      file.append:
        - text: umask 027
    """

    text: Lines = field(min_length=1)
    """Text, or a list of texts; each may be several lines, which must follow each other."""

    def edited(self, text: str) -> str:
        """The text with what is missing at its end."""
        for part in self.text:
            if not holds(text, part):
                text = finished(text, newline=True) + finished(part, newline=True)
        return text


class Prepend(Edit, kind="file.prepend"):
    """Lines that the file holds somewhere; those it does not are added at its beginning, in the order given.

    /etc/hosts.allow:
      file.prepend:
        - text: 'sshd: LOCAL'
    """

    text: Lines = field(min_length=1)
    """Text, or a list of texts."""

    def edited(self, text: str) -> str:
        """The text with what is missing before it."""
        return "".join(finished(part, newline=True) for part in self.text if not holds(text, part)) + text


class Replace(Edit, kind="file.replace"):
    """Every match of a regular expression replaced. What the replacement makes must not match again, or else it never ends.

    /etc/ssh/sshd_config:
      file.replace:
        - pattern: ^#?PermitRootLogin .*$
        - repl: PermitRootLogin no
        - append_if_not_found: true
    """

    missing: ClassVar[bool] = False

    pattern: str
    """Python regular expression; `^` and `$` match at every line."""
    repl: str = ""
    r"""The replacement; `\1` or `\g<name>` stand for groups."""
    count: int = field(0, ge=0)
    """Replacements at most; 0: all."""
    flags: Annotated[tuple[str, ...], BeforeValidator(parse_list)] = ("MULTILINE",)
    """Names of flags of Python's re module."""
    append_if_not_found: bool = False
    """Add the replacement at the end when the pattern matches nowhere."""
    prepend_if_not_found: bool = False
    """Add it at the beginning."""
    not_found_content: str | None = None
    """What is added then instead of `repl`."""
    ignore_if_missing: bool = False
    """A missing file is not an error."""
    backslash_literal: bool = False
    """Take backslashes in `repl` as they are."""

    @field_validator("flags")
    @classmethod
    def _known_flags(cls, flags: tuple[str, ...]) -> tuple[str, ...]:
        for flag in flags:
            if flag.upper() not in FLAGS:
                raise ValueError(f"{flag} is not a flag; known are {', '.join(FLAGS)}")
        return flags

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, pattern: str) -> str:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"not a regular expression: {error}") from None
        return pattern

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """As any edit; a missing file may be fine."""
        if self.ignore_if_missing and status(self.name) is None:
            ctx.report.comment = f"{self.name} does not exist"
            return True
        return await super().check_apply(ctx, apply)

    def edited(self, text: str) -> str:
        """The text with the matches replaced, or with the replacement added."""
        flags = re.RegexFlag(0)
        for flag in self.flags:
            flags |= FLAGS[flag.upper()]
        replacement = self.repl.replace("\\", "\\\\") if self.backslash_literal else self.repl
        try:
            changed, found = re.subn(self.pattern, replacement, text, count=self.count, flags=flags)
        except (re.error, IndexError) as error:
            raise Permanent(f"cannot edit {self.name}: the replacement does not fit the pattern: {error}") from None
        added = finished(self.not_found_content if self.not_found_content is not None else self.repl, newline=True)
        if found or not (self.append_if_not_found or self.prepend_if_not_found) or holds(text, added):
            return changed
        return finished(text, newline=True) + added if self.append_if_not_found else added + text


def holds(text: str, part: str) -> bool:
    """Whether the lines of `part` stand in `text`, one after the other; blanks at their ends do not count."""
    wanted = [line.rstrip() for line in part.rstrip("\n").split("\n")]
    lines = [line.rstrip() for line in text.split("\n")]
    return any(lines[n : n + len(wanted)] == wanted for n in range(len(lines) - len(wanted) + 1))

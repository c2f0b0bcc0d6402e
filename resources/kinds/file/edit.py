"""What all kinds share that change a part of a file which is otherwise somebody else's."""

from __future__ import annotations

import os
import re
import stat
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, ClassVar

from pydantic import AfterValidator

from holdfast.resources.context import Context, announced
from holdfast.resources.contract import Uid
from holdfast.resources.diff import hidden, unified
from holdfast.resources.errors import Permanent, Temporary
from holdfast.resources.expressions import expression
from holdfast.resources.fields import field
from holdfast.resources.kinds.file.apart import edited_apart
from holdfast.resources.kinds.file.base import (
    NEW_FILE,
    Ownership,
    Placed,
    demand_parent,
    found,
    make_parents,
    note,
    ownership,
    place_of,
    telling,
)
from holdfast.resources.kinds.file.disk import back_up, read
from holdfast.resources.needs import Need, lies_in, unit_parts
from holdfast.resources.paths import Place, Unsafe
from holdfast.resources.paths.handle import what
from holdfast.resources.patience import Impatient, patience

BRIEF = 0.1
"""Seconds of computing after which an edit is left to a process of its own."""
LARGEST, LARGEST_OF_USERS = 64 << 20, 4 << 20
"""Bytes that a file which is edited may have; the second where an untrusted user can make it as large as he likes."""


def known_backup(value: str | bool | None) -> str | bool | None:
    """Refuse a suffix that would lead to another directory."""
    if isinstance(value, str) and ("/" in value or "\0" in value):
        raise ValueError(
            f"{value!r} is not a suffix: write one like .bak, or minion for a copy in the agent's own directory"
        )
    return value


Backup = Annotated[str | bool | None, AfterValidator(known_backup)]
"""Whether a copy is kept of what is edited: not (None, False, empty), in the agent's own directory (True, `minion`), or beside the
file under this suffix."""


class Edit(Placed):
    """A file of which a part is declared: subclasses say what its text should become."""

    exclusive: ClassVar[bool] = False
    partial: ClassVar[bool] = True
    ignored: ClassVar[Mapping[str, str]] = {
        "encoding": "the bytes of a file that are not declared are kept as they are",
        "encoding_errors": "the bytes of a file that are not declared are kept as they are",
    }

    backup: Backup = field(None)
    """Keep a copy of the file before it is edited: `minion` in the agent's own directory, a suffix like `.bak` beside it.

    Default: none, other than in Salt, for a copy in a directory like /etc/cron.d or /etc/sudoers.d would be read, too.
    """
    show_changes: bool | None = None
    """Show the diff: true always, false never. Default: of files that others may read."""

    @abstractmethod
    def edited(self, text: str, given: tuple[str, ...]) -> str:
        """The text as it should be; of itself it is edited no further. Raises `Permanent` when that cannot be."""

    async def given(self, ctx: Context) -> tuple[str, ...]:
        """What the edit needs, from elsewhere where it has to."""
        return self.stated() or ()

    def stated(self) -> tuple[str, ...] | None:
        """The same, as far as the state itself says it; None when there is more."""
        return ()

    def patterns(self) -> tuple[str, ...]:
        """Regular expressions that the state gives, and what may be one."""
        return ()

    def changes_text(self, text: str) -> bool:
        """Whether a file with this text would be edited, or refused, for sure. Only what is quickly found out is known."""
        given = self.stated()
        if given is None or not all(is_brief(pattern, text) for pattern in self.patterns()):
            return False
        try:
            return self.edited(text, given) != text
        except Permanent:
            return True

    def offers(self) -> tuple[Uid, ...]:
        """The file is there because of somebody else; this may be what a unit waits for."""
        return unit_parts(self.name)

    def needs(self) -> tuple[Need, ...]:
        """The file, and the directory that it lies in."""
        own = Need("path", self.name, vital=not (self.makes() or self.tolerates()))
        return (own, lies_in(self.name, vital=self.makes() and not self.makes_parents()))

    def makes(self) -> bool:
        """Whether a missing file is made."""
        return False

    def makes_parents(self) -> bool:
        """Whether missing directories are made for it."""
        return False

    def tolerates(self) -> bool:
        """Whether a missing file is fine."""
        return False

    async def owner_of_new(self, ctx: Context) -> Ownership:
        """Owner and mode of a file that is made."""
        return await ownership(ctx, None, None)

    @announced
    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Read, edit, compare, write whole."""
        place, seen = found(self.name, follow=True)
        path = self.name if place is None else place.path
        if seen is None and self.tolerates():
            ctx.report.comment = f"{self.name} does not exist"
            return True
        given = await self.given(ctx)
        old = await self._read(ctx, place, seen)
        new = await self._edited(ctx, old, given)
        if new == old and seen is not None:
            ctx.report.comment = f"{self.name} is as declared"
            return True
        if place is not None and seen is not None and (refusal := place.refusal(seen)):
            raise Unsafe(f"cannot edit {path}: {refusal}; declare the whole file with file.managed")
        if apply:
            await self._write(ctx, path, place, seen, new)
        owner = await self.owner_of_new(ctx)
        instead = hidden(self.show_changes, owner.mode if seen is None else seen.st_mode)
        ctx.report.diff = "" if instead else unified(_bytes(old), _bytes(new), path)
        done = f"edited {self.name}" if seen is not None else f"created {self.name}"
        changes = {"diff": instead or ctx.report.diff}
        if not apply:
            changes = {"new": self.name} if seen is None else self.foreseen(changes)
        foreseen = owner.of_new(NEW_FILE) if seen is None and not apply else ""
        note(ctx, changes, done if apply else f"would have {done}{foreseen}")
        return False

    def foreseen(self, changes: dict[str, str]) -> dict[str, str]:
        """Salt's `changes` for an edit that would be made, of those for one that is."""
        return changes

    async def _edited(self, ctx: Context, old: str, given: tuple[str, ...]) -> str:
        try:
            with patience(BRIEF):
                return self.edited(old, given)
        except Impatient:
            return await edited_apart(ctx, self, old, given)

    async def _read(self, ctx: Context, place: Place | None, seen: os.stat_result | None) -> str:
        if place is None or seen is None:
            if not self.makes():
                raise Permanent(
                    f"cannot edit {self.name}: it does not exist; make it first, for instance with file.managed"
                )
            return ""
        if not stat.S_ISREG(seen.st_mode):
            raise Permanent(f"cannot edit {self.name}: it is {what(seen.st_mode)}")
        largest = LARGEST_OF_USERS if place.directory.holders else LARGEST
        if seen.st_size > largest:
            raise Permanent(
                f"cannot edit {self.name}: it has {seen.st_size >> 20} MB; files of more than {largest >> 20} MB are not edited here"
            )
        with telling("read", place.path):
            return (await read(ctx, place, seen)).decode(errors="surrogateescape")

    async def _write(
        self, ctx: Context, path: str, place: Place | None, seen: os.stat_result | None, text: str
    ) -> None:
        await ctx.report.announce()
        if place is None or seen is None:
            owner = await self.owner_of_new(ctx)
            owner.demand(path)
            demand_parent(path, makedirs=self.makes_parents(), apply=True)
            if place is None:
                ctx.report.touched = True
                make_parents(path, owner)
                place = place_of(path)
            mode, uid, gid = NEW_FILE if owner.mode is None else owner.mode, owner.uid, owner.gid
        else:
            mode, uid, gid = stat.S_IMODE(seen.st_mode) & 0o777, seen.st_uid, seen.st_gid
            await self._back_up(ctx, place, seen)
        with telling("write", path):
            await ctx.write_file(place, _bytes(text), mode=mode, uid=uid, gid=gid, check=self._checker(place, seen))

    def _checker(self, place: Place, seen: os.stat_result | None) -> Callable[[str], Awaitable[None]]:
        """What `write_file` calls right before the file is replaced: what others have written meanwhile must not be lost."""

        async def check(_: str) -> None:
            if _looks(place.look()) != _looks(seen):
                raise Temporary(
                    f"cannot edit {self.name}: it was changed by somebody else while it was edited", delay=0.1
                )

        return check

    async def _back_up(self, ctx: Context, place: Place, seen: os.stat_result) -> None:
        if self.backup is True or self.backup == "minion":
            await ctx.blocking(back_up, place, str(ctx.var_dir))
        elif self.backup:
            copy = place.beside(f"{place.name}{self.backup}")
            with telling("back up to", copy.path):
                data = await read(ctx, place, seen)
                await ctx.write_file(
                    copy, data, mode=stat.S_IMODE(seen.st_mode) & 0o777, uid=seen.st_uid, gid=seen.st_gid, touches=False
                )


def is_brief(pattern: str, text: str) -> bool:
    """Whether it does not take long to match a text; plain text that is no regular expression never does."""
    try:
        return expression(pattern).is_short(text)
    except (re.error, OverflowError, RecursionError):
        return True


def _looks(seen: os.stat_result | None) -> tuple[int, ...] | None:
    """What changes whenever a file does."""
    return None if seen is None else (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


# -- lines -----------------------------------------------------------------------------------------------------------


def split(text: str) -> list[str]:
    """The lines of a text, their ends kept. Only line feeds end a line; a carriage return before one belongs to the end."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def bare(line: str) -> str:
    """A line without its end."""
    return line.removesuffix("\n").removesuffix("\r")


def end_of(line: str) -> str:
    """How a line ends: a line feed, with or without a carriage return; a line without an end should have a line feed."""
    return "\r\n" if line.endswith("\r\n") else "\n"


def ended(text: str) -> str:
    """A text whose last line, if there is one, has an end."""
    return text if not text or text.endswith("\n") else text + end_of(text[: text.find("\n") + 1])


def regular(pattern: str) -> str:
    """For validators: refuse what is no regular expression."""
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None
    return pattern


Regex = Annotated[str, AfterValidator(regular)]
"""A regular expression in Python's notation."""


def one_line(value: str | None) -> str | None:
    """For validators: refuse what is several lines."""
    if value is not None and ("\n" in value or "\r" in value):
        raise ValueError("it must be one line: for several there are file.blockreplace and file.append")
    return value

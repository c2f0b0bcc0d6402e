"""Base of the kinds that manage a part of a file."""

from __future__ import annotations

import os
import re
import stat
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator

from holdfast.resources.accepts import accepts
from holdfast.resources.assignment import announced
from holdfast.resources.context import Context
from holdfast.resources.contract import Uid
from holdfast.resources.cpu_timeout import CpuTimeExceeded, cpu_timeout
from holdfast.resources.dependencies import Dependency, lies_in, unit_parts
from holdfast.resources.diff import hidden, unified
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.errors import ChangedMeanwhile, Permanent
from holdfast.resources.expressions import expression
from holdfast.resources.fields import field
from holdfast.resources.kinds._config_file import identity
from holdfast.resources.kinds._lines import decoded, encoded
from holdfast.resources.kinds.file.base import (
    NEW_FILE,
    Ownership,
    Placed,
    demand_parent,
    demand_reached,
    follower_of,
    found,
    is_public,
    make_parents,
    note,
    os_errors,
    ownership,
    place_of,
)
from holdfast.resources.kinds.file.disk import back_up, read
from holdfast.resources.kinds.file.edit_subprocess import edited_in_subprocess
from holdfast.resources.paths import Place, Unsafe
from holdfast.resources.paths.handle import what

BRIEF = 0.1
"""Seconds of CPU time after which an edit is repeated in a separate process."""
LARGEST, LARGEST_OF_USERS = 64 << 20, 4 << 20
"""Maximum size of an edited file, in bytes; the second applies if an untrusted user can write the file."""


def known_backup(value: str | bool | None) -> str | bool | None:
    """Check that a suffix does not lead to another directory. Raises `ValueError`."""
    if isinstance(value, str) and ("/" in value or "\0" in value):
        raise ValueError(
            f"{value!r} is not a suffix; write a suffix such as .bak, or minion for a copy in the agent's own directory"
        )
    return value


Backup = Annotated[str | bool | None, AfterValidator(known_backup)]
"""Whether and where to keep a copy of the file.

None, False or empty: no copy. True or `minion`: in the agent's own directory. Other text: beside the file, with this
suffix.
"""


class Edit(Placed):
    """Base of the kinds that manage a part of a file: subclasses compute the new text."""

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("create", "change")
    exclusive: ClassVar[bool] = False
    partial: ClassVar[bool] = True
    ignored: ClassVar[Mapping[str, str]] = {
        "encoding": "bytes of the file that are not declared never change",
        "encoding_errors": "bytes of the file that are not declared never change",
    }

    backup: Backup = field(None)
    """Keep a copy of the file before the edit.

    `minion`: in the agent's own directory; a suffix such as `.bak`: beside the file. Default: no copy, unlike in Salt,
    because programs would read a copy in a directory such as /etc/cron.d or /etc/sudoers.d.
    """
    show_changes: bool | None = None
    """Show the diff: true always, false never. Default: if other users may read the file."""

    @abstractmethod
    def edited(self, text: str, given: tuple[str, ...]) -> str:
        """Return the new text. An edit of the new text must not change it again.

        Raises `Permanent` if the text cannot be edited.
        """

    async def given(self, ctx: Context) -> tuple[str, ...]:
        """Return the texts for the edit, fetching sources if necessary."""
        return self.stated() or ()

    def stated(self) -> tuple[str, ...] | None:
        """Return the texts for the edit if the state gives all of them; otherwise None."""
        return ()

    def patterns(self) -> tuple[str, ...]:
        """Return the arguments that are or may be regular expressions."""
        return ()

    def changes_text(self, text: str) -> bool:
        """Return whether the edit would certainly change or refuse this text."""
        given = self.stated()
        if given is None or not all(is_brief(pattern, text) for pattern in self.patterns()):
            return False
        try:
            return self.edited(text, given) != text
        except Permanent:
            return True

    def offers(self) -> tuple[Uid, ...]:
        """Return the unit that the file extends; another state offers the file itself."""
        return unit_parts(self.name)

    def dependencies(self) -> tuple[Dependency, ...]:
        """Return the file and its directory."""
        own = Dependency("path", self.name, vital=not (self.makes() or self.tolerates()))
        return (own, lies_in(self.name, vital=self.makes() and not self.makes_parents()))

    def makes(self) -> bool:
        """Return whether a missing file is created."""
        return False

    def makes_parents(self) -> bool:
        """Return whether missing parent directories are created."""
        return False

    def tolerates(self) -> bool:
        """Return whether the state accepts a missing file."""
        return False

    async def owner_of_new(self, ctx: Context) -> Ownership:
        """Return the owner and mode of a new file."""
        return await ownership(ctx, None, None)

    @announced
    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Read, edit and compare the file, then write the whole file."""
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
        if seen is None:
            demand_reached(path, place, None if follower_of(place) is None else await self.owner_of_new(ctx))
        if place is not None and seen is not None and (refusal := place.refusal(seen)):
            raise Unsafe(f"cannot edit {path}: {refusal}; declare the whole file with file.managed")
        if apply:
            await self._write(ctx, path, place, seen, new)
        await self._report(ctx, path, place, seen, (old, new), apply=apply)
        return False

    async def _report(
        self,
        ctx: Context,
        path: str,
        place: Place | None,
        seen: os.stat_result | None,
        texts: tuple[str, str],
        *,
        apply: bool,
    ) -> None:
        """Report the edit from the first text to the second."""
        old, new = texts
        owner = await self.owner_of_new(ctx)
        mode = owner.mode if seen is None else seen.st_mode
        instead = hidden(self.show_changes, mode)
        ctx.report.public = is_public(place, mode)
        ctx.report.diff = "" if instead else unified(encoded(old), encoded(new), path)
        changes = self.told(old, new, instead) or {"diff": instead or ctx.report.diff}
        if not apply:
            changes = {"new": self.name} if seen is None else self.foreseen(changes)
        foreseen = owner.of_new(NEW_FILE) if seen is None and not apply else ""
        note(ctx, changes, Effect(("change" if seen else "create",), self.name, detail=foreseen), applied=apply)

    def told(self, old: str, new: str, instead: str) -> dict[str, Any]:
        """Return Salt's `changes` for an edit if they are not a diff; if `instead` is not empty, it replaces values."""
        return {}

    def foreseen(self, changes: dict[str, Any]) -> dict[str, Any]:
        """Return Salt's `changes` for noop, derived from those of the edit."""
        return changes

    async def _edited(self, ctx: Context, old: str, given: tuple[str, ...]) -> str:
        try:
            with cpu_timeout(BRIEF):
                return self.edited(old, given)
        except CpuTimeExceeded:
            return await edited_in_subprocess(ctx, self, old, given)

    async def _read(self, ctx: Context, place: Place | None, seen: os.stat_result | None) -> str:
        if place is None or seen is None:
            if not self.makes():
                raise Permanent(
                    f"cannot edit {self.name}: it does not exist; create it first, for example with file.managed"
                )
            return ""
        if not stat.S_ISREG(seen.st_mode):
            raise Permanent(f"cannot edit {self.name}: it is {what(seen.st_mode)}")
        largest = LARGEST_OF_USERS if place.weakness(seen) else LARGEST
        if seen.st_size > largest:
            raise Permanent(
                f"cannot edit {self.name}: it has {seen.st_size >> 20} MB; files of more than {largest >> 20} MB are "
                "not edited here"
            )
        with os_errors("read", place.path):
            return decoded(await read(ctx, place, seen))

    async def _write(
        self, ctx: Context, path: str, place: Place | None, seen: os.stat_result | None, text: str
    ) -> None:
        await ctx.assignment.announce()
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
        with os_errors("write", path):
            await ctx.write_file(place, encoded(text), mode=mode, uid=uid, gid=gid, check=self._checker(place, seen))

    def _checker(self, place: Place, seen: os.stat_result | None) -> Callable[[str], Awaitable[None]]:
        """Return the check that `write_file` makes before it replaces the file, so that no change by others is lost."""

        async def check(_: str) -> None:
            if identity(place.look()) != identity(seen):
                raise ChangedMeanwhile(f"cannot edit {self.name}: another program has changed the file during the edit")

        return check

    async def _back_up(self, ctx: Context, place: Place, seen: os.stat_result) -> None:
        if self.backup is True or self.backup == "minion":
            await ctx.blocking(back_up, place, str(ctx.var_dir))
        elif self.backup:
            copy = place.beside(f"{place.name}{self.backup}")
            with os_errors("back up to", copy.path):
                data = await read(ctx, place, seen)
                await ctx.write_file(
                    copy, data, mode=stat.S_IMODE(seen.st_mode) & 0o777, uid=seen.st_uid, gid=seen.st_gid, touches=False
                )


def is_brief(pattern: str, text: str) -> bool:
    """Return whether matching the text is quick, as it always is for plain text."""
    try:
        return expression(pattern).is_short(text)
    except (re.error, OverflowError, RecursionError):
        return True


def regular(pattern: str) -> str:
    """Check a regular expression. Raises `ValueError`."""
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None
    return pattern


Regex = Annotated[str, AfterValidator(regular)]
"""A regular expression in Python's notation."""


@accepts(pattern=r"[^\r\n]*")
def one_line(value: str | None) -> str | None:
    """Check that a value is one line. Raises `ValueError`."""
    if value is not None and ("\n" in value or "\r" in value):
        raise ValueError("it must be one line: for several lines use file.blockreplace or file.append")
    return value

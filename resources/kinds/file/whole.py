"""Base of the kinds that declare a whole file: find, compare, write and report the file."""

from __future__ import annotations

import codecs
import os
import shlex
import stat
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, model_validator

from holdfast.resources import accounts
from holdfast.resources.assignment import announced
from holdfast.resources.context import Context
from holdfast.resources.diff import hidden, unified
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.errors import Permanent
from holdfast.resources.fields import Mode, Texts
from holdfast.resources.kinds._commands import reason
from holdfast.resources.kinds.file.base import (
    NEW_FILE,
    OwnedResource,
    Ownership,
    PathResource,
    demand_parent,
    found,
    is_public,
    make_parents,
    note,
    octal,
    os_errors,
    ownership,
    passable,
    place_of,
)
from holdfast.resources.kinds.file.before import before
from holdfast.resources.kinds.file.disk import (
    FileComparison,
    attributes_of_new,
    back_up,
    compare,
    difference,
    effective_owner,
    read,
)
from holdfast.resources.kinds.file.label import Label
from holdfast.resources.paths import Place, Unsafe
from holdfast.resources.paths.handle import what
from holdfast.resources.traits import Declaration, Reversible

PRIVATE = 0o600
"""Mode of every file while it is being written."""
BESIDE = "the temporary file is always beside the file, so that it can be renamed"


def check_commands(commands: tuple[str, ...]) -> tuple[str, ...]:
    """Check that commands can be split into words; drop empty commands, as Salt does. Raises `ValueError`."""
    for command in filter(None, commands):
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise ValueError(f"{command!r} cannot be split into words: {error}") from None
        if not words:
            raise ValueError(f"{command!r} names no program")
    return tuple(filter(None, commands))


class WholeFile(Reversible, OwnedResource):
    """Base of the kinds that declare a whole file. A subclass returns the content from `wanted`."""

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("create", "change")
    ignored: ClassVar[Mapping[str, str]] = {"tmp_dir": BESIDE, "tmp_ext": BESIDE}
    otherwise: ClassVar[str] = "remove one of the two"
    """Part of the message about an edit that contradicts the state: what else the user can do."""

    mode: Mode | None = None
    """File mode. Default: unchanged, 0644 for a new file."""
    selinux: Label | None = None
    """The SELinux label, or parts of it: `seuser`, `serole`, `setype`, `serange`.

    The state fails if SELinux is off. Default: the label is not changed.
    """
    create: bool = True
    """Create the file if it does not exist."""
    backup: Literal["minion", "master", "both", "", False] | None = None
    """`minion`: keep a copy of the replaced file in the agent's own directory."""
    show_changes: bool | None = None
    """Show the diff: true always, false never. Default: if other users may read the file."""
    new_file_diff: bool = False
    """Report the diff of a new file in the changes, too."""
    check_cmd: Annotated[Texts, AfterValidator(check_commands)] = ()
    """Commands that must accept the new content before it is put in place.

    As in Salt, the commands run without a shell (use `sh -c '...' sh` if you need one): each command is split into
    words, and its last argument is the path of a file with the new content.
    """
    follow_symlinks: bool | None = None
    """Manage the target of a link at the path; false replaces the link.

    Default: follow the link, but replace it if another user could exploit it.
    """
    encoding: str | None = None
    """Encoding of content from the state. Default: utf-8."""
    encoding_errors: str = "strict"
    """How to treat characters that the encoding lacks."""

    @model_validator(mode="after")
    def _encodes(self) -> Self:
        try:
            "".encode(self.encoding or "utf-8", self.encoding_errors)
            codecs.lookup_error(self.encoding_errors)
        except LookupError as error:
            raise ValueError(str(error)) from None
        return self

    @abstractmethod
    async def wanted(self, ctx: Context, comparison: FileComparison) -> bytes | None:
        """Return the content that the file should have; None if the content must not be changed.

        This may change the declared mode of the comparison. Raises `Permanent` or `Temporary`.
        """

    def stated(self) -> str | None:
        """Return the content if it is known from the state alone; otherwise None."""
        return None

    def declared_mode(self) -> int | None:
        """Return the declared mode."""
        return octal(self.mode)

    def refuses(self, part: PathResource) -> str | None:
        """Return why an edit contradicts this state: it would change the content that this state declares."""
        said = None if self.encoding else self.stated()
        if said is None or not part.changes_text(said):
            return None
        return f"{part.kind} changes the content that {self.kind} declares; put it there, or {self.otherwise}"

    async def inverse(self, ctx: Context) -> Declaration | None:
        """Return a declaration of the present file, or of the target of a link that is followed."""
        place, _ = self._target()
        return await before(ctx, self.name if place is None else place.path)

    @announced
    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Probe the file and, with `apply`, repair it: first the content, which programs need most."""
        place, seen = self._target()
        path = self.name if place is None else place.path
        if seen is None and not self.create:
            ctx.report.comment = f"{path} does not exist, and create is false"
            return True
        owner = await ownership(ctx, self.user, self.group, self.declared_mode())
        comparison = FileComparison(path, place, seen, effective_owner(owner, place, seen))
        await self._compare(ctx, comparison)
        wrong = self._wrong(comparison)
        if comparison.seen is not None and not comparison.differs and not wrong:
            ctx.report.comment = f"{path} is as declared"
            return True
        if comparison.seen is not None and comparison.wanted is None and comparison.needs_new_file():
            comparison.demand_givable()
        if apply:
            ctx.report.account = lambda: self._account(ctx, comparison, wrong)
            await self._put(ctx, comparison)
        self._report(ctx, comparison, wrong, apply)
        return False

    async def _account(self, ctx: Context, comparison: FileComparison, wrong: dict[str, str]) -> None:
        """After an error, report the differences that have been repaired."""
        place, seen = self._target()
        now = FileComparison(comparison.path, place, seen, comparison.owner)
        await self._compare(ctx, now)
        if now.seen is not None:
            self._report(
                ctx, comparison, wrong, apply=True, left=(*self._wrong(now), *(["diff"] if now.differs else []))
            )

    # -- probing -----------------------------------------------------------------------------------------------

    def _wrong(self, comparison: FileComparison) -> dict[str, str]:
        """Return the differences except for those of the content."""
        wrong = comparison.owner.wrong(comparison.seen)
        if self.selinux is not None:
            wrong |= self.selinux.wrong(comparison.path, comparison.place if comparison.seen is not None else None)
        return wrong

    def _target(self) -> tuple[Place | None, os.stat_result | None]:
        """Return the place to manage and the status of the file there; None for a link that will be replaced.

        Raises `Permanent` if the path is unsafe or has something other than a file.
        """
        place, seen = found(self.name)
        if place is not None and seen is not None and stat.S_ISLNK(seen.st_mode):
            if self.follow_symlinks is False:
                return place, None
            try:
                led, seen = found(self.name, follow=True)
            except Unsafe:
                if self.follow_symlinks:
                    raise
                return place, None
            if led is None or seen is None:
                with os_errors("read link", self.name):
                    end = led.path if led is not None else place.readlink()
                raise Permanent(
                    f"cannot manage {self.name}: it is a dangling link to {end}; create the target first, "
                    "or set follow_symlinks: false to replace the link"
                )
            place = led
        if place is not None and seen is not None and not stat.S_ISREG(seen.st_mode):
            raise Permanent(f"cannot manage {place.path} as a file: it is {what(seen.st_mode)}; remove it first")
        return place, seen

    async def _compare(self, ctx: Context, comparison: FileComparison) -> None:
        """Determine the wanted content and compare it with the present content."""
        comparison.wanted = await self.wanted(ctx, comparison)
        if comparison.seen is not None and comparison.wanted is not None:
            with os_errors("read", comparison.path):
                await compare(ctx, comparison, comparison.wanted)

    def encoded(self, text: str) -> bytes:
        """Return the text in the declared encoding. Raises `Permanent` if the encoding lacks a character."""
        try:
            return text.encode(self.encoding or "utf-8", self.encoding_errors)
        except UnicodeEncodeError as error:
            raise Permanent(
                f"cannot write {self.name}: {self.encoding or 'utf-8'} has no character {text[error.start]!r}"
            ) from None

    # -- repairing ---------------------------------------------------------------------------------------------

    async def _put(self, ctx: Context, comparison: FileComparison) -> None:
        seen, owner = comparison.seen, comparison.owner
        owner.demand(comparison.path)
        await ctx.assignment.announce()
        if (
            comparison.place is not None
            and seen is not None
            and not comparison.differs
            and not comparison.needs_new_file()
        ):
            ctx.report.touched = True
            with os_errors("change owner or mode of", comparison.path):
                owner.put(comparison.place, seen)
            if self.selinux is not None:
                self.selinux.put(comparison.place)
            return
        if comparison.place is None:
            demand_parent(comparison.path, makedirs=self.makedirs, apply=True)
            ctx.report.touched = True
            make_parents(comparison.path, owner, self._parent_mode())
            comparison.place = place_of(comparison.path)
        elif seen is not None and self.backup in {"minion", "both"}:
            await ctx.blocking(back_up, comparison.place, str(ctx.var_dir))
        uid, gid, mode = attributes_of_new(comparison, NEW_FILE)
        with os_errors("write", comparison.path):
            if comparison.wanted is None and seen is not None:
                comparison.wanted = await read(ctx, comparison.place, seen)
            await ctx.write_file(
                comparison.place, comparison.wanted or b"", mode=mode, uid=uid, gid=gid, check=self._checker(ctx)
            )

    def _parent_mode(self) -> int | None:
        declared = octal(self.dir_mode)
        if declared is not None:
            return declared
        mode = self.declared_mode()
        return None if mode is None else passable(mode)

    def _checker(self, ctx: Context) -> Callable[[str], Awaitable[None]] | None:
        """Return the check that `write_file` calls with the path of the temporary file before it replaces the file."""
        if self.selinux is None and not self.check_cmd:
            return None

        async def check(path: str) -> None:
            if self.selinux is not None:
                self.selinux.put(place_of(path))
            for command in self.check_cmd:
                done = await ctx.run(*shlex.split(command), path, check=False)
                if done.retcode != 0:
                    said = reason(done)
                    raise Permanent(
                        f"cannot replace {self.name}: check_cmd {command!r} refuses the new content: {said}"
                    )

        return check

    # -- reporting ---------------------------------------------------------------------------------------------

    def _report(
        self, ctx: Context, comparison: FileComparison, wrong: dict[str, str], apply: bool, left: Collection[str] = ()
    ) -> None:
        """Report the changes as Salt does, and the diff, without the parts that are still `left` to change."""
        present = None if comparison.seen is None else comparison.seen.st_mode
        instead = hidden(self.show_changes, present, comparison.owner.mode)
        ctx.report.public = is_public(comparison.place, present, comparison.owner.mode)
        changes, diff = self._changes(comparison, wrong, instead, apply)
        if left:
            changes = {part: change for part, change in changes.items() if part not in left}
        ctx.report.diff = "" if instead or "diff" in left else diff
        parts = " and ".join(["content" if part == "diff" else part for part in changes])
        effect = Effect(("change",), comparison.path, parts, self._why_owner(comparison, wrong))
        if comparison.seen is None:
            foreseen = "" if apply else comparison.owner.of_new(NEW_FILE)
            effect = Effect(("create",), comparison.path, detail=foreseen)
        note(ctx, changes, effect, applied=apply)

    def _why_owner(self, comparison: FileComparison, wrong: dict[str, str]) -> str:
        """Return why a file loses its owner although none is declared, and how to prevent this."""
        if self.user is not None or "user" not in wrong or comparison.seen is None or comparison.place is None:
            return ""
        writers = " and ".join(map(accounts.user_name, sorted(comparison.place.who(comparison.seen))))
        return (
            f" (no user is declared, and user {writers} could have put the file there; "
            f"user: {accounts.user_name(comparison.seen.st_uid)} would keep its owner)"
        )

    def _changes(
        self, comparison: FileComparison, wrong: dict[str, str], instead: str, apply: bool
    ) -> tuple[dict[str, str], str]:
        """Return the changes as Salt does, with the diff, or `instead` if the diff is hidden."""
        if comparison.seen is None:
            diff = unified(b"", comparison.wanted or b"", comparison.path)
            changes = self.changes_of_new(comparison.owner) if apply else {"newfile": comparison.path}
            return ({**changes, "diff": instead or diff} if self.new_file_diff and diff else changes), diff
        if not comparison.differs:
            return wrong, ""
        diff = difference(comparison)
        return {"diff": instead or diff, **wrong}, diff

    def changes_of_new(self, owner: Ownership) -> dict[str, str]:
        """Return the changes for a new file as Salt does: its differences from an empty file of mode 0600."""
        told = {"diff": "New file"}
        if owner.mode not in {None, PRIVATE}:
            told["mode"] = f"{owner.mode:04o}"
        if owner.user is not None and owner.uid != os.geteuid():
            told["user"] = owner.user
        if owner.group is not None and owner.gid != os.getegid():
            told["group"] = owner.group
        return told

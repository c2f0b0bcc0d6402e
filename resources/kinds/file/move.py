"""`file.copy`, `file.rename`: a file that is copied or moved from another path on this host."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from typing import ClassVar

from holdfast.resources.context import Context, Watch
from holdfast.resources.contract import Uid
from holdfast.resources.dependencies import Dependency
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.errors import Permanent
from holdfast.resources.fields import AbsPath, Mode
from holdfast.resources.kinds.file import removal
from holdfast.resources.kinds.file.base import (
    UNDECLARED,
    OwnedResource,
    Ownership,
    demand_parent,
    found,
    make_parents,
    note,
    octal,
    os_errors,
    ownership,
    passable,
    place_of,
    status,
)
from holdfast.resources.kinds.file.disk import FileComparison, attributes_of_new, effective_owner, kept_mode, read
from holdfast.resources.paths import Place
from holdfast.resources.paths.handle import what


def report_placed(ctx: Context, path: str, source: str, how: str, *, existed: bool, apply: bool) -> None:
    """Report a file that was or would be put in place, and how. Salt reports no `changes` for files that would be."""
    effect = Effect(("replace" if existed else "create",), path, detail=how)
    note(ctx, {path: source} if apply else {}, effect, applied=apply)


class Rename(OwnedResource, kind="file.rename"):
    """A file or directory is moved to this path once. If the source does not exist, the state does nothing.

    /etc/app/app.conf:
      file.rename:
        - source: /etc/app.conf
    """

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("create", "replace")

    source: AbsPath
    """Present path of the file or directory."""
    force: bool = False
    """Replace an existing file at the path. Default: the source is not moved."""

    def dependencies(self) -> tuple[Dependency, ...]:
        """Return the dependencies of any file, and the source."""
        return (*super().dependencies(), Dependency("path", self.source, vital=False))

    def touches(self) -> tuple[Uid, ...]:
        """Return the path and the source."""
        return (*super().touches(), ("path", self.source))

    def watch(self, ctx: Context) -> Watch:
        """Watch both paths, because the source may appear."""
        return ctx.watch_path(self.name, self.source)

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Move the source if it exists."""
        origin, given = found(self.source)
        if origin is None or given is None:
            ctx.report.comment = f"{self.source} does not exist: it has already been moved, or there is nothing to move"
            return True
        existed = status(self.name) is not None
        if existed and not self.force:
            ctx.report.comment = f"{self.name} exists, and force is not set: {self.source} is not moved"
            return True
        origin.demand_own(given, "move")
        if apply:
            demand_parent(self.name, makedirs=self.makedirs, apply=True)
            owner = await ownership(ctx, self.user, self.group)
            owner.demand(self.name)
            ctx.report.touched = True
            if self.makedirs:
                make_parents(self.name, owner, octal(self.dir_mode))
            await ctx.long_blocking(self._move, origin, given, place_of(self.name))
        how = f" by renaming {self.source}"
        report_placed(ctx, self.name, self.source, how, existed=existed, apply=apply)
        return False

    def _move(self, origin: Place, given: os.stat_result, place: Place) -> None:
        with os_errors(f"rename to {self.name}", self.source):
            origin.demand_own(given, "move")
            if place.look() is not None:
                removal.remove(place)
            try:
                origin.rename(place)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                removal.copy(origin, place)
                removal.remove(origin)


class Copy(OwnedResource, kind="file.copy"):
    """A file is a copy of another file on this host.

    With `force`, the copy is kept equal to the source; without it, the copy is only created.

    /etc/app/app.conf:
      file.copy:
        - source: /usr/share/app/app.conf.example
    """

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("create", "replace")
    ignored: ClassVar[Mapping[str, str]] = {"subdir": "write the whole path as the name"}

    source: AbsPath
    """The file to copy."""
    force: bool = False
    """Replace an existing file that differs."""
    preserve: bool = False
    """Give the copy the owner of the source."""
    mode: Mode | None = None
    """Mode of the copy. Default: the mode of the source."""

    def dependencies(self) -> tuple[Dependency, ...]:
        """Return the dependencies of any file, and the source."""
        return (*super().dependencies(), Dependency("path", self.source))

    def watch(self, ctx: Context) -> Watch:
        """Watch the copy and, if the copy is kept equal to it, the source."""
        return ctx.watch_path(self.name, *([self.source] if self.force else []))

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Copy the source if the copy is missing or, with `force`, differs."""
        place, seen = found(self.name)
        origin, given = found(self.source, follow=True)
        if seen is not None and not self.force:
            ctx.report.comment = f"{self.name} exists, and force is not set"
            return True
        if origin is None or given is None:
            raise Permanent(f"cannot copy {self.source}: it is missing")
        self._demand_files(given, seen)
        with os_errors("copy", self.source):
            data = await read(ctx, origin, given)
            if place is not None and seen is not None and await self._is_right(ctx, place, seen, data):
                ctx.report.comment = f"{self.name} is equal to {self.source}"
                return True
        owner = await self._owner(ctx, given)
        mode = stat.S_IMODE(kept_mode(origin, given)) if owner.mode is None else owner.mode
        if apply:
            ctx.report.touched = True
            await self._put(ctx, data, FileComparison(self.name, place, seen, owner), mode)
        how = f" by copying {self.source}{owner.of_new(mode) if seen is None and not apply else ''}"
        report_placed(ctx, self.name, self.source, how, existed=seen is not None, apply=apply)
        return False

    def _demand_files(self, given: os.stat_result, seen: os.stat_result | None) -> None:
        """Raise `Permanent` unless the source is a file and the copy is a file or missing."""
        if not stat.S_ISREG(given.st_mode):
            raise Permanent(f"cannot copy {self.source}: it is {what(given.st_mode)}, not a file")
        if seen is not None and not stat.S_ISREG(seen.st_mode):
            raise Permanent(f"cannot copy to {self.name}: it is {what(seen.st_mode)}")

    async def _is_right(self, ctx: Context, place: Place, seen: os.stat_result, data: bytes) -> bool:
        """Return whether the present file need not be copied again.

        Equal content is copied again if an untrusted user has put it there and no owner is declared.
        """
        owner = await ownership(ctx, self.user, self.group)
        if effective_owner(owner, place, seen) != owner and seen.st_uid != os.geteuid():
            return False
        return seen.st_size == len(data) and await read(ctx, place, seen, published=False) == data

    async def _owner(self, ctx: Context, given: os.stat_result) -> Ownership:
        """Return the owner and mode of the copy: as declared or, with `preserve`, the owner of the source."""
        owner = await ownership(ctx, self.user, self.group, octal(self.mode))
        if not self.preserve:
            return owner
        return owner._replace(
            uid=given.st_uid if owner.uid == UNDECLARED else owner.uid,
            gid=given.st_gid if owner.gid == UNDECLARED else owner.gid,
        )

    async def _put(self, ctx: Context, data: bytes, comparison: FileComparison, mode: int) -> None:
        comparison.owner.demand(self.name)
        demand_parent(self.name, makedirs=self.makedirs, apply=True)
        if self.makedirs:
            owner = await ownership(ctx, self.user, self.group)
            make_parents(self.name, owner, passable(mode) if self.dir_mode is None else int(self.dir_mode, 8))
        uid, gid, _ = attributes_of_new(comparison, mode)
        with os_errors("write", self.name):
            await ctx.write_file(place_of(self.name), data, mode=mode, uid=uid, gid=gid)

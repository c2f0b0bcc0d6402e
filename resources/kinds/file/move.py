"""`file.copy`, `file.rename`: something put in place from elsewhere on this host."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from typing import ClassVar

from holdfast.resources.context import Context, Watch
from holdfast.resources.contract import Uid
from holdfast.resources.dependencies import Dependency
from holdfast.resources.errors import Permanent
from holdfast.resources.fields import AbsPath, Mode
from holdfast.resources.kinds.file import removal
from holdfast.resources.kinds.file.base import (
    OwnedResource,
    demand_parent,
    found,
    make_parents,
    note,
    octal,
    ownership,
    passable,
    place_of,
    status,
    telling,
)
from holdfast.resources.kinds.file.disk import Look, inherited, kept_mode, read, settled
from holdfast.resources.paths import Place
from holdfast.resources.paths.handle import what


def tell(ctx: Context, path: str, source: str, done: str, *, apply: bool) -> None:
    """What was put in place, or would be; Salt's `changes` do not have the latter."""
    note(ctx, {path: source} if apply else {}, done if apply else f"would have {done}")


class Rename(OwnedResource, kind="file.rename"):
    """A file or directory moved to this path, once: when its source is gone, all is well.

    /etc/app/app.conf:
      file.rename:
        - source: /etc/app.conf
    """

    source: AbsPath
    """Where it is now."""
    force: bool = False
    """Replace what is at the path already; without it, that stays and so does the source."""

    def dependencies(self) -> tuple[Dependency, ...]:
        """What any file needs, and what is moved."""
        return (*super().dependencies(), Dependency("path", self.source, vital=False))

    def touches(self) -> tuple[Uid, ...]:
        """What it was before, too."""
        return (*super().touches(), ("path", self.source))

    def watch(self, ctx: Context) -> Watch:
        """Events of both paths: there is something to move once the source is there."""
        return ctx.watch_path(self.name, self.source)

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Move it, if it is there."""
        origin, given = found(self.source)
        if origin is None or given is None:
            ctx.report.comment = f"{self.source} does not exist: it was moved already, or there is nothing to move"
            return True
        if status(self.name) is not None and not self.force:
            ctx.report.comment = f"{self.name} exists, and force is not set: {self.source} stays where it is"
            return True
        origin.demand_own(given, "move")
        if apply:
            demand_parent(self.name, makedirs=self.makedirs, apply=True)
            owner = await ownership(ctx, self.user, self.group)
            owner.demand(self.name)
            ctx.report.touched = True
            if self.makedirs:
                make_parents(self.name, owner, int(self.dir_mode or "0755", 8))
            await ctx.long_blocking(self._move, origin, given, place_of(self.name))
        done = f"renamed {self.source} to {self.name}"
        tell(ctx, self.name, self.source, done, apply=apply)
        return False

    def _move(self, origin: Place, given: os.stat_result, place: Place) -> None:
        with telling(f"rename to {self.name}", self.source):
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
    """A file copied from another on this host. With `force` it is kept equal to it; without, it is only made.

    /etc/app/app.conf:
      file.copy:
        - source: /usr/share/app/app.conf.example
    """

    ignored: ClassVar[Mapping[str, str]] = {"subdir": "give the whole path as the name"}

    source: AbsPath
    """The file to copy."""
    force: bool = False
    """Replace a file that is there and differs."""
    preserve: bool = False
    """Take over the owner of the source."""
    mode: Mode | None = None
    """Mode of the copy. Default: that of the source."""

    def dependencies(self) -> tuple[Dependency, ...]:
        """What any file needs, and the source."""
        return (*super().dependencies(), Dependency("path", self.source))

    def watch(self, ctx: Context) -> Watch:
        """Events of the copy, and of its source where the one is kept equal to the other."""
        return ctx.watch_path(self.name, *([self.source] if self.force else []))

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Copy it, if it is missing or (with `force`) differs."""
        place, seen = found(self.name)
        origin, given = found(self.source, follow=True)
        if seen is not None and not self.force:
            ctx.report.comment = f"{self.name} exists, and force is not set"
            return True
        if origin is None or given is None or not stat.S_ISREG(given.st_mode):
            raise Permanent(
                f"cannot copy {self.source}: it is {'missing' if given is None else what(given.st_mode) + ', not a file'}"
            )
        if seen is not None and not stat.S_ISREG(seen.st_mode):
            raise Permanent(f"cannot copy to {self.name}: it is {what(seen.st_mode)}")
        with telling("copy", self.source):
            data = await read(ctx, origin, given)
            if place is not None and seen is not None and await self._is_right(ctx, place, seen, data):
                ctx.report.comment = f"{self.name} is equal to {self.source}"
                return True
        if apply:
            ctx.report.touched = True
            await self._put(ctx, data, given, place, seen, kept=kept_mode(origin, given))
        tell(ctx, self.name, self.source, f"copied {self.source} to {self.name}", apply=apply)
        return False

    async def _is_right(self, ctx: Context, place: Place, seen: os.stat_result, data: bytes) -> bool:
        """Whether what is there need not be copied again; it must, where a user has put the same there, and no owner is declared."""
        owner = await ownership(ctx, self.user, self.group)
        if settled(owner, place, seen) != owner and seen.st_uid != os.geteuid():
            return False
        return seen.st_size == len(data) and await read(ctx, place, seen, published=False) == data

    async def _put(
        self,
        ctx: Context,
        data: bytes,
        given: os.stat_result,
        place: Place | None,
        seen: os.stat_result | None,
        *,
        kept: int,
    ) -> None:
        owner = await ownership(ctx, self.user, self.group, octal(self.mode))
        owner.demand(self.name)
        demand_parent(self.name, makedirs=self.makedirs, apply=True)
        mode = stat.S_IMODE(kept) if owner.mode is None else owner.mode
        if self.makedirs:
            make_parents(self.name, owner, passable(mode) if self.dir_mode is None else int(self.dir_mode, 8))
        uid, gid, _ = inherited(Look(self.name, place, seen, owner), mode)
        if self.preserve:
            uid, gid = (uid if owner.uid >= 0 else given.st_uid), (gid if owner.gid >= 0 else given.st_gid)
        with telling("write", self.name):
            await ctx.write_file(place_of(self.name), data, mode=mode, uid=uid, gid=gid)

"""Base of the kinds that manage single entries of a configuration file and keep all its other bytes."""

from __future__ import annotations

import os
import stat
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, ClassVar

from holdfast.resources.context import Context, Watch
from holdfast.resources.contract import Resource, Uid
from holdfast.resources.delta import Delta, State, compare
from holdfast.resources.dependencies import Dependency, lies_in
from holdfast.resources.diff import hidden, unified
from holdfast.resources.errors import ChangedMeanwhile, Permanent
from holdfast.resources.file_locks import file_lock
from holdfast.resources.kinds._lines import decoded, encoded
from holdfast.resources.kinds.file.base import (
    Ownership,
    demand_parent,
    demand_reached,
    follower_of,
    found,
    is_public,
    make_parents,
    os_errors,
    ownership,
    passable,
    place_of,
)
from holdfast.resources.paths import Place, trusted_uids
from holdfast.resources.paths.handle import what
from holdfast.resources.traits import Edgeable

LIMIT, LIMIT_OF_USERS = 4 << 20, 1 << 20
"""Maximum size of a configuration file, in bytes; the second applies if an untrusted user can write the file."""
LARGE = 1 << 16
"""Length above which a text is parsed and edited in a thread, so that it does not block the event loop."""


class ConfigEntry(Edgeable, Resource):
    """Base of the kinds of entries. A subclass defines three pure methods: `file`, `read` and `edited`.

    inotify reports changes of the file. Other entries, comments, blank lines, owner and mode stay as they are. The
    agent does not overwrite a file that another program has changed since it was read.
    """

    mode_of_new: ClassVar[int] = 0o644
    """Mode of a file that does not exist yet."""
    makes_parents: ClassVar[bool] = False
    """Whether to create missing parent directories, too. Those who can read the file can enter them."""
    hides_diff: ClassVar[bool] = False
    """Whether the file has secrets, so that no diff is shown."""

    @abstractmethod
    def file(self) -> str:
        """Return the absolute path of the configuration file, as far as the declaration determines it."""

    async def located(self, ctx: Context) -> str:
        """Return the path of the file on this host; override this if `file` cannot know it. Raises `Permanent`."""
        return self.file()

    @abstractmethod
    def read(self, text: str) -> State:
        """Return the present state of the entry in a text; None if the text does not have it.

        Raises `Permanent` if the text cannot be parsed.
        """

    @abstractmethod
    def edited(self, text: str) -> str:
        """Return the text with the entry as declared. Called only if the entry differs. Raises `Permanent`."""

    async def owner_of_new(self, ctx: Context) -> Ownership:
        """Return the owner of a new file and of new parent directories."""
        return await ownership(ctx, None, None)

    async def verify(self, ctx: Context, path: str) -> None:
        """Check the complete new file at a temporary path, before it is put in place. Raises `Permanent`."""

    async def probe(self, ctx: Context) -> State:
        """Return the present state of the entry; report the diff to the declared state."""
        path = await self.located(ctx)
        place, seen = found(path, follow=True)
        if seen is None:
            demand_reached(path, place, None if follower_of(place) is None else await self.owner_of_new(ctx))
        text = await text_at(ctx, path, place, seen)
        state: State = await computed(ctx, self.read, text)
        if compare(state, self.desired()) is not None:
            mode = self.mode_of_new if seen is None else seen.st_mode
            ctx.report.public = is_public(place, mode) and not self.hides_diff
            if not self.hides_diff and not hidden(None, mode):
                ctx.report.diff = ctx.report.diff or await computed(ctx, partial(self._foreseen, path), text)
        return state

    def _foreseen(self, path: str, text: str) -> str:
        return unified(encoded(text), encoded(self.edited(text)), path)

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Write the file with the entry as declared."""
        await self.rewrite(ctx, self.edited)

    async def text(self, ctx: Context) -> str:
        """Return the text of the file; empty if it does not exist. Raises `Permanent` or `Temporary`."""
        path = await self.located(ctx)
        return await text_at(ctx, path, *found(path, follow=True))

    async def present(self, ctx: Context) -> State:
        """Return the present state of the entry. Raises `Permanent` or `Temporary`."""
        state: State = await computed(ctx, self.read, await self.text(ctx))
        return state

    async def rewrite(
        self, ctx: Context, change: Callable[[str], str], verify: Callable[[str], Awaitable[None]] | None = None
    ) -> None:
        """Replace the text of the file by the result of `change`, for one resource at a time.

        `verify` checks the complete new file before it is put in place; by default, the method of that name does.
        Raises `Permanent`, and `ChangedMeanwhile` if another program has changed the file since it was read.
        """
        path = await self.located(ctx)
        async with file_lock(path):
            place, seen = found(path, follow=True)
            text = await text_at(ctx, path, place, seen)
            new: str = await computed(ctx, change, text)
            if new == text and seen is not None:
                return
            if place is None or seen is None:
                owner = await self.owner_of_new(ctx)
                owner.demand(path)
                demand_reached(path, place, owner)
                demand_parent(path, makedirs=self.makes_parents, apply=True)
                mode, uid, gid = self.mode_of_new if owner.mode is None else owner.mode, owner.uid, owner.gid
                if place is None:
                    ctx.report.touched = True
                    make_parents(path, owner, passable(mode))
                    place = place_of(path)
            else:
                place.demand_own(seen, "edit")
                mode, uid, gid = stat.S_IMODE(seen.st_mode) & 0o777, seen.st_uid, seen.st_gid
            check = _checker(place, seen, verify or partial(self.verify, ctx))
            with os_errors("write", place.path):
                await ctx.write_file(place, encoded(new), mode=mode, uid=uid, gid=gid, check=check)
            if ctx.report.diff:  # another resource may have changed the file since the probe
                ctx.report.diff = unified(encoded(text), encoded(new), path)

    def watch(self, ctx: Context) -> Watch:
        """Watch the file and its parents."""
        return ctx.watch_path(self.file())

    def touches(self) -> tuple[Uid, ...]:
        """Return the path of the file."""
        return (("path", self.file()),)

    def offers(self) -> tuple[Uid, ...]:
        """Return nothing: no resource depends on an entry."""
        return ()

    def dependencies(self) -> tuple[Dependency, ...]:
        """Return the file, which another state may manage as a whole, and its directory."""
        return (Dependency("path", self.file(), vital=False), lies_in(self.file(), vital=False))


def _checker(
    place: Place, seen: os.stat_result | None, verify: Callable[[str], Awaitable[None]]
) -> Callable[[str], Awaitable[None]]:
    """Return the check of a new file that is to replace the file whose status `seen` is."""

    async def check(path: str) -> None:
        await verify(path)
        if identity(place.look()) != identity(seen):
            raise ChangedMeanwhile(f"cannot edit {place.path}: another program has changed the file during the edit")

    return check


async def text_at(ctx: Context, path: str, place: Place | None, seen: os.stat_result | None) -> str:
    """Return the text of a configuration file that `found` has found; empty if the file does not exist.

    Bytes that are not UTF-8 become surrogates. A file of root that others cannot read is refused if a user may have put
    a link to it there. Raises `Permanent` or `Temporary`.
    """
    if place is None or seen is None:
        return ""
    if not stat.S_ISREG(seen.st_mode):
        raise Permanent(f"cannot edit {path}: it is {what(seen.st_mode)}")
    of_root = seen.st_uid in trusted_uids()
    limit = LIMIT_OF_USERS if place.weakness(seen) else LIMIT
    if seen.st_size > limit:
        raise Permanent(f"cannot edit {path}: it has more than {limit >> 20} MB")
    with os_errors("read", path):
        data: bytes = await ctx.blocking(partial(place.read, limit, published=of_root, seen=seen))
    return decoded(data)


async def computed(ctx: Context, call: Callable[[str], Any], text: str) -> Any:
    """Return the result of a pure function of a text; for a large text, compute it in a thread."""
    return await ctx.long_blocking(call, text) if len(text) > LARGE else call(text)


def identity(seen: os.stat_result | None) -> tuple[int, ...] | None:
    """Return attributes of a file, at least one of which changes whenever the file changes."""
    return None if seen is None else (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)

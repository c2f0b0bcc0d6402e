"""One run that makes a directory like another: nothing outside of it can be reached, whatever links are put into it meanwhile."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from holdfast.resources.context import Context
from holdfast.resources.diff import LIMIT, unified
from holdfast.resources.errors import HoldfastError, Permanent
from holdfast.resources.kinds.file import trees
from holdfast.resources.kinds.file.base import Ownership, make_parents, put_link, status, telling, what
from holdfast.resources.kinds.file.content import decoded
from holdfast.resources.kinds.file.disk import DIFF_LIMIT, Look, back_up, difference, inherited, read
from holdfast.resources.kinds.file.sourcetree import Entry, by_directory

NEW_DIRECTORY, NEW_FILE = 0o755, 0o644
HIDDEN = "<show_changes=False>"


@dataclass(frozen=True, slots=True)
class Rules:
    """How the directory should be: where its files come from, whose they are, how they are made."""

    url: str
    directories: Ownership
    files: Ownership
    keep_mode: bool
    replace: bool
    force_links: bool
    back_up: bool
    show: bool
    variables: Mapping[str, Any] | None
    """Those of the templates; None: the files are none."""


class Mirror:
    """Makes `top` as it should be, or only tells what is not.

    `changes` are Salt's, by path. What goes wrong with one entry does not keep the others from being made; `fail` raises it.
    """

    def __init__(self, ctx: Context, rules: Rules, top: str, *, apply: bool) -> None:
        self.changes: dict[str, Any] = {}
        self.removed: list[str] = []
        """What is removed; in noop Salt's `changes` do not have it."""
        self._ctx, self._rules, self._top, self._apply = ctx, rules, top, apply
        self._diffs: list[str] = []
        self._errors: list[HoldfastError] = []
        self._failed: set[str] = set()
        """Entries that went wrong; what is in such a directory is not tried."""

    async def make(self, entries: Sequence[Entry]) -> None:
        """Make all entries, sorted by `read_tree`. Raises `Permanent` or `Temporary` when the directory itself cannot be."""
        self._make_top()
        for directory, inside in by_directory(entries):
            if directory in self._failed:
                self._failed |= {entry.inside for entry in inside}
                continue
            try:
                await self._make_in(directory, inside)
            except HoldfastError as error:
                self._errors.append(error)
                self._failed |= {entry.inside for entry in inside}

    def fail(self) -> None:
        """Raise the first error, if there was one, and say how many there were."""
        if self._errors:
            first, others = self._errors[0], len(self._errors) - 1
            raise type(first)(f"{first} (and {others} more)" if others else str(first))

    def diff(self) -> str:
        """The diffs of all files, cut to what a report may have."""
        text = "".join(self._diffs)
        return text if len(text) <= LIMIT else f"{text[:LIMIT]}\n[diff cut at {LIMIT} characters]\n"

    async def clean(self, entries: Sequence[Entry], exclude: Collection[str]) -> None:
        """Remove what is neither an entry, nor managed by others, nor excluded. Not done when something went wrong."""
        if self._errors or status(self._top) is None:
            return
        keep = {self._path(entry.inside) + ("/." if entry.is_directory else "") for entry in entries}
        extra = await self._ctx.blocking(trees.surplus, self._top, keep | set(self._ctx.managed_below(self._top)), exclude)
        self.removed = extra
        if extra and self._apply:
            self.changes["removed"] = extra
        for path in extra if self._apply else ():
            self._ctx.report.touched = True
            await self._ctx.blocking(trees.remove, path, self._top)

    # -- entries -----------------------------------------------------------------------------------------------

    def _path(self, inside: str) -> str:
        return f"{self._top}/{inside}" if inside else self._top

    def _make_top(self) -> None:
        seen, owner = status(self._top), self._rules.directories
        if seen is None and self._apply:
            owner.demand(self._top)
            self._ctx.report.touched = True
            make_parents(self._top, owner, NEW_DIRECTORY if owner.mode is None else owner.mode)
        with telling("make directory", self._top):
            self._directory(self._top, self._top, seen, None)

    async def _make_in(self, directory: str, entries: Sequence[Entry]) -> None:
        """Make the entries of one directory. Raises `Permanent` or `Temporary` when it cannot be opened."""
        path = self._path(directory)
        if not self._apply and status(path) is None:
            await self._make_all(entries, None)
            return
        with telling("look through", path), trees.opened(self._top, path) as descriptor:
            await self._make_all(entries, descriptor)

    async def _make_all(self, entries: Sequence[Entry], descriptor: int | None) -> None:
        """Make the entries of one directory, which is held open; None where it is not there, and is not to be made."""
        for entry in entries:
            await asyncio.sleep(0)  # others have their turn: there may be thousands
            try:
                with telling("put in place", self._path(entry.inside)):
                    await self._make(entry, descriptor)
            except HoldfastError as error:
                self._errors.append(error)
                self._failed.add(entry.inside)

    async def _make(self, entry: Entry, descriptor: int | None) -> None:
        path, name = self._path(entry.inside), entry.inside.rpartition("/")[2]
        seen = None
        if descriptor is not None:
            with suppress(FileNotFoundError):
                seen = os.lstat(name, dir_fd=descriptor)
        if entry.is_directory:
            self._directory(path, name, seen, descriptor)
        elif entry.target is not None:
            self._link(path, name, entry.target, seen, descriptor)
        else:
            await self._file(path, name, entry, seen, descriptor)

    def _directory(self, path: str, name: str, seen: os.stat_result | None, descriptor: int | None) -> None:
        owner = self._rules.directories
        if seen is not None and not stat.S_ISDIR(seen.st_mode):
            raise Permanent(
                f"cannot make directory {path}: {what(seen.st_mode)} is in the way, and links are not followed here; remove it first"
            )
        wrong: dict[str, Any] = {"directory": "new"} if seen is None else owner.wrong(seen)
        if not wrong:
            return
        self.changes[path] = wrong
        if self._apply:
            owner.demand(path)
            self._ctx.report.touched = True
            if seen is None:
                os.mkdir(name, 0o700, dir_fd=descriptor)
                owner = replace(owner, mode=NEW_DIRECTORY if owner.mode is None else owner.mode)
                seen = os.lstat(name, dir_fd=descriptor)
            owner.put(name, seen, dir_fd=descriptor)

    def _link(self, path: str, name: str, target: str, seen: os.stat_result | None, descriptor: int | None) -> None:
        owner = replace(self._rules.files, mode=None)
        change: dict[str, Any] = {}
        wrong: dict[str, str] = {}
        if seen is None:
            change = {"new": path}
        elif not stat.S_ISLNK(seen.st_mode):
            if not self._rules.force_links or stat.S_ISDIR(seen.st_mode):
                raise Permanent(
                    f"cannot link {path}: {what(seen.st_mode)} is in the way; remove it, or set force_symlinks: true for a file"
                )
            change = {"forced": f"{what(seen.st_mode)} in its place is removed", "new": path}
        elif os.readlink(name, dir_fd=descriptor) != target:
            change = {"new": path} if self._apply else {"change": path}
        else:
            wrong = owner.wrong(seen)
        if not change and not wrong:
            return
        self.changes[path] = {**change, **wrong}
        if self._apply:
            owner.demand(path)
            self._ctx.report.touched = True
            if change:
                put_link(name, target, dir_fd=descriptor)
            owner.put(name, os.lstat(name, dir_fd=descriptor), dir_fd=descriptor)

    async def _file(self, path: str, name: str, entry: Entry, seen: os.stat_result | None, descriptor: int | None) -> None:
        if seen is not None and not stat.S_ISREG(seen.st_mode):
            if not stat.S_ISLNK(seen.st_mode):
                raise Permanent(f"cannot manage {path} as a file: it is {what(seen.st_mode)}; remove it first")
            seen = None  # a link there is replaced
        owner = self._rules.files
        if self._rules.keep_mode:
            owner = replace(owner, mode=stat.S_IMODE(entry.mode))
        look = Look(path, seen, owner, None)
        reached = f"/proc/self/fd/{descriptor}/{name}"  # no link on the way to it can lead elsewhere
        if seen is None or self._rules.replace:
            look.wanted = await self._content(entry, path)
            await self._compare(look, reached)
        wrong = owner.wrong(seen) if seen is not None else {}
        if seen is not None and not look.differs and not wrong:
            return
        self._tell(look, wrong)
        if self._apply and seen is not None and not look.differs:
            owner.demand(path)
            self._ctx.report.touched = True
            owner.put(name, seen, dir_fd=descriptor)
        elif self._apply:
            await self._write(look, reached)

    async def _content(self, entry: Entry, path: str) -> bytes:
        url = f"{self._rules.url}/{entry.inside}"
        data = await self._ctx.source(url)
        if self._rules.variables is None:
            return data
        user, group = self._rules.files.user, self._rules.files.group
        variables = {"source": url, "name": path, "user": user, "group": group, "saltenv": "base", **self._rules.variables}
        return self._ctx.render(decoded(data, url), name=url, variables=variables).encode()

    async def _compare(self, look: Look, reached: str) -> None:
        if look.seen is None or look.wanted is None:
            return
        if look.seen.st_size != len(look.wanted) and look.seen.st_size > DIFF_LIMIT:
            look.differs = True
            return
        look.old = await read(self._ctx, reached, look.seen.st_size)
        look.differs = look.old != look.wanted

    def _tell(self, look: Look, wrong: dict[str, str]) -> None:
        if look.seen is None:
            self._diffs.append(unified(b"", look.wanted or b"", look.path))
            mode = NEW_FILE if look.owner.mode is None else look.owner.mode
            self.changes[look.path] = {"diff": "New file", "mode": f"{mode:04o}"} if self._apply else {"newfile": look.path}
        elif look.differs:
            diff = difference(look)
            self._diffs.append(diff)
            self.changes[look.path] = {"diff": diff if self._rules.show else HIDDEN, **wrong}
        else:
            self.changes[look.path] = wrong

    async def _write(self, look: Look, reached: str) -> None:
        seen, owner = look.seen, look.owner
        owner.demand(look.path)
        self._ctx.report.touched = True
        if seen is not None and self._rules.back_up:
            await self._ctx.blocking(back_up, reached, str(self._ctx.var_dir))
        mode = owner.mode if owner.mode is not None else stat.S_IMODE(seen.st_mode) if seen is not None else NEW_FILE
        uid, gid = inherited(owner, seen)
        await self._ctx.write_file(reached, look.wanted or b"", mode=mode, uid=uid, gid=gid)

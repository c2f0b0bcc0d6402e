"""One run that makes a directory equal to another, without following links that a user puts there during the run."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from holdfast.resources import paths
from holdfast.resources.context import Context
from holdfast.resources.diff import LIMIT, hidden, unified
from holdfast.resources.errors import HoldfastError, Permanent
from holdfast.resources.kinds.file import removal, trees
from holdfast.resources.kinds.file.base import (
    NEW_DIRECTORY,
    NEW_FILE,
    Ownership,
    found,
    make_parents,
    os_errors,
    put_link,
    status,
)
from holdfast.resources.kinds.file.content import decoded
from holdfast.resources.kinds.file.disk import (
    FileComparison,
    attributes_of_new,
    back_up,
    compare,
    difference,
    effective_owner,
    read,
)
from holdfast.resources.kinds.file.sourcetree import SourceEntry, by_directory
from holdfast.resources.paths import Place, SafeDirectory, Unsafe
from holdfast.resources.paths.handle import what


@dataclass(frozen=True, slots=True)
class DirectoryRules:
    """The rules for one directory: the sources of its files, their owners and modes, and how to write them."""

    url: str
    directories: Ownership
    files: Ownership
    keep_mode: bool
    replace: bool
    force_links: bool
    back_up: bool
    show: bool | None
    variables: Mapping[str, Any] | None
    """Variables of the templates; None if the files are not templates."""


def without_frames(error: HoldfastError) -> HoldfastError:
    """Return the error without its traceback, which would keep descriptors open."""
    return type(error)(str(error))


class Mirror:
    """Makes the directory `top` equal to its source or, without `apply`, only finds the differences.

    `changes` are Salt's changes by path. An error of one entry does not stop the others; `fail` raises it at the end.
    """

    def __init__(self, ctx: Context, rules: DirectoryRules, top: str, *, apply: bool) -> None:
        self.changes: dict[str, Any] = {}
        self.removed: list[str] = []
        """Removed paths; in noop Salt's `changes` do not list them."""
        self._new: set[str] = set()
        """Types of created entries: "directories", "files", "links"."""
        self._ctx, self._rules, self._top, self._apply = ctx, rules, top, apply
        self._diffs: list[str] = []
        self._errors: list[HoldfastError] = []
        self._failed: set[str] = set()
        """Entries that had an error; the content of such a directory is skipped."""

    async def make(self, entries: Sequence[SourceEntry]) -> None:
        """Create or repair all entries, which `read_tree` has sorted.

        Raises `Permanent` or `Temporary` if the directory itself cannot be created.
        """
        self._make_top()
        for directory, inside in by_directory(entries):
            if directory in self._failed:
                self._failed |= {entry.inside for entry in inside}
                continue
            try:
                await self._make_in(directory, inside)
            except HoldfastError as error:
                self._errors.append(without_frames(error))
                self._failed |= {entry.inside for entry in inside}

    def fail(self) -> None:
        """Raise the first error, if any, with the number of the others."""
        if self._errors:
            first, others = self._errors[0], len(self._errors) - 1
            raise type(first)(f"{first} (and {others} more)" if others else str(first))

    def diff(self) -> str:
        """Return the diffs of all files, cut off at the limit of a report."""
        text = "".join(self._diffs)
        return text if len(text) <= LIMIT else f"{text[:LIMIT]}\n[diff cut at {LIMIT} characters]\n"

    def of_new(self) -> str:
        """Return the modes and owner of new entries for a plan; empty if there are none."""
        files = self._rules.files
        modes = "the modes of their sources" if self._rules.keep_mode else files.mode_of_new(NEW_FILE)
        words = {
            "directories": f"directories with {self._rules.directories.mode_of_new(NEW_DIRECTORY)}",
            "files": f"files with {modes}",
            "links": "links",
        }
        told = ", ".join(word for new, word in words.items() if new in self._new)
        return f"; new {told}, {files.owner_of_new()}" if told else ""

    async def clean(self, entries: Sequence[SourceEntry], exclude: Collection[str]) -> None:
        """Remove paths that are neither entries nor managed by other states nor excluded; do nothing after an error."""
        if self._errors or status(self._top) is None:
            return
        keep = {self._path(entry.inside) + ("/." if entry.is_directory else "") for entry in entries}
        with os_errors("walk", self._top):
            inside = self._inside()
        extra = await self._ctx.long_blocking(
            trees.surplus, inside, keep | set(self._ctx.managed_below(self._top)), exclude
        )
        if not self._apply:
            self.removed = extra
            return
        for path in extra:
            self._ctx.report.touched = True
            await self._ctx.long_blocking(removal.remove_below, inside, path)
            self.removed.append(path)
            self.changes["removed"] = self.removed

    # -- entries -----------------------------------------------------------------------------------------------

    def _path(self, inside: str) -> str:
        return f"{self._top}/{inside}" if inside else self._top

    def _inside(self) -> SafeDirectory:
        """Open the directory itself. Raises `OSError`, and `Unsafe` if a user may have moved it there."""
        place = paths.at(self._top)
        inside = place.enter()
        place.demand_own(inside.info, "walk")
        return replace(inside, path=self._top)

    def _make_top(self) -> None:
        seen, owner = status(self._top), self._rules.directories
        if seen is None and self._apply:
            owner.demand(self._top)
            self._ctx.report.touched = True
            make_parents(self._top, owner, owner.mode)
        with os_errors("make directory", self._top):
            self._directory(self._top, paths.at(self._top) if self._apply else found(self._top)[0], seen)

    async def _make_in(self, directory: str, entries: Sequence[SourceEntry]) -> None:
        """Create or repair the entries of one directory. Raises `Permanent` or `Temporary` if it cannot be opened."""
        path = self._path(directory)
        if not self._apply and status(path) is None:
            await self._make_all(entries, None)
            return
        with os_errors("walk", path):
            inside = trees.reach(self._inside(), f"{path}/.")
            if inside is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        await self._make_all(entries, inside.directory)

    async def _make_all(self, entries: Sequence[SourceEntry], inside: SafeDirectory | None) -> None:
        """Create or repair the entries of one open directory; None if it does not exist and is not created."""
        for entry in entries:
            await asyncio.sleep(0)  # let other tasks run: there may be thousands of entries
            try:
                with os_errors("put in place", self._path(entry.inside)):
                    await self._make(entry, inside)
            except HoldfastError as error:
                self._errors.append(without_frames(error))
                self._failed.add(entry.inside)

    async def _make(self, entry: SourceEntry, inside: SafeDirectory | None) -> None:
        path, name = self._path(entry.inside), entry.inside.rpartition("/")[2]
        place = None if inside is None else inside.entry(name)
        seen = None if place is None else place.look()
        if entry.is_directory:
            self._directory(path, place, seen)
        elif entry.target is not None:
            await self._link(path, place, entry.target, seen)
        else:
            await self._file(path, place, entry, seen)

    def _directory(self, path: str, place: Place | None, seen: os.stat_result | None) -> None:
        owner = self._rules.directories
        if seen is not None and not stat.S_ISDIR(seen.st_mode):
            raise Permanent(
                f"cannot make directory {path}: {what(seen.st_mode)} is in the way, and links are not followed here; "
                "remove it first"
            )
        wrong: dict[str, Any] = {"directory": "new"} if seen is None else owner.wrong(seen)
        if not wrong:
            return
        if seen is None and place is not None:
            self._demand_owner(place, owner)
        if self._apply and place is not None:
            owner.demand(path)
            self._ctx.report.touched = True
            if seen is None:
                owner.make(place)
            else:
                owner.put(place, seen)
        self.changes[path] = wrong
        if seen is None:
            self._new.add("directories")

    @staticmethod
    def _demand_owner(place: Place, owner: Ownership) -> None:
        """Raise `Unsafe` for a new directory that could not be entered because another user owns its parent."""
        if place.directory.holders and owner.uid not in place.directory.holders:
            raise Unsafe(
                f"cannot make directory {place.path}: {place.directory.reason}; declare that user as the owner: "
                "that user could otherwise replace the directory"
            )

    async def _link(self, path: str, place: Place | None, target: str, seen: os.stat_result | None) -> None:
        owner = self._rules.files._replace(mode=None)
        change = self._link_change(path, place, target, seen)
        wrong = {} if change else owner.wrong(seen)
        if not change and not wrong:
            return
        if self._apply and place is not None:
            owner.demand(path)
            self._ctx.report.touched = True
            if change or seen is None or place.refusal(seen):
                await self._ctx.blocking(put_link, place, target, owner)
            else:
                owner.put(place, seen)
        self.changes[path] = {**change, **wrong}
        if seen is None or not stat.S_ISLNK(seen.st_mode):
            self._new.add("links")

    def _link_change(self, path: str, place: Place | None, target: str, seen: os.stat_result | None) -> dict[str, Any]:
        """Return Salt's `changes` for a link without its owner; empty if it has this target. Raises `Permanent`."""
        if place is None or seen is None:
            return {"new": path}
        if not stat.S_ISLNK(seen.st_mode):
            if not self._rules.force_links or stat.S_ISDIR(seen.st_mode):
                raise Permanent(
                    f"cannot link {path}: {what(seen.st_mode)} is in the way; remove it, or set force_symlinks: "
                    "true for a file"
                )
            return {"forced": f"{what(seen.st_mode)} in its place is removed", "new": path}
        if place.readlink() != target:
            return {"new": path} if self._apply else {"change": path}
        return {}

    async def _file(self, path: str, place: Place | None, entry: SourceEntry, seen: os.stat_result | None) -> None:
        if seen is not None and not stat.S_ISREG(seen.st_mode):
            if not stat.S_ISLNK(seen.st_mode):
                raise Permanent(f"cannot manage {path} as a file: it is {what(seen.st_mode)}; remove it first")
            seen = None  # a link is replaced
        owner = self._rules.files
        if self._rules.keep_mode:
            owner = owner._replace(mode=stat.S_IMODE(entry.mode))
        owner = effective_owner(owner, place, seen)
        comparison = FileComparison(path, place, seen, owner)
        if seen is None or self._rules.replace:
            comparison.wanted = await self._content(entry, path)
            await compare(self._ctx, comparison, comparison.wanted)
            seen = comparison.seen
        wrong = owner.wrong(seen)
        if seen is not None and not comparison.differs and not wrong:
            return
        if self._apply and place is not None:
            await self._repair(comparison, place)
        self._report(comparison, wrong)

    async def _repair(self, comparison: FileComparison, place: Place) -> None:
        """Write a file, or only change its owner and mode if that suffices."""
        owner, seen = comparison.owner, comparison.seen
        owner.demand(comparison.path)
        self._ctx.report.touched = True
        if seen is not None and not comparison.differs and not comparison.needs_new_file():
            owner.put(place, seen)
        else:
            await self._write(comparison, place)

    async def _content(self, entry: SourceEntry, path: str) -> bytes:
        url = f"{self._rules.url}/{entry.inside}"
        data = await self._ctx.source(url, trusted=self._rules.variables is not None)
        if self._rules.variables is None:
            return data
        user, group = self._rules.files.user, self._rules.files.group
        variables = {
            "source": url,
            "name": path,
            "user": user,
            "group": group,
            "saltenv": "base",
            **self._rules.variables,
        }
        return self._ctx.render(decoded(data, url), name=url, variables=variables).encode()

    def _report(self, comparison: FileComparison, wrong: dict[str, str]) -> None:
        instead = hidden(
            self._rules.show, None if comparison.seen is None else comparison.seen.st_mode, comparison.owner.mode
        )
        if comparison.seen is None:
            self._new.add("files")
            self._diffs.append("" if instead else unified(b"", comparison.wanted or b"", comparison.path))
            mode = NEW_FILE if comparison.owner.mode is None else comparison.owner.mode
            self.changes[comparison.path] = (
                {"diff": "New file", "mode": f"{mode:04o}"} if self._apply else {"newfile": comparison.path}
            )
        elif comparison.differs:
            diff = difference(comparison)
            self._diffs.append("" if instead else diff)
            self.changes[comparison.path] = {"diff": instead or diff, **wrong}
        else:
            self.changes[comparison.path] = wrong

    async def _write(self, comparison: FileComparison, place: Place) -> None:
        if comparison.wanted is None and comparison.seen is not None:
            comparison.demand_givable()
            comparison.wanted = await read(self._ctx, place, comparison.seen)
        if comparison.seen is not None and self._rules.back_up:
            await self._ctx.blocking(back_up, place, str(self._ctx.var_dir))
        uid, gid, mode = attributes_of_new(comparison, NEW_FILE)
        await self._ctx.write_file(place, comparison.wanted or b"", mode=mode, uid=uid, gid=gid)

"""`file.directory`: a directory with owner and mode and, if declared, those of its content."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

from pydantic import model_validator

from holdfast.resources import fields, paths
from holdfast.resources.assignment import announced
from holdfast.resources.context import Context, Watch
from holdfast.resources.effects import Effect, EffectVerb, further
from holdfast.resources.errors import Permanent
from holdfast.resources.fields import Given, Mode
from holdfast.resources.kinds.file import removal, trees
from holdfast.resources.kinds.file.base import (
    NEW_DIRECTORY,
    WINDOWS,
    OwnedResource,
    Ownership,
    PathResource,
    demand_parent,
    found,
    make_parents,
    note,
    octal,
    os_errors,
    ownership,
    place_of,
    status,
)
from holdfast.resources.kinds.file.before import before
from holdfast.resources.paths import Place, Unsafe
from holdfast.resources.paths import SafeDirectory as Inside
from holdfast.resources.paths.handle import what
from holdfast.resources.traits import Declaration, Reversible

REMOVED = {"removed": "Removed due to clean"}


@dataclass(slots=True)
class _DirectoryRun:
    """One run: the differences, and which of them are reported."""

    owner: Ownership
    place: Place | None
    seen: os.stat_result | None
    """Status of the directory; None if it does not exist or something is in its way."""
    inside: Inside | None
    """The open directory, once it exists."""
    wrong: dict[str, str]
    """Differences in owner and mode."""
    forced: dict[str, Any]
    """Salt's `changes` for the entry that a new directory replaces."""
    reported: bool
    """Whether to report the differences of the directory itself: in noop, and after its repair."""
    removed: dict[str, Any] = field(default_factory=dict)
    below: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def own(self) -> dict[str, Any]:
        """Salt's `changes` for the directory itself."""
        return {"directory": "new"} if self.seen is None else dict(self.wrong)


class Directory(Reversible, OwnedResource, kind="file.directory"):
    """A directory.

    /srv/www:
      file.directory:
        - user: www-data
        - mode: '0750'
        - makedirs: true
    """

    ignored: ClassVar[Mapping[str, str]] = {
        "children_only": "the directory itself is always managed",
        **WINDOWS,
    }

    mode: Mode | None = None
    """Mode of the directory (same as dir_mode). Default: unchanged, 0755 for a new directory."""
    dir_mode: Mode | None = None
    """Mode of the directory, of parents that `makedirs` creates and, with `recurse: [mode]`, of directories below."""
    file_mode: Mode | None = None
    """Mode of files below, with `recurse: [mode]`. Default: the mode of directories."""
    recurse: tuple[Literal["user", "group", "mode", "ignore_files", "ignore_dirs", "silent"], ...] = ()
    """What to apply to everything below the directory, too."""
    max_depth: int | None = fields.field(None, ge=0)
    """Levels below the directory that `recurse` reaches; 0: none, 1: only its own entries."""
    clean: bool = False
    """Remove all content that no state manages."""
    exclude_pat: trees.Patterns = ()
    """Paths that `clean` and `recurse` skip: globs of the path below, or `E@` and a regular expression."""
    force: bool = False
    """Remove a file or link that is in the way."""
    backupname: Given | None = None
    """Rename a file or link that is in the way to this path."""
    allow_symlink: bool = True
    """Accept a link to a directory."""
    follow_symlinks: bool = False
    """If the path is a link to a directory, manage the owner and mode of the target. Links below are never followed."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if "mode" in self.recurse and not (self.file_mode or self.mode or self.dir_mode):
            raise ValueError("recurse: [mode] needs mode, dir_mode or file_mode")
        for word in ("user", "group"):
            if word in self.recurse and getattr(self, word) is None:
                raise ValueError(f"recurse: [{word}] needs {word}")
        if self.backupname is not None and not self.backupname.startswith("/"):
            raise ValueError("backupname must be an absolute path")
        return self

    def refuses(self, part: PathResource) -> str | None:
        """Return why an edit contradicts a directory: only files can be edited."""
        return self.cmp(part)

    def watch(self, ctx: Context) -> Watch:
        """Watch the directory and, if the state manages it, its content."""
        return ctx.watch_path(self.name, recursive=bool(self.recurse) or self.clean)

    async def inverse(self, ctx: Context) -> Declaration | None:
        """Return a declaration of the owner and mode; for a missing directory, one that removes it if it is empty."""
        if status(self.name) is None:
            return Declaration("file.pruned", {"name": self.name, "if_empty": True})
        return None if self.clean else await before(ctx, self.name)

    @announced
    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Probe and repair the directory itself, then its content."""
        run = await self._probe(ctx, apply=apply)

        async def account() -> None:
            self._report(ctx, run, apply=apply)

        ctx.report.account = account if apply else None
        if apply and run.own:
            await self._repair(ctx, run)
        if run.inside is not None:
            await self._below(ctx, run.inside, run.removed, run.below, apply=apply)
        if not (run.own or run.removed or run.below):
            ctx.report.comment = f"{self.name} is as declared"
            return True
        self._report(ctx, run, apply=apply)
        return False

    async def _probe(self, ctx: Context, *, apply: bool) -> _DirectoryRun:
        """Find the differences of the directory itself. Raises `Permanent` and `Unsafe`."""
        owner = await ownership(ctx, self.user, self.group, octal(self.mode or self.dir_mode))
        place, seen = self._seen()
        if place is None or seen is None:
            return _DirectoryRun(owner, place, None, None, {}, self._forced(apply=apply), reported=not apply)
        wrong = owner.wrong(seen) if self.follow_symlinks or not self._is_link() else {}
        inside = self._enter(place)
        if wrong:
            place.demand_own(seen, "change owner or mode of")
        if apply and wrong and inside.holders and self.recurse:
            # An entry that is refused must not get a new owner together with the directory.
            await self._below(ctx, inside, {}, {}, apply=False)
        return _DirectoryRun(owner, place, seen, inside, wrong, {}, reported=not apply)

    def _is_link(self) -> bool:
        there = status(self.name)
        return there is not None and stat.S_ISLNK(there.st_mode)

    async def _repair(self, ctx: Context, run: _DirectoryRun) -> None:
        """Create the directory, or change its owner and mode."""
        run.owner.demand(self.name)
        await ctx.assignment.announce()
        ctx.report.touched = True
        if run.place is not None and run.seen is not None:
            with os_errors("change owner or mode of", self.name):
                run.owner.put(run.place, run.seen)
        else:
            if status(self.name) is not None:
                await ctx.blocking(self._make_way)
            run.inside = self._make(run.owner)
        run.reported = True

    def _report(self, ctx: Context, run: _DirectoryRun, *, apply: bool) -> None:
        """Report the changes so far; without `apply`, those that a run would make."""
        done = run.own if run.reported else {}
        changes = ({**run.forced, self.name: done} if done else {}) | run.below | run.removed
        if apply:
            for one in (*run.below.values(), run.wrong if done else {}):
                changes |= one
            changes |= {"removed": [*run.removed]} if run.removed else {}
        parts = [*run.wrong] if done else []
        new = run.seen is None and bool(done)
        foreseen = run.owner.of_new(NEW_DIRECTORY) if new and not apply else ""
        effect = self._effect(parts, len(run.removed), len(run.below), apply=apply, new=new)
        note(ctx, changes, effect._replace(detail=foreseen + effect.detail), applied=apply)

    def _forced(self, *, apply: bool) -> dict[str, Any]:
        """Return Salt's `changes` for the file that a new directory replaces."""
        seen = status(self.name)
        if seen is None:
            return {}
        if not self.backupname:
            return {"forced": f"{what(seen.st_mode)} in its place is removed"}
        return {} if apply else {"backup": f"{what(seen.st_mode)} in its place is renamed to {self.backupname}"}

    def _seen(self) -> tuple[Place | None, os.stat_result | None]:
        """Return the directory, or the target of a link that may be followed.

        The status is None if there is no directory, or if the state may remove the file in its place. Raises
        `Permanent`.
        """
        place, seen = found(self.name)
        if seen is None or stat.S_ISDIR(seen.st_mode):
            return place, seen
        kind = what(seen.st_mode)
        if stat.S_ISLNK(seen.st_mode):
            led, end = self._led()
            if led is not None and end is not None and stat.S_ISDIR(end.st_mode) and self.allow_symlink:
                return led, end
            kind = "a dangling link" if end is None else kind
        if self.force or self.backupname:
            return place, None
        raise Permanent(f"cannot make directory {self.name}: {kind} is in the way; remove it, or set force: true")

    def _led(self) -> tuple[Place | None, os.stat_result | None]:
        """Return the target of a link.

        A link that another user could exploit is not followed but counts as being in the way. Raises `Unsafe` if it
        must not be removed.
        """
        try:
            return found(self.name, follow=True)
        except Unsafe:
            if self.force or self.backupname:
                return None, None
            raise

    def _enter(self, place: Place) -> Inside:
        """Open the directory before it is changed."""
        with os_errors("walk", self.name):
            inside = replace(place.enter(), path=self.name)
        if self.recurse or self.clean:
            place.demand_own(inside.info, "walk")
        return inside

    def _make(self, owner: Ownership) -> Inside:
        """Create the directory and its parents."""
        demand_parent(self.name, makedirs=self.makedirs, apply=True)
        if self.makedirs:
            make_parents(self.name, owner, owner.mode)
        place = place_of(self.name)
        with os_errors("make directory", self.name):
            owner.make(place)
        return self._enter(place)

    def _make_way(self) -> None:
        """Remove or rename the file or link that is in the way. Blocks."""
        place, seen = found(self.name)
        if place is None or seen is None:
            return
        if self.backupname:
            with os_errors(f"rename to {self.backupname}", self.name):
                place.rename(paths.at(self.backupname))
        else:
            removal.remove(place)

    async def _below(
        self, ctx: Context, inside: Inside, removed: dict[str, Any], found: dict[str, dict[str, str]], *, apply: bool
    ) -> None:
        """Clean and repair the content of the directory; without `apply`, only find what would change.

        Adds removed entries to `removed` and the differences of other entries, by path, to `found`.
        """
        if self.clean:
            await self._clean(ctx, inside, removed, apply=apply)
        if self.recurse:
            await self._recurse(ctx, inside, found, apply=apply)
            gone = tuple(f"{path}/" for path in removed)
            for path in [path for path in found if f"{path}/".startswith(gone)]:
                del found[path]

    async def _clean(self, ctx: Context, inside: Inside, removed: dict[str, Any], *, apply: bool) -> None:
        extra = await ctx.long_blocking(trees.surplus, inside, ctx.managed_below(self.name), self.exclude_pat)
        told = await ctx.long_blocking(trees.whole, inside, extra)
        for path in extra if apply else ():
            await ctx.assignment.announce()
            ctx.report.touched = True
            await ctx.long_blocking(removal.remove_below, inside, path)
            removed[path] = REMOVED
        removed.clear()
        removed |= dict.fromkeys(told, REMOVED)  # with the content of removed directories

    async def _recurse(self, ctx: Context, inside: Inside, found: dict[str, dict[str, str]], *, apply: bool) -> None:
        rules = await self._rules(ctx)
        if apply:
            for owner in (rules.directories, rules.others):
                if owner is not None:
                    owner.demand(self.name)
            await ctx.assignment.announce()
        try:
            await ctx.long_blocking(lambda: trees.repair_tree(inside, rules, found, apply=apply))
        finally:  # a failed repair may have changed something
            ctx.report.touched = ctx.report.touched or (apply and bool(found))

    async def _rules(self, ctx: Context) -> trees.Recursion:
        user = self.user if "user" in self.recurse else None
        group = self.group if "group" in self.recurse else None
        by_mode = "mode" in self.recurse
        directories = await ownership(ctx, user, group, octal(self.dir_mode or self.mode) if by_mode else None)
        others = await ownership(
            ctx, user, group, octal(self.file_mode or self.dir_mode or self.mode) if by_mode else None
        )
        return trees.Recursion(
            None if "ignore_dirs" in self.recurse else directories,
            None if "ignore_files" in self.recurse else others,
            self.max_depth,
            self.exclude_pat,
        )

    def _effect(self, parts: list[str], removed: int, below: int, *, apply: bool, new: bool) -> Effect:
        """Return the effect on the directory itself or, if that does not differ, on its content."""
        effects: list[tuple[EffectVerb, str]] = []
        if new or parts:
            effects.append(("create", "") if new else ("change", " and ".join(parts)))
        if removed:
            effects.append(("remove", f"{removed} entries"))
        if below:
            effects.append(("change", f"owner or mode of {below} entries"))
        (verb, of), *more = effects
        return Effect((verb,), self.name, of, "".join(further(*each, applied=apply) for each in more))

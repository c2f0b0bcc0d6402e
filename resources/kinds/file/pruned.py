"""`file.pruned`: the removal of a directory that contains no files."""

from __future__ import annotations

import os
import posixpath
import stat
import time
from dataclasses import replace
from typing import ClassVar

from holdfast.resources.context import Context
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.errors import Permanent
from holdfast.resources.fields import field
from holdfast.resources.kinds.file import trees
from holdfast.resources.kinds.file.base import PathResource, found, note, os_errors
from holdfast.resources.paths import Place, SafeDirectory

DAY = 86400
"""Seconds in a day."""


class Pruned(PathResource, kind="file.pruned"):
    """An empty directory is removed; with `recurse`, also a directory that contains only empty directories.

    The state fails if the directory contains files.

    /srv/incoming:
      file.pruned:
        - recurse: true
    """

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("remove",)
    removes: ClassVar[bool] = True

    recurse: bool = False
    """Remove empty directories below the path, too."""
    ignore_errors: bool = False
    """Remove empty directories below the path and ignore others; implies `recurse`."""
    older_than: float | None = field(None, unit="days", ge=0)
    """Remove only directories to which nothing was added, and from which nothing was removed, for this many days."""
    if_empty: bool = False
    """Accept a directory that is not empty."""

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Find empty directories and remove them."""
        place, seen = found(self.name)
        if place is None or seen is None or not stat.S_ISDIR(seen.st_mode):
            ctx.report.comment = f"{self.name} is not a directory"
            return True
        empty = await ctx.long_blocking(self._empty, place)
        if self.name not in empty and self.if_empty:
            ctx.report.comment = f"{self.name} is kept: it is not empty"
            return True
        self._demand_removable(empty)
        if apply:
            ctx.report.touched = True
            await ctx.long_blocking(_remove, place, empty)
        parts = "" if self.name in empty else f"{len(empty)} empty directories"
        changes = {"deleted": empty if self.recurse or self.ignore_errors else self.name}
        note(ctx, changes, Effect(("remove",), self.name, parts), applied=apply)
        return False

    def _demand_removable(self, empty: list[str]) -> None:
        """Raise `Permanent` if the directory is not empty, unless errors are ignored and it has empty directories."""
        if self.name not in empty and not (self.ignore_errors and empty):
            young = "" if self.older_than is None else ", or too young"
            raise Permanent(f"cannot remove directory {self.name}: it is not empty{young}")

    def _empty(self, place: Place) -> list[str]:
        """Return the sorted directories, including the top, that contain only empty directories.

        Blocks. Raises `Permanent` or `Temporary`.
        """
        with os_errors("walk", self.name):
            top = _enter(place)
            if not (self.recurse or self.ignore_errors):
                return [self.name] if next(top.names(), None) is None and self._old(top.info) else []
            full: set[str] = set()
            empty = []
            for each, seen in (*trees.below(top), (place, top.info)):  # a directory comes after its content
                if stat.S_ISDIR(seen.st_mode) and each.path not in full and self._old(seen):
                    empty.append(each.path)
                else:
                    full.add(posixpath.dirname(each.path))
            return sorted(empty)

    def _old(self, seen: os.stat_result) -> bool:
        return not self.older_than or seen.st_mtime < time.time() - self.older_than * DAY


def _enter(place: Place) -> SafeDirectory:
    """Open the directory. Raises `OSError`, and `Unsafe` if a user may have moved another owner's directory there."""
    inside = place.enter()
    place.demand_own(inside.info, "walk")
    return replace(inside, path=place.path)


def _remove(top: Place, empty: list[str]) -> None:
    """Remove directories at and below a place, innermost first. Blocks. Raises `Permanent` or `Temporary`."""
    with os_errors("remove", top.path):
        inside = _enter(top)
        for path in reversed(empty):
            place = top if path == top.path else trees.reach(inside, path)
            if place is not None:
                place.rmdir()

"""`file.pruned`: no directory at a path, if nothing would be lost with it."""

from __future__ import annotations

import os
import stat
import time

from holdfast.resources.context import Context
from holdfast.resources.errors import Permanent
from holdfast.resources.fields import field
from holdfast.resources.kinds.file.base import PathResource, note, status

DAY = 86400
"""Seconds."""


class Pruned(PathResource, kind="file.pruned"):
    """A directory that is empty, or with `recurse` holds nothing but empty directories, is removed. One with files in it is an error.

    /srv/incoming:
      file.pruned:
        - recurse: true
    """

    recurse: bool = False
    """Remove empty directories below it, too."""
    ignore_errors: bool = False
    """Remove what is empty below it, and leave the rest without complaint; implies `recurse`."""
    older_than: float | None = field(None, ge=0)
    """Only directories in which nothing was added or removed for so many days."""
    if_empty: bool = False
    """One with something in it is right as it is."""

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Look what is empty, and remove that."""
        seen = status(self.name)
        if seen is None or not stat.S_ISDIR(seen.st_mode):
            ctx.report.comment = f"{self.name} is no directory"
            return True
        empty = await ctx.blocking(self._empty)
        if self.name not in empty:
            if self.if_empty:
                ctx.report.comment = f"{self.name} stays: it is not empty"
                return True
            if not (self.ignore_errors and empty):
                raise Permanent(
                    f"cannot remove directory {self.name}: it is not empty{'' if self.older_than is None else ', or too young'}"
                )
        if apply:
            ctx.report.touched = True
            empty = await ctx.blocking(_remove, empty)
        done = f"removed {self.name}" if self.name in empty else f"removed {len(empty)} empty directories below {self.name}"
        note(ctx, {"deleted": empty if self.recurse or self.ignore_errors else self.name}, done if apply else f"would have {done}")
        return False

    def _empty(self) -> list[str]:
        """Directories that hold nothing but such, sorted, the directory itself among them if it is one. Blocks."""
        if not (self.recurse or self.ignore_errors):
            return [self.name] if not os.listdir(self.name) and self._old(self.name) else []  # noqa: PTH208 - Path objects are slow
        empty: set[str] = set()
        for path, directories, files in os.walk(self.name, topdown=False):
            below = {os.path.join(path, directory) for directory in directories}  # noqa: PTH118 - the same
            if not files and below <= empty and self._old(path):
                empty.add(path)
        return sorted(empty)

    def _old(self, path: str) -> bool:
        return not self.older_than or os.stat(path).st_mtime < time.time() - self.older_than * DAY  # noqa: PTH116 - the same


def _remove(paths: list[str]) -> list[str]:
    """Remove them, the innermost first. Returns those that are gone. Blocks. Raises `OSError`."""
    for path in reversed(paths):
        os.rmdir(path)  # noqa: PTH106 - Path objects are slow
    return paths

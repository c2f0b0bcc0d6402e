"""`file.symlink`: a symbolic link."""

from __future__ import annotations

import os
import posixpath
import stat
from typing import Any

from holdfast.resources.context import Context, announced
from holdfast.resources.errors import Permanent
from holdfast.resources.fields import Mode, field
from holdfast.resources.kinds.file import trees
from holdfast.resources.kinds.file.base import OwnedResource, demand_parent, make_parents, note, ownership, put_link, status, telling, what
from holdfast.resources.kinds.file.before import before
from holdfast.resources.needs import Need
from holdfast.resources.traits import Declaration, Reversible


class Symlink(Reversible, OwnedResource, kind="file.symlink"):
    """A symbolic link, replaced atomically when it leads elsewhere.

    /etc/localtime:
      file.symlink:
        - target: /usr/share/zoneinfo/Europe/Berlin
    """

    target: str = field(min_length=1)
    """Where it leads, verbatim; need not exist."""
    force: bool = False
    """Remove a file or directory that is in the way."""
    backupname: str | None = None
    """Rename what is in the way to this instead; a plain name is taken to be beside the link."""
    mode: Mode | None = None
    """Mode of directories made for `makedirs`; links themselves have none."""
    follow_symlinks: bool = True
    """Accepted for Salt's sake: the link itself is managed, never what it leads to."""

    async def inverse(self, ctx: Context) -> Declaration | None:
        """What is there now; not a directory that `force` removes."""
        return None if self.force and os.path.isdir(self.name) and not os.path.islink(self.name) else await before(ctx, self.name)  # noqa: PTH112, PTH114 - Path objects are slow

    def needs(self) -> tuple[Need, ...]:
        """What any file needs, and what it leads to: who goes through it wants that to be there."""
        own = super().needs()
        return (*own, Need("path", posixpath.normpath(self.target), vital=False)) if self.target.startswith("/") else own

    @announced
    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Where it leads first, then its owner."""
        owner = await ownership(ctx, self.user, self.group)
        seen = status(self.name)
        changes: dict[str, Any] = self._wrong_target(seen)
        wrong = owner.wrong(seen) if seen is not None and stat.S_ISLNK(seen.st_mode) else {}
        if not changes and not wrong:
            ctx.report.comment = f"{self.name} leads to {self.target}"
            return True
        if apply:
            owner.demand(self.name)
            demand_parent(self.name, makedirs=self.makedirs, apply=True)
            await ctx.report.announce()
            ctx.report.touched = True
            if changes:
                if self.makedirs:
                    make_parents(self.name, owner, int(self.dir_mode or self.mode or "0755", 8))
                await ctx.blocking(self._make_way)
                with telling("link", self.name):
                    put_link(self.name, self.target)
            with telling("change owner of", self.name):
                owner.put(self.name, os.lstat(self.name))
        done = f"linked {self.name} to {self.target}" if changes else f"changed {' and '.join(wrong)} of {self.name}"
        note(ctx, changes | wrong, done if apply else f"would have {done}")
        return False

    def _wrong_target(self, seen: os.stat_result | None) -> dict[str, Any]:
        """Salt's `changes` for where it leads. Raises `Permanent` when something is in the way that must stay."""
        if seen is None:
            return {"new": self.name}
        if stat.S_ISLNK(seen.st_mode):
            with telling("read link", self.name):
                leads = os.readlink(self.name)  # noqa: PTH115 - Path objects are slow
            return {} if leads == self.target else {"target": {"old": leads, "new": self.target}}
        if not (self.force or self.backupname):
            raise Permanent(f"cannot link {self.name}: {what(seen.st_mode)} is in the way; remove it, or set force: true")
        return {"forced": f"{what(seen.st_mode)} in its place is {'renamed' if self.backupname else 'removed'}", "new": self.name}

    def _make_way(self) -> None:
        """Remove or rename what is no link. Blocks."""
        seen = status(self.name)
        if seen is None or stat.S_ISLNK(seen.st_mode):
            return
        if self.backupname:
            backup = os.path.join(os.path.dirname(self.name), self.backupname)  # noqa: PTH118, PTH120 - Path objects are slow
            if status(backup) is not None and not self.force:
                raise Permanent(f"cannot rename {self.name} to {backup}: that exists; remove it, or set force: true")
            with telling(f"rename to {backup}", self.name):
                os.rename(self.name, backup)  # noqa: PTH104 - the same
        else:
            trees.remove(self.name)

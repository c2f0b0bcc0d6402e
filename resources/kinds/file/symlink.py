"""`file.symlink`: a symbolic link."""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Mapping
from typing import Any, ClassVar

from holdfast.resources.assignment import announced
from holdfast.resources.context import Context
from holdfast.resources.dependencies import Dependency
from holdfast.resources.effects import Effect, EffectVerb, further
from holdfast.resources.errors import Permanent
from holdfast.resources.fields import Given, Mode, field
from holdfast.resources.kinds.file import removal
from holdfast.resources.kinds.file.base import (
    WINDOWS,
    OwnedResource,
    Ownership,
    demand_parent,
    found,
    make_parents,
    note,
    octal,
    os_errors,
    ownership,
    place_of,
    put_link,
    status,
)
from holdfast.resources.kinds.file.before import before
from holdfast.resources.paths import Place
from holdfast.resources.paths.handle import what
from holdfast.resources.traits import Declaration, Reversible


class Symlink(Reversible, OwnedResource, kind="file.symlink"):
    """A symbolic link has a target. A link with another target is replaced atomically.

    /etc/localtime:
      file.symlink:
        - target: /usr/share/zoneinfo/Europe/Berlin
    """

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("link", "change")
    ignored: ClassVar[Mapping[str, str]] = {
        "atomic": "a link is always replaced atomically",
        "disallow_copy_and_unlink": "a file in the way is renamed, or is an error",
        "inherit_user_and_group": "an owner that is not declared never changes",
        **WINDOWS,
    }

    target: str = field(min_length=1, pattern=r"^[^\x00]*$")
    """Target, verbatim; it need not exist."""
    force: bool = False
    """Remove a file or directory that is in the way."""
    backupname: Given | None = None
    """Rename a file or directory that is in the way to this path; a plain name is in the directory of the link."""
    mode: Mode | None = None
    """Mode of directories that `makedirs` creates; links have no mode."""
    follow_symlinks: bool = True
    """Accepted for compatibility with Salt. The state always manages the link itself, never its target."""

    async def inverse(self, ctx: Context) -> Declaration | None:
        """Return a declaration of the present link, file or absence; None for a directory that `force` removes."""
        seen = status(self.name)
        return None if self.force and seen is not None and stat.S_ISDIR(seen.st_mode) else await before(ctx, self.name)

    def dependencies(self) -> tuple[Dependency, ...]:
        """Return the dependencies of any file, and the target, which programs that use the link need."""
        own = super().dependencies()
        return (
            (*own, Dependency("path", posixpath.normpath(self.target), vital=False))
            if self.target.startswith("/")
            else own
        )

    @announced
    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Probe and repair the target first, then the owner."""
        owner = await ownership(ctx, self.user, self.group)
        place, seen = found(self.name)
        leads = self._leads(place, seen)
        wrong = owner.wrong(seen) if seen is not None and stat.S_ISLNK(seen.st_mode) else {}
        if leads == self.target and not wrong:
            ctx.report.comment = f"{self.name} points to {self.target}"
            return True
        if apply:
            await self._repair(ctx, seen, leads, owner)
        foreseen = "" if apply or leads is not None else f" with {owner.owner_of_new()}"
        self._report(ctx, seen, leads, wrong, foreseen, apply=apply)
        return False

    async def _repair(self, ctx: Context, seen: os.stat_result | None, leads: str | None, owner: Ownership) -> None:
        """Create the link, or only change its owner if that suffices."""
        owner.demand(self.name)
        demand_parent(self.name, makedirs=self.makedirs, apply=True)
        await ctx.assignment.announce()
        ctx.report.touched = True
        if self.makedirs:
            make_parents(self.name, owner, octal(self.dir_mode or self.mode))
        place = place_of(self.name)
        if leads == self.target and seen is not None and not place.refusal(seen):
            with os_errors("change owner of", self.name):
                owner.put(place, seen)
        else:
            if seen is not None and not stat.S_ISLNK(seen.st_mode):
                waits = ctx.long_blocking if stat.S_ISDIR(seen.st_mode) else ctx.blocking
                await waits(self._make_way, place)
            with os_errors("link", self.name):
                put_link(place, self.target, owner)

    def _leads(self, place: Place | None, seen: os.stat_result | None) -> str | None:
        """Return the present target; None if there is no link.

        Raises `Permanent` if a file or directory that must not be removed is in the way.
        """
        if place is not None and seen is not None and stat.S_ISLNK(seen.st_mode):
            with os_errors("read link", self.name):
                return place.readlink()
        if seen is not None and not (self.force or self.backupname):
            raise Permanent(
                f"cannot link {self.name}: {what(seen.st_mode)} is in the way; remove it, or set force: true"
            )
        return None

    def _report(
        self,
        ctx: Context,
        seen: os.stat_result | None,
        leads: str | None,
        wrong: dict[str, str],
        foreseen: str,
        *,
        apply: bool,
    ) -> None:
        """Report a comment, and the changes as Salt does: none in noop if something is in the way."""
        changes: dict[str, Any] = {"new": self.name}
        effect = Effect(("link",), self.name, detail=f" to {self.target}{foreseen}")
        if leads == self.target:
            changes = {"ownership": f"{self.user or ''}:{self.group or ''}"}
            effect = Effect(("change",), self.name, " and ".join(wrong))
        elif leads is not None:
            changes = changes if apply else {"change": self.name}
            effect = Effect(("link",), self.name, detail=f" to {self.target}, instead of {leads}")
        elif seen is not None:
            changes = changes if apply else {}
            present = f"{what(seen.st_mode)} in its place"
            gone = further("remove", present, applied=apply)
            way = f"; {present} is renamed to {self.backupname}" if self.backupname else gone
            effect = Effect(("link",), self.name, detail=f" to {self.target}{foreseen}{way}")
        note(ctx, changes, effect, applied=apply)

    def _make_way(self, place: Place) -> None:
        """Remove or rename the file or directory that is in the way. Blocks."""
        with os_errors("inspect", self.name):
            seen = place.look()
        if seen is None or stat.S_ISLNK(seen.st_mode):
            return
        if self.backupname:
            beside = "/" not in self.backupname and self.backupname not in {".", ".."}
            path = posixpath.normpath(posixpath.join(posixpath.dirname(self.name), self.backupname))
            backup = place.beside(self.backupname) if beside else place_of(path)
            with os_errors(f"rename to {backup.path}", self.name):
                if backup.look() is not None and not self.force:
                    raise Permanent(
                        f"cannot rename {self.name} to {backup.path}: that path exists; remove it, or set force: true"
                    )
                place.rename(backup)
        else:
            removal.remove(place)

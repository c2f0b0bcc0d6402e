"""`file.exists`, `file.missing`, `file.touch`: whether a path exists, whatever its content."""

from __future__ import annotations

import os
from typing import ClassVar

from holdfast.resources.context import Context
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.errors import Permanent
from holdfast.resources.fields import field
from holdfast.resources.kinds.file.base import (
    NEW_FILE,
    PathResource,
    Placed,
    demand_parent,
    found,
    make_parents,
    note,
    os_errors,
    ownership,
    place_of,
    status,
)
from holdfast.resources.paths import Place, touch


def reachable(path: str) -> bool:
    """Return whether a path exists, with links followed.

    Raises `Permanent` if the path is unsafe or must not be read.
    """
    return found(path, follow=True)[1] is not None


class Exists(PathResource, kind="file.exists"):
    """A path, or the target of a link at the path, exists; otherwise the state fails.

    The state changes nothing; other states can require it.

    /etc/machine-id:
      file.exists
    """

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ()
    exclusive: ClassVar[bool] = False

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Raise `Permanent` if the path does not exist."""
        if not reachable(self.name):
            raise Permanent(f"{self.name} does not exist")
        ctx.report.comment = f"{self.name} exists"
        return True


class Missing(PathResource, kind="file.missing"):
    """A path does not exist, or is a dangling link; otherwise the state fails. It changes nothing.

    /etc/nologin:
      file.missing
    """

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ()
    exclusive: ClassVar[bool] = False

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Raise `Permanent` if the path exists."""
        if reachable(self.name):
            raise Permanent(f"{self.name} exists")
        ctx.report.comment = f"{self.name} does not exist"
        return True


class Touch(Placed, kind="file.touch"):
    """A file exists. Its times are set each time the state runs.

    /var/lib/app/stamp:
      file.touch:
        - makedirs: true
    """

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("create", "touch")
    exclusive: ClassVar[bool] = False

    atime: float | None = field(None, unit="seconds")
    """Time of the last access, in Unix seconds; null: now."""
    mtime: float | None = field(None, unit="seconds")
    """Time of the last change, in Unix seconds; null: now."""
    makedirs: bool = False
    """Make missing parent directories, too."""

    def action(self) -> bool:
        """Return whether a time is "now", because then the state cannot tell whether it needs to run."""
        return self.atime is None and self.mtime is None

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Create the file, or set its times. Raises `Permanent` for a dangling link."""
        place, seen = found(self.name, follow=True)
        if seen is None and status(self.name) is not None:
            raise Permanent(f"cannot touch {self.name}: it is a dangling link; remove it, or touch its target")
        if seen is not None and not self.action() and self._times(seen) == (seen.st_atime, seen.st_mtime):
            ctx.report.comment = f"{self.name} is as declared"
            return True
        if place is not None and seen is not None:
            place.demand_own(seen, "touch")
        if apply:
            await self._repair(ctx, place, seen)
        if seen is None:
            foreseen = "" if apply else (await ownership(ctx, None, None)).of_new(NEW_FILE)
            note(ctx, {"new": self.name}, Effect(("create",), self.name, detail=foreseen), applied=apply)
        else:
            note(ctx, {"touched": self.name}, Effect(("touch",), self.name), applied=apply)
        return False

    async def _repair(self, ctx: Context, place: Place | None, seen: os.stat_result | None) -> None:
        """Create the file, or set its times."""
        ctx.report.touched = True
        demand_parent(self.name, makedirs=self.makedirs, apply=True)
        if self.makedirs:
            make_parents(self.name, await ownership(ctx, None, None))
        self._touch(place_of(self.name) if place is None else place, seen)

    def _times(self, seen: os.stat_result) -> tuple[float, float]:
        """Return the declared times."""
        return (
            seen.st_atime if self.atime is None else self.atime,
            seen.st_mtime if self.mtime is None else self.mtime,
        )

    def _touch(self, place: Place, seen: os.stat_result | None) -> None:
        with os_errors("touch", self.name):
            if seen is None:
                made = place.create(NEW_FILE)
                os.utime(made.fd, None if self.action() else self._times(os.fstat(made.fd)))
            else:
                touch(place, None if self.action() else self._times(seen))

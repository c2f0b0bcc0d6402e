"""`file.absent`: nothing at a path."""

from __future__ import annotations

import stat
from typing import ClassVar

from pydantic import field_validator

from holdfast.resources.assignment import announced
from holdfast.resources.context import Context
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.kinds.file import removal
from holdfast.resources.kinds.file.base import PathResource, found, note, status
from holdfast.resources.kinds.file.before import before
from holdfast.resources.kinds.file.edit import Edit
from holdfast.resources.kinds.file.trees import EntryBudget
from holdfast.resources.paths.handle import ENTRIES
from holdfast.resources.traits import Declaration, Reversible


class Absent(Reversible, PathResource, kind="file.absent"):
    """A path does not exist. A directory is removed with its content, but never across a mount point.

    /etc/cron.d/obsolete:
      file.absent
    """

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("remove",)
    spreads: ClassVar[bool] = True
    removes: ClassVar[bool] = True

    def refuses(self, part: PathResource) -> str | None:
        """Return why another state contradicts this one: an edit contradicts it unless it accepts a missing file."""
        return None if isinstance(part, Edit) and part.tolerates() else self.cmp(part)

    @field_validator("name")
    @classmethod
    def _not_everything(cls, name: str) -> str:
        if name == "/":
            raise ValueError("/ cannot be removed")
        return name

    async def inverse(self, ctx: Context) -> Declaration | None:
        """Return a declaration of the present file, link or absence; None for a directory, whose content is lost."""
        seen = status(self.name)
        return None if seen is not None and stat.S_ISDIR(seen.st_mode) else await before(ctx, self.name)

    @announced
    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Remove the file, link or directory at the path."""
        place, seen = found(self.name)
        if place is None or seen is None:
            ctx.report.comment = f"{self.name} does not exist"
            return True
        if apply:
            await ctx.assignment.announce()
            budget = EntryBudget(10 * ENTRIES)

            async def account() -> None:
                if budget.removed:
                    entries = f"{budget.removed} entries"
                    changes = {"removed": f"{entries} of {self.name}"}
                    note(ctx, changes, Effect(("remove",), self.name, entries), applied=True)

            ctx.report.begin(account)
            waits = ctx.long_blocking if stat.S_ISDIR(seen.st_mode) else ctx.blocking
            await waits(removal.remove, place, budget)
        note(ctx, {"removed": self.name}, Effect(("remove",), self.name), applied=apply)
        return False

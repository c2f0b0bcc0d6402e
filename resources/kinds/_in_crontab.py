"""Base of the kinds of cron: the crontab of a user, which `crontab` reads and replaces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, ClassVar

from holdfast.resources import paths
from holdfast.resources.context import Context, Watch
from holdfast.resources.contract import Concern, Resource, Uid
from holdfast.resources.delta import Delta
from holdfast.resources.dependencies import Dependency, owned_by
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.errors import Permanent
from holdfast.resources.fields import Account
from holdfast.resources.file_locks import file_lock
from holdfast.resources.kinds._commands import reason
from holdfast.resources.kinds._crontab import OWN, SALT, Crontab
from holdfast.resources.paths.replacing import about_to_replace
from holdfast.resources.traits import Edgeable, Reversible

LARGE = 1 << 16
"""Length, in characters, from which a crontab is parsed in a thread."""
SPOOLS = {"Debian": "/var/spool/cron/crontabs", "Alpine": "/var/spool/cron/crontabs", "Suse": "/var/spool/cron/tabs"}
"""Family of systems -> directory of the crontabs."""
SPOOL = "/var/spool/cron"
"""Directory of the crontabs on all other systems."""


class InCrontab(Edgeable, Reversible, Resource):
    """Base of the kinds of this family: the crontab of a user."""

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("add", "change", "remove")
    concerns: ClassVar[Mapping[str, Concern]] = {"": "security"}
    user: Account = "root"
    """User whose crontab this is."""

    async def crontab(self, ctx: Context) -> Crontab:
        """Return the present crontab; empty if there is none. Raises `Permanent`."""
        text = await self.present(ctx)
        words = SALT if ctx.salt_names else OWN
        return await ctx.blocking(Crontab.read, text, words) if len(text) > LARGE else Crontab.read(text, words)

    async def present(self, ctx: Context) -> str:
        """Return the text of the present crontab; empty if there is none. Raises `Permanent`."""
        done = await ctx.run("crontab", "-u", self.user, "-l", check=False, exact=True)
        if done.retcode != 0 and "no crontab" not in done.stderr:
            raise Permanent(f"cannot read the crontab of {self.user}: {reason(done)}")
        if done.truncated:  # the missing part would be lost when the crontab is written
            raise Permanent(f"cannot read the crontab of {self.user}: it is larger than 1 MiB")
        return done.stdout if done.retcode == 0 else ""

    async def edit(self, ctx: Context, change: Callable[[Crontab], object]) -> None:
        """Apply `change` to the crontab, for one resource at a time. Raises `Permanent` with the message of cron."""
        async with file_lock(f"crontab of {self.user}"):
            tab = await self.crontab(ctx)
            change(tab)
            await self.put(ctx, tab.text())

    async def put(self, ctx: Context, text: str) -> None:
        """Replace the whole crontab. Raises `Permanent` with the message of cron."""
        await ctx.blocking(_keep, self._file(ctx))
        done = await ctx.run("crontab", "-u", self.user, "-", stdin=text, check=False)
        if done.retcode != 0:
            raise Permanent(f"cannot change the crontab of {self.user}: {reason(done)}")

    def watch(self, ctx: Context) -> Watch:
        """Watch the file of the crontab."""
        return ctx.watch_path(self._file(ctx))

    def _file(self, ctx: Context) -> str:
        return f"{SPOOLS.get(ctx.facts.get('os_family', ''), SPOOL)}/{self.user}"

    def touches(self) -> tuple[Uid, ...]:
        """Return the path of the crontab on each family of systems."""
        return tuple([("path", f"{spool}/{self.user}") for spool in {*SPOOLS.values(), SPOOL}])

    def offers(self) -> tuple[Uid, ...]:
        """Return nothing: no resource depends on a crontab."""
        return ()

    def dependencies(self) -> tuple[Dependency, ...]:
        """Return the user and the package of cron."""
        return (*owned_by(self.user, None), Dependency("pkg", "cron", vital=False))

    def changes(self, delta: Delta) -> dict[str, Any]:
        """Return the user and the name, as Salt does."""
        return {self.user: self.name}

    def explain(self, ctx: Context) -> str:
        """Return why no change was needed."""
        return f"{self.name} is {'not in' if self.desired() is None else 'as declared in'} the crontab of {self.user}"

    def effect(self, delta: Delta) -> Effect:
        """Return what a repair does to the crontab."""
        crontab = f"the crontab of {self.user}"
        if delta.create:
            return Effect(("add",), self.name, detail=f" to {crontab}")
        if delta.remove:
            return Effect(("remove",), self.name, detail=f" from {crontab}")
        return Effect(("change",), self.name, ", ".join(delta.fields), f" in {crontab}")


def _keep(path: str) -> None:
    """Make the agent keep a crontab that `crontab` is about to replace, or note why this is not possible. Blocks."""
    with suppress(OSError, paths.Unsafe):
        about_to_replace(paths.at(path), None)

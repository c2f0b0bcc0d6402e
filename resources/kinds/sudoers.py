"""Files of rules that sudo includes; visudo checks each with the whole configuration before it is put in place."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, model_validator

from holdfast.resources import paths
from holdfast.resources.assignment import announced
from holdfast.resources.context import Context, Watch
from holdfast.resources.contract import Concern, Uid
from holdfast.resources.delta import Delta, State
from holdfast.resources.dependencies import Dependency
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.errors import Permanent
from holdfast.resources.fields import AbsPath, Text, shaped
from holdfast.resources.file_locks import file_lock
from holdfast.resources.kinds._commands import reason
from holdfast.resources.kinds._config_file import ConfigEntry
from holdfast.resources.kinds._lines import encoded
from holdfast.resources.kinds._sudoers import Copies
from holdfast.resources.kinds.file.base import found, os_errors
from holdfast.resources.kinds.file.content import finished, parse_contents
from holdfast.resources.kinds.file.sources import Sourced
from holdfast.resources.paths.handle import ABSENT
from holdfast.resources.traits import Declaration, Reversible

DIRECTORY = "/etc/sudoers.d"
MODE = 0o440
LOCK = "the configuration of sudo"
"""Name of the lock: two new files may be valid each alone but not together."""
TIMEOUT = 30.0
"""Time limit of visudo, in seconds."""


class Include(Sourced, Reversible, ConfigEntry, kind="sudoers.include"):
    """A file of rules that sudo includes. The name is the name of the file in /etc/sudoers.d.

    The file belongs to root and has mode 0440. Before it is put in place, `visudo -c` checks it in a copy of the whole
    configuration. If another program changes the configuration meanwhile so that it has an error, the former file is
    restored. inotify reports changes of the file.

    operators:
      sudoers.include:
        - contents: |
            %operators ALL = (root) NOPASSWD: /usr/bin/systemctl restart app.service
    """

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("create", "change")
    concerns: ClassVar[Mapping[str, Concern]] = {"": "security"}
    mode_of_new: ClassVar[int] = MODE

    name: Annotated[
        Text,
        shaped(
            r"[A-Za-z0-9_][A-Za-z0-9_@+-]*",
            "the name of a file that sudo reads: a name has letters, digits and _@+-",
            200,
        ),
    ]
    """Name of the file. sudo skips files whose name has a dot or ends with `~`."""
    contents: Annotated[str, BeforeValidator(parse_contents)] | None = None
    """The rules, as in sudoers(5): text, or a list of lines. Alternatively, set a source."""
    directory: AbsPath = DIRECTORY
    """The directory that sudo includes."""

    @model_validator(mode="after")
    def _something(self) -> Self:
        if (self.contents is None) == (not self.all_sources()):
            raise ValueError("set either contents or a source: the rules can come from one place only")
        return self

    def file(self) -> str:
        """Return the path of the file."""
        return f"{self.directory.rstrip('/')}/{self.name}"

    def wanted(self) -> str:
        """Return the content of the file."""
        return finished(self.contents or "", newline=True)

    @announced
    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Read the sources first; only trusted users may be able to write them."""
        if self.contents is None:
            for path in self.outside_paths(ctx):
                with os_errors("read", path):
                    paths.demand_trusted_file(path)
            read = self.model_copy(update={"contents": "".join(await self.fetch(ctx))})
            return await read.check_apply(ctx, apply)
        return await super().check_apply(ctx, apply)

    def desired(self) -> State:
        """Return the content, the owner and the mode."""
        return {"contents": self.wanted(), "mode": f"{MODE:04o}", "owner": "root"}

    def read(self, text: str) -> State:
        """Return the content."""
        return {"contents": text}

    def edited(self, text: str) -> str:
        """Return the declared content."""
        return self.wanted()

    async def probe(self, ctx: Context) -> State:
        """Return the present content, owner and mode."""
        seen = found(self.file(), follow=True)[1]
        state = await super().probe(ctx)
        if seen is None:
            return None
        owner = "root" if seen.st_uid in paths.trusted_uids() and seen.st_gid in {0, seen.st_uid} else str(seen.st_uid)
        return {**(state or {}), "mode": f"{stat.S_IMODE(seen.st_mode):04o}", "owner": owner}

    async def _verify(self, ctx: Context, main: str | None, path: str) -> None:
        """Check the new file in a copy of the configuration; alone if the configuration does not include it.

        `main`: the main file of the configuration; None if the configuration had an error before.
        """
        new, copies = self.file(), None
        if main is not None:
            copies = await ctx.blocking(Copies, main, new, path, str(ctx.var_dir))
        if copies is None or copies.main is None:
            await self._demand_sound(ctx, path, {path: new})
            return
        try:
            for copy, text in copies.texts.items():
                await ctx.write_file(copy, encoded(text), mode=0o600, touches=False)
            await self._demand_sound(ctx, copies.main, copies.originals)
        finally:
            for copy in copies.texts:
                with suppress(*ABSENT):
                    paths.at(copy).unlink(own=True)

    async def _demand_sound(self, ctx: Context, path: str, originals: Mapping[str, str]) -> None:
        """Raise `Permanent` for an error in a file, with the paths of the originals instead of the copies."""
        error, _ = await self._checked(ctx, "-f", path)
        if error is not None:
            for copy, original in originals.items():
                error = error.replace(f"{copy}:", f"{original}:")
            raise Permanent(f"cannot put {self.file()} in place: visudo: {error}")

    async def _checked(self, ctx: Context, *more: str) -> tuple[str | None, str]:
        """Return the first error of visudo, or None, and the files that it has read, one on each line.

        Raises `Permanent` if visudo is missing.
        """
        done = await ctx.run("visudo", "-c", *more, check=False, timeout=TIMEOUT)
        if done.retcode == 0:
            return None, done.stdout
        return reason(done), ""

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Put the file in place; restore the former file if the configuration then has a new error."""
        async with file_lock(LOCK):
            before, (former_error, known) = delta.before, await self._checked(ctx)
            if before is None or "contents" in delta.fields:
                main = known.partition(": parsed OK")[0] or None
                await self.rewrite(ctx, self.edited, partial(self._verify, ctx, main))
            self._protect()
            error, known = await self._checked(ctx)
            if error is not None and former_error is None:
                await self._put_back(ctx, None if before is None else before["contents"])
                raise Permanent(f"cannot keep {self.file()}: visudo: {error}")
        if error is not None:
            raise Permanent(f"{self.file()} is in place, but sudo has another error: visudo: {error}")
        if "parsed OK" in known and f"{self.file()}: " not in known:
            text = "sudo does not read the file: no @includedir of /etc/sudoers names its directory"
            ctx.log.warning(text, path=self.file())

    def _protect(self) -> None:
        """Set the owner root and the mode that sudo requires."""
        place, seen = found(self.file(), follow=True)
        if place is not None and seen is not None:
            with os_errors("change the mode of", self.file()):
                paths.change(place, seen, *((0, 0) if os.geteuid() == 0 else (-1, -1)), MODE)

    async def _put_back(self, ctx: Context, former: str | None) -> None:
        if former is not None:
            await ctx.write_file(self.file(), encoded(former), mode=MODE)
            return
        with os_errors("remove", self.file()):
            await ctx.blocking(paths.at(self.file()).unlink)

    def watch(self, ctx: Context) -> Watch:
        """Watch the file and its sources on this host."""
        return ctx.watch_path(self.file(), *self.outside_paths(ctx))

    def uids(self) -> tuple[Uid, ...]:
        """Return the uid of the file."""
        return (("path", self.file()),)

    def dependencies(self) -> tuple[Dependency, ...]:
        """Return the directory and the package of sudo."""
        return (*super().dependencies()[1:], Dependency("pkg", "sudo", vital=False))

    def effect(self, delta: Delta) -> Effect:
        """Return what a repair does to the file."""
        if delta.create:
            return Effect(("create",), self.file(), detail=f" with mode {MODE:04o}")
        return Effect(("change",), self.file(), " and ".join(delta.fields))

    def changes(self, delta: Delta) -> dict[str, Any]:
        """Return the fields that differ, without the rules."""
        done = super().changes(delta)
        return {name: change if name != "contents" else "changed" for name, change in done.items()}

    async def inverse(self, ctx: Context) -> Declaration:
        """Return a declaration of the present content, or of the absence of the file."""
        if found(self.file(), follow=True)[1] is None:
            return Declaration("file.absent", {"name": self.file()})
        known = {"name": self.name, **({"directory": self.directory} if self.directory != DIRECTORY else {})}
        return Declaration("sudoers.include", {**known, "contents": await self.text(ctx)})

"""Settings of logrotate."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, model_validator

from holdfast.resources import paths
from holdfast.resources.accepts import VALUE, accepts
from holdfast.resources.context import Context, Watch
from holdfast.resources.contract import Concern, Uid
from holdfast.resources.delta import Delta, State
from holdfast.resources.dependencies import Dependency
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.errors import Permanent
from holdfast.resources.fields import AbsPath, Line, parse_text, shaped
from holdfast.resources.kinds._config_file import ConfigEntry
from holdfast.resources.kinds._logrotate import SCRIPTS, Value, changed, parse
from holdfast.resources.kinds.file.base import os_errors
from holdfast.resources.paths.handle import ABSENT
from holdfast.resources.traits import Declaration, Reversible

DIRECTIVE = r"[A-Za-z]+"
PLAIN = r"[^\x00-\x1f\x7f{}]*"


@accepts(VALUE, bool, str, numbers=True)
def parse_value(value: object) -> object:
    """Return a value as text; return a boolean unchanged."""
    return value if isinstance(value, bool) else parse_text(value)


Setting = Annotated[bool | Annotated[Line, shaped(PLAIN, "a value without braces")], BeforeValidator(parse_value)]
"""The value of a directive; true: it has no value, false: the directive is missing."""


class Set(Reversible, ConfigEntry, kind="logrotate.set"):
    """A directive of logrotate has a value, as a default or in the block of a log file.

    The state looks for the block in the file and in the directory that the file includes. logrotate itself checks the
    new file before it is put in place.

    keep four weeks:
      logrotate.set:
        - key: rotate
        - value: 4

    keep logins for longer:
      logrotate.set:
        - key: /var/log/wtmp
        - value: rotate
        - setting: 12
    """

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("set", "remove")
    concerns: ClassVar[Mapping[str, Concern]] = {"": "operation"}

    key: Annotated[Line, shaped(PLAIN, "a directive or a log file")]
    """The directive; with `setting`, the log file of the block, as in the header of the block."""
    value: Setting
    """The value; with `setting`, the directive. True is a directive without a value; false removes it."""
    setting: Setting | None = None
    """The value of the directive in the block."""
    conf_file: AbsPath = "/etc/logrotate.conf"
    """The file."""

    @model_validator(mode="after")
    def _directive_is_named(self) -> Self:
        word = self.word
        if not re.fullmatch(DIRECTIVE, word) or word in SCRIPTS or word in ("include", "endscript"):
            raise ValueError(f"{word!r} is not a directive with a value on one line")
        return self

    @property
    def word(self) -> str:
        """The directive."""
        return self.key if self.setting is None else str(self.value)

    @property
    def log(self) -> str | None:
        """The log file of the block; None for a default."""
        return None if self.setting is None else self.key

    @property
    def wanted(self) -> Value:
        """The declared value."""
        return self.value if self.setting is None else self.setting

    def file(self) -> str:
        """Return the configuration file."""
        return self.conf_file

    def desired(self) -> State:
        """Return the declared value."""
        return {"value": self.wanted}

    def read(self, text: str) -> State:
        """Return the present value. Raises `Permanent`."""
        try:
            known = parse(text)
        except ValueError as error:
            raise Permanent(f"cannot edit {self.conf_file}: {error}") from None
        block = known.defaults if self.log is None else known.block(self.log)
        return {"value": False if block is None else block.value(self.word)}

    def edited(self, text: str) -> str:
        """Return the text with the declared value."""
        return changed(text, self.log, self.word, self.wanted)

    async def probe(self, ctx: Context) -> State:
        """Return the present value, in whichever file the block is."""
        return await ConfigEntry.probe(await self._there(ctx), ctx)

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Write the file that has the block."""
        await ConfigEntry.apply(await self._there(ctx), ctx, delta)

    async def _there(self, ctx: Context) -> Self:
        """Return a copy for the file that has the block; this resource if no file has it."""
        if self.log is None:
            return self
        try:
            main = parse(await self.text(ctx))
        except ValueError:
            return self
        if main.block(self.log) is not None:
            return self
        for include in [str(each.value) for each in main.defaults.directives if each.word == "include"]:
            for path in await ctx.blocking(_files, include):
                other = self.model_copy(update={"conf_file": path})
                try:
                    if parse(await other.text(ctx)).block(self.log) is not None:
                        return other
                except ValueError:
                    continue
        return self

    async def verify(self, ctx: Context, path: str) -> None:
        """Check the new file with logrotate. Raises `Permanent` if it has more mistakes than the present file."""
        after = await self._mistakes(ctx, path)
        if after and len(after) > len(await self._mistakes(ctx, self.conf_file)):
            raise Permanent(f"cannot edit {self.conf_file}: logrotate refuses the change: {after[-1]}")

    async def _mistakes(self, ctx: Context, path: str) -> list[str]:
        """Return the messages of logrotate about lines of a file; with --debug, it changes nothing."""
        done = await ctx.run("logrotate", "--debug", path, check=False)
        marks = (f"error: {path}:", f"error: {path} ")
        lines = [line.strip() for line in done.stderr.splitlines()]
        return [line.partition(path)[2].lstrip(":") for line in lines if line.startswith(marks)]

    def watch(self, ctx: Context) -> Watch:
        """Watch the file and, if the block may be there, the directory that logrotate usually includes."""
        more = () if self.log is None else (f"{self.conf_file.removesuffix('.conf')}.d",)
        return ctx.watch_path(self.conf_file, *more, recursive=bool(more))

    async def inverse(self, ctx: Context) -> Declaration:
        """Return the present value."""
        there = await self._there(ctx)
        value = (there.read(await there.text(ctx)) or {})["value"]
        given = {"value": value} if self.setting is None else {"value": self.word, "setting": value}
        return Declaration("logrotate.set", {"name": self.name, "key": self.key, **given, "conf_file": there.conf_file})

    def uids(self) -> tuple[Uid, ...]:
        """Return the uid of the directive."""
        return (("logrotate", f"{self.conf_file} {self.log or ''} {self.word}"),)

    def dependencies(self) -> tuple[Dependency, ...]:
        """Also return the package."""
        return (*super().dependencies(), Dependency("pkg", "logrotate", vital=False))

    def changes(self, delta: Delta) -> dict[str, Any]:
        """Return the old and new value, as Salt does."""
        return dict(super().changes(delta)["value"])

    def effect(self, delta: Delta) -> Effect:
        """Return what a repair does."""
        where = f" for {self.log}" if self.log else ""
        if self.wanted is False:
            return Effect(("remove",), "logrotate", self.word, where)
        return Effect(
            ("set",), "logrotate", self.word, f"{where} to {self.wanted}" if self.wanted is not True else where
        )

    def explain(self, ctx: Context) -> str:
        """Return why no change was needed."""
        return f"{self.word} {f'for {self.log} ' if self.log else ''}is as declared"


def _files(directory: str) -> list[str]:
    """Return the paths of the entries of an included directory, or the path itself if it is a file. Blocks."""
    with os_errors("read", directory):
        try:
            return [f"{directory}/{name}" for name in sorted(paths.directory(directory).names()) if name[0] != "."]
        except NotADirectoryError:
            return [directory]
        except ABSENT:
            return []

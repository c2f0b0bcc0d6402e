"""Aliases of local mail addresses, and the database that a mail server makes from their file."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BeforeValidator, field_validator

from holdfast.resources import paths
from holdfast.resources.accepts import ITEM, VALUE, accepts
from holdfast.resources.context import Context, Watch
from holdfast.resources.contract import Concern, Uid
from holdfast.resources.delta import Delta, State
from holdfast.resources.dependencies import Dependency
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.errors import Permanent
from holdfast.resources.fields import AbsPath, Text, parse_list, shaped
from holdfast.resources.file_locks import file_lock
from holdfast.resources.kinds import _aliases
from holdfast.resources.kinds._commands import reason
from holdfast.resources.kinds._config_file import ConfigEntry, identity
from holdfast.resources.kinds.file.base import found
from holdfast.resources.traits import Declaration, Reversible
from holdfast.resources.watch_items import WatchItem
from holdfast.resources.watches import either

FILE = "/etc/aliases"
POSTCONF, SETTINGS = "/usr/sbin/postconf", "/etc/postfix/main.cf"
SENDMAIL = "/etc/mail/sendmail.cf"
NEWALIASES = ("/usr/bin/newaliases", "/usr/sbin/newaliases", "/usr/lib/sendmail/newaliases")
SUFFIXES = {"hash": ".db", "btree": ".db", "dbm": ".pag", "lmdb": ".lmdb", "cdb": ".cdb"}
"""Type of a table of Postfix -> suffix of the file that `newaliases` creates."""
_OF_POSTFIX = re.compile(rf"({'|'.join(SUFFIXES)}):(/[^\s,]+)")
TIMEOUT = 60.0
"""Time limit of `newaliases`, in seconds."""


_known: dict[tuple[int, ...] | None, tuple[str, str]] = {}
"""Cache, because `postconf` is slow: attributes of the file of Postfix's settings -> the paths that they name."""


async def _source_of_postfix(ctx: Context) -> tuple[str, str]:
    """Return the paths of the file and the database that Postfix uses."""
    settings = identity(found(SETTINGS, follow=True)[1])
    if settings is None or settings not in _known:
        done = await ctx.run(POSTCONF, "-h", "alias_database", check=False, timeout=TIMEOUT)
        named = _OF_POSTFIX.search(done.stdout) if done.retcode == 0 else None
        _known.clear()
        _known[settings] = (named[2], named[2] + SUFFIXES[named[1]]) if named else (FILE, "")
    return _known[settings]


@accepts(VALUE, ITEM, None)
def parsed_targets(value: object) -> object:
    """Return a list of targets. Commas separate the targets of a text, but do not split the items of a list."""
    items = parse_list(value)
    if not isinstance(items, (list, tuple)) or not all(isinstance(item, str) for item in items):
        return items
    if not all(item.strip() for item in items):
        raise ValueError("a target is empty")
    whole = isinstance(value, (list, tuple))
    return [
        target
        for item in items
        for target in (
            [_aliases.target(item)] if whole and item.startswith("|") else map(_aliases.target, _aliases.split(item))
        )
    ]


@accepts(pattern=r"[^\0-\x1f]+")
def known_target(value: str) -> str:
    """Check one target. Raises `ValueError`."""
    if not value or re.search(r"[\0-\x1f\x7f]", value) or re.sub(r"\\.", "", value).count('"') % 2:
        raise ValueError("a target is one line with closed double quotes")
    return value


class InAliases(Reversible, ConfigEntry):
    """Base of the kinds of this family."""

    concerns: ClassVar[Mapping[str, Concern]] = {"": "operation"}
    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("add", "change", "remove", "refresh")
    name: Annotated[Text, shaped(r'[^\0-\x20\x7f":#][^\0-\x1f\x7f":]*', "the local part of an address", 255)]
    """The local user or address; case does not matter."""
    config: AbsPath | None = None
    """The file, if no mail server makes a database from it.

    Default: the first file in `alias_database` of Postfix, or `/etc/aliases`, with its database.
    """

    def file(self) -> str:
        """Return the path of the file, assuming that Postfix does not name another."""
        return self.config or FILE

    async def source(self, ctx: Context) -> tuple[str, str]:
        """Return the paths of the file and of the database that a mail server makes from it; empty if there is none."""
        if self.config is not None:
            return self.config, ""
        if paths.exists(POSTCONF):
            return await _source_of_postfix(ctx)
        return FILE, f"{FILE}.db" if paths.exists(SENDMAIL) else ""

    async def located(self, ctx: Context) -> str:
        """Return the path of the file."""
        return (await self.source(ctx))[0]

    def targets(self) -> list[str]:
        """Return the declared targets."""
        return []

    def read(self, text: str) -> State:
        """Return the targets of the alias."""
        mine = [entry for entry in _aliases.aliases(text) if entry.name == self.name.lower()]
        return {"target": [target for entry in mine for target in entry.targets()]} if mine else None

    def edited(self, text: str) -> str:
        """Return the text with the alias as declared."""
        return _aliases.edited(text, self.name, self.targets())

    async def outdated(self, ctx: Context) -> bool:
        """Return whether the database is missing or older than the file."""
        path, database = await self.source(ctx)
        file = found(path, follow=True)[1]
        if not database or file is None:
            return False
        made = found(database, follow=True)[1]
        return made is None or made.st_mtime_ns < file.st_mtime_ns

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Write the file, then make the mail server rebuild its database."""
        await super().apply(ctx, delta)
        command = next((path for path in NEWALIASES if paths.exists(path)), None)
        if command is None or self.config is not None:
            return
        async with file_lock("newaliases"):
            done = await ctx.run(command, check=False, timeout=TIMEOUT)
        if done.retcode != 0:
            raise Permanent(f"cannot make the database of aliases: newaliases: {reason(done)}")

    def watch(self, ctx: Context) -> Watch:
        """Watch the file, its databases, and the settings of Postfix, which may name another file."""
        return self._watched(ctx)

    async def _watched(self, ctx: Context) -> AsyncGenerator[WatchItem, None]:
        while True:
            path, database = source = await self.source(ctx)
            watched = (path, *([database] if database else []), *([] if self.config else [SETTINGS]))
            async with aclosing(either(ctx.watch_path(*watched))) as events:
                async for event in events:
                    yield event
                    if await self.source(ctx) != source:
                        break

    def uids(self) -> tuple[Uid, ...]:
        """Return the uid of the alias."""
        return (("alias", f"{self.file()} {self.name.lower()}"),)

    def dependencies(self) -> tuple[Dependency, ...]:
        """Also return the packages of mail servers."""
        servers = ("postfix", "exim4", "sendmail")
        return (*super().dependencies(), *(Dependency("pkg", server, vital=False) for server in servers))

    def changes(self, delta: Delta) -> dict[str, Any]:
        """Return the name, as Salt does."""
        return {"alias": self.name}

    def explain(self, ctx: Context) -> str:
        """Return why no change was needed."""
        return f"alias {self.name} is as declared"

    def effect(self, delta: Delta) -> Effect:
        """Return what a repair does to the alias or its database."""
        before = delta.before or {}
        if delta.fields == ("database",) or (delta.remove and "target" not in before):
            return Effect(("refresh",), "the database of aliases")
        return Effect(("add" if delta.create else "remove" if delta.remove else "change",), f"alias {self.name}")

    async def inverse(self, ctx: Context) -> Declaration:
        """Return a declaration of the present targets, or of the absence of the alias."""
        known = {"name": self.name, **({} if self.config is None else {"config": self.config})}
        present = self.read(await self.text(ctx))
        if present is None:
            return Declaration("alias.absent", known)
        return Declaration("alias.present", {**known, "target": present["target"]})


class Present(InAliases, kind="alias.present"):
    """Mail to a local address goes to these targets. Other entries and comments of the file stay as they are.

    The state runs `newaliases` after a change, and when the database of Postfix or Sendmail is older than the file.
    inotify reports changes of the file and its database.

    root:
      alias.present:
        - target: [ops@example.org, '|/usr/local/bin/page "on call"']
    """

    target: Annotated[tuple[Annotated[str, AfterValidator(known_target)], ...], BeforeValidator(parsed_targets)]
    """The targets: addresses, `/path`, `|command`, `:include:/path`, as a text with commas or a list."""

    @field_validator("target")
    @classmethod
    def _some(cls, target: tuple[str, ...]) -> tuple[str, ...]:
        if not target:
            raise ValueError("it has no target: use alias.absent to remove the alias")
        return target

    def targets(self) -> list[str]:
        """Return the declared targets."""
        return [*self.target]

    def desired(self) -> State:
        """Return the targets, and that the database is current."""
        return {"target": self.targets(), "database": "current"}

    async def probe(self, ctx: Context) -> State:
        """Return the present targets and whether the database is current."""
        state = await super().probe(ctx)
        known = "outdated" if await self.outdated(ctx) else "current"
        return None if state is None else {**state, "database": known}


class Absent(InAliases, kind="alias.absent"):
    """A local address has no alias.

    old-list:
      alias.absent: []
    """

    def desired(self) -> State:
        """Return None: absent."""
        return None

    async def probe(self, ctx: Context) -> State:
        """Return the present targets, or that the database may still have some."""
        return await super().probe(ctx) or ({"database": "outdated"} if await self.outdated(ctx) else None)

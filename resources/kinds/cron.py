"""Cron jobs and the variables of their environment."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from holdfast.resources.assignment import announced
from holdfast.resources.context import Context, Watch
from holdfast.resources.contract import Uid
from holdfast.resources.delta import Delta, State
from holdfast.resources.dependencies import Dependency, programs
from holdfast.resources.diff import hidden, unified
from holdfast.resources.downloads import shown_url
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.errors import Permanent, StillDiffers
from holdfast.resources.fields import Line, Text, Variables, field, one_line, shaped
from holdfast.resources.file_locks import file_lock
from holdfast.resources.kinds._crontab import CronJob, Crontab, Variable, comment_text, without_header
from holdfast.resources.kinds._crontimes import DayOfMonth, DayOfWeek, Hour, Minute, Month, Special
from holdfast.resources.kinds._in_crontab import InCrontab
from holdfast.resources.kinds.file import content
from holdfast.resources.traits import Declaration, FromSources, UsedSource

TIMES: Mapping[str, tuple[int, int]] = {
    "minute": (0, 59),
    "hour": (0, 23),
    "daymonth": (1, 28),
    "month": (1, 12),
    "dayweek": (0, 6),
}
"""The five fields in their order -> the range of random values."""


class JobKind(InCrontab):
    """Base of the kinds of jobs: how a job is identified."""

    name: Line
    """The command. For cron, the command ends at a % unless a backslash precedes the %."""
    identifier: Literal[False] | Line | None = field(False)
    """Identifier of the job, written in a comment before it.

    False: the command identifies the job. Null: no comment is written.
    """

    @property
    def mark(self) -> str:
        """The identifier; empty if there is none."""
        return self.name if self.identifier is False else self.identifier or ""

    async def jobs(self, ctx: Context) -> list[CronJob]:
        """Return the job in the crontab, and its copies."""
        return (await self.crontab(ctx)).jobs(self.name, self.mark)

    async def inverse(self, ctx: Context) -> Declaration:
        """Return a declaration of the present job, or of its absence."""
        known = {"user": self.user, "identifier": self.identifier}
        job = next(iter(await self.jobs(ctx)), None)
        if job is None:
            return Declaration("cron.absent", {"name": self.name, **known})
        when = {"special": job.when[0]} if len(job.when) == 1 else dict(zip(TIMES, job.when, strict=True))
        said = {"commented": job.disabled, "comment": job.comment}
        return Declaration(
            "cron.present", {"name": job.command, **known, "identifier": job.identifier or None, **when, **said}
        )

    def uids(self) -> tuple[Uid, ...]:
        """Return the uid of the job."""
        return (("cron", f"{self.user} {self.mark or self.name}"),)


class Present(JobKind, kind="cron.present"):
    """A job is in the crontab of a user exactly once, with the declared time.

    Fields of time that are not declared are `*`. Jobs above the line that Holdfast (or Salt) writes into a crontab are
    never changed.

    /usr/local/bin/backup --quiet:
      cron.present:
        - user: app
        - identifier: backup
        - minute: random
        - hour: 3
        - comment: every night
    """

    minute: Minute = "*"
    """0 to 59, as in crontab(5), or `random`: a fixed value that differs between hosts. All five fields accept this."""
    hour: Hour = "*"
    """0 to 23."""
    daymonth: DayOfMonth = "*"
    """1 to 31."""
    month: Month = "*"
    """1 to 12, or a name."""
    dayweek: DayOfWeek = "*"
    """0 (Sunday) to 7, or a name."""
    special: Special | None = None
    """A word instead of the five fields: `'@daily'`, `'@reboot'`."""
    comment: Text | None = None
    """A comment before the job. Default: unchanged."""
    commented: bool = field(False)
    """Keep the job but disable it by the prefix `#DISABLED#`."""

    def dependencies(self) -> tuple[Dependency, ...]:
        """Also return the program of the job."""
        return (*super().dependencies(), *(Dependency("path", path, vital=False) for path in programs(self.name)))

    def desired(self) -> State:
        """Return the declared job and no copies."""
        when = {name: getattr(self, name) for name in TIMES} if self.special is None else {"special": self.special}
        said = {} if self.comment is None else {"comment": self._said()}
        return {**when, "command": self.name, "identifier": self.mark, "commented": self.commented, "copies": 0, **said}

    async def probe(self, ctx: Context) -> State:
        """Return the present job. A random field matches any value."""
        jobs = await self.jobs(ctx)
        if not jobs:
            return None
        job = jobs[0]
        when = {"special": job.when[0]} if len(job.when) == 1 else dict(zip(TIMES, job.when, strict=True))
        when = {
            name: "random" if value != "*" and getattr(self, name) == "random" else value
            for name, value in when.items()
        }
        said = {"comment": job.comment, "commented": job.disabled, "copies": len(jobs) - 1}
        return {**when, "command": job.command, "identifier": job.identifier, **said}

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Write the job at its position or at the end."""
        await self.edit(ctx, lambda tab: tab.put(self._job(ctx, tab)))

    def _job(self, ctx: Context, tab: Crontab) -> CronJob:
        """Return the job to write; random and undeclared fields keep their present values."""
        old = next(iter(tab.jobs(self.name, self.mark)), None)
        seen = (
            dict(zip(TIMES, old.when, strict=True))
            if old and len(old.when) == len(TIMES)
            else dict.fromkeys(TIMES, "*")
        )
        times = (
            seen[name] if getattr(self, name) == "random" and seen[name] != "*" else self._time(ctx, name)
            for name in TIMES
        )
        comment = self._said() if self.comment is not None else old.comment if old else ""
        return CronJob((self.special,) if self.special else tuple(times), self.name, self.mark, comment, self.commented)

    def _time(self, ctx: Context, name: str) -> str:
        """Return a field of time. A random value is always the same for this job on this host."""
        value: str = getattr(self, name)
        low, high = TIMES[name]
        seed = f"{ctx.facts.get('id')} {self.user} {self.mark or self.name} {name}"
        return str(low + zlib.crc32(seed.encode()) % (high - low + 1)) if value == "random" else value

    def _said(self) -> str:
        return "\n".join(comment_text(line) for line in (self.comment or "").splitlines()).strip("\n")


class Absent(JobKind, kind="cron.absent"):
    """A job is not in the crontab of a user, at any time.

    backup:
      cron.absent:
        - user: app
    """

    special: Special | None = None
    """Remove the job only if its time is this word, such as `@daily`."""
    ignored: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys((*TIMES, "comment", "commented"), "a job is identified by its identifier or command"),
    }

    def desired(self) -> State:
        """Return None: absent."""
        return None

    async def probe(self, ctx: Context) -> State:
        """Return what the crontab has."""
        return {"command": self.name} if self._mine(await self.crontab(ctx)) else None

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Remove the job and its copies."""
        await self.edit(ctx, lambda tab: tab.remove(*self._mine(tab)))

    def _mine(self, tab: Crontab) -> list[CronJob]:
        return [job for job in tab.jobs(self.name, self.mark) if self.special in (None, job.when[0])]


class InEnvironment(InCrontab):
    """Base of the kinds of variables."""

    name: Annotated[str, shaped(r"[A-Za-z_]\w*", "the name of a variable")]
    """Name of the variable."""

    async def inverse(self, ctx: Context) -> Declaration:
        """Return a declaration of the present value, or of its absence."""
        values = (await self.crontab(ctx)).variables(self.name)
        arguments = {"name": self.name, "user": self.user}
        return (
            Declaration("cron.env_present", {**arguments, "value": values[0]})
            if values
            else Declaration("cron.env_absent", arguments)
        )

    def uids(self) -> tuple[Uid, ...]:
        """Return the uid of the variable."""
        return (("cron-variable", f"{self.user} {self.name}"),)


class EnvPresent(InEnvironment, kind="cron.env_present"):
    """A variable is set for the jobs of a user.

    MAILTO:
      cron.env_present:
        - value: ops@example.org
    """

    value: Annotated[Text, AfterValidator(lambda text: one_line(text) if text else "")] | None = None
    """The value; null is an empty text."""

    def desired(self) -> State:
        """Return one line with the value."""
        return {"values": [self.value or ""]}

    async def probe(self, ctx: Context) -> State:
        """Return the values of the variable."""
        values = (await self.crontab(ctx)).variables(self.name)
        return {"values": values} if values else None

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Set the variable at its position or before all jobs."""
        await self.edit(ctx, lambda tab: tab.put(Variable(self.name, self.value or "")))


class EnvAbsent(InEnvironment, kind="cron.env_absent"):
    """A variable is not set for the jobs of a user.

    MAILTO:
      cron.env_absent:
        - user: app
    """

    def desired(self) -> State:
        """Return None: absent."""
        return None

    async def probe(self, ctx: Context) -> State:
        """Return what the crontab has."""
        values = (await self.crontab(ctx)).variables(self.name)
        return {"values": values} if values else None

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Remove the variable."""
        await self.edit(
            ctx, lambda tab: tab.remove(*(Variable(self.name, value) for value in tab.variables(self.name)))
        )


class File(FromSources, InCrontab, kind="cron.file"):
    """The whole crontab of a user comes from a file; the name is its source.

        salt://app/crontab:
          cron.file:
            - user: app

    cron itself checks the new crontab: if cron refuses it, the state fails and the present crontab stays. The state
    removes jobs that others add, including those of `cron.present` for the same user.
    """

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("create", "change")
    ignored: ClassVar[Mapping[str, str]] = {
        "backup": "the agent keeps what it replaces; `holdfast drift restore` restores it",
    }

    name: Annotated[content.Source, Field(min_length=1)]
    """Source of the crontab: salt://, file://, an absolute path, http(s)://."""
    source_hash: Text | None = None
    """Hash of the source, or the URL of a file with hashes; required for http."""
    source_hash_name: str | None = None
    """Name of the source in a file with hashes."""
    template: Literal["jinja"] | None = None
    """Render the source before it is used."""
    context: Variables | None = None
    """Variables of the template."""
    defaults: Variables | None = None
    """Variables of the template that `context` does not define."""
    replace: bool = True
    """Replace an existing crontab."""
    show_changes: bool = False
    """Show the diff. Default: hidden, because only root and the user can read the crontab."""

    @model_validator(mode="after")
    def _verifiable(self) -> Self:
        if self.name.startswith(content.REMOTE) and not self.source_hash:
            raise ValueError(f"source {shown_url(self.name)} needs source_hash")
        return self

    def used_sources(self) -> list[UsedSource]:
        """Return the source and the file with hashes."""
        used = [UsedSource(self.name, template=self.template is not None)]
        hashes = self.source_hash is not None and self.source_hash.startswith(content.SCHEMES)
        return [*used, UsedSource(str(self.source_hash))] if hashes else used

    def uids(self) -> tuple[Uid, ...]:
        """Return the uid of the whole crontab."""
        return (("crontab", self.user),)

    def watch(self, ctx: Context) -> Watch:
        """Watch the file of the crontab and sources on this host."""
        return ctx.watch_path(self._file(ctx), *self.outside_paths(ctx))

    async def inverse(self, ctx: Context) -> Declaration:
        """Return a declaration of the present crontab, which may be empty."""
        copy = str(ctx.var_dir / f"crontab-{self.user}")
        await ctx.write_file(copy, _bytes(without_header(await self.present(ctx))), mode=0o600, touches=False)
        return Declaration("cron.file", {"name": copy, "user": self.user}, copy)

    @announced
    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Compare the whole crontab with the source, and replace it."""
        present = without_header(await self.present(ctx))
        if present and not self.replace:
            ctx.report.comment = f"{self.user} has a crontab, and replace is false"
            return True
        wanted = await self._wanted(ctx)
        if present == wanted:
            ctx.report.comment = f"the crontab of {self.user} is as declared"
            return True
        if apply:
            await ctx.assignment.announce()
            ctx.report.changing()
            async with file_lock(f"crontab of {self.user}"):
                await self.put(ctx, wanted)
            if without_header(await self.present(ctx)) != wanted:
                text = f"the crontab of {self.user} still differs after the repair"
                raise StillDiffers(f"{text}; perhaps another program changes it, too")
        diff = unified(_bytes(present), _bytes(wanted), f"crontab of {self.user}")
        instead = hidden(self.show_changes or None, 0o600)
        ctx.report.diff = "" if instead else diff
        ctx.report.changes = {"diff": instead or diff}
        ctx.report.did(Effect(("change" if present else "create",), f"the crontab of {self.user}"), applied=apply)
        return False

    async def _wanted(self, ctx: Context) -> str:
        """Return the declared crontab. Raises `Permanent` or `Temporary`."""
        name, trusted = self.source_hash_name or "", self.template is not None
        sources = ((self.name, None),)
        _, data = await content.fetch(ctx, sources, trusted=trusted, source_hash=self.source_hash, name=name)
        text = content.decoded(data, self.name) if self.template else data.decode(errors="surrogateescape")
        if self.template:
            own = {"source": self.name, "name": self.name, "user": self.user, "saltenv": "base"}
            variables = {**own, **(self.defaults or {}), **(self.context or {})}
            text = ctx.render(text, name=self.name, variables=variables)
        if "\0" in text:
            raise Permanent(f"cannot use {self.name} as a crontab: it has a NUL character")
        return content.finished(text, newline=True)


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogateescape")

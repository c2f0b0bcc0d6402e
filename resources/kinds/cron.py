"""Cron jobs, and the variables of their environment."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator

from holdfast.resources import paths
from holdfast.resources.context import Context, Watch
from holdfast.resources.contract import Concern, Resource, Uid
from holdfast.resources.delta import Delta, State
from holdfast.resources.dependencies import Dependency, owned_by, programs
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.errors import Permanent
from holdfast.resources.fields import Account, Line, Text, field, one_line, shaped
from holdfast.resources.file_locks import file_lock
from holdfast.resources.kinds._crontab import OWN, SALT, CronJob, Crontab, Variable, comment_text
from holdfast.resources.kinds._crontimes import DayOfMonth, DayOfWeek, Hour, Minute, Month, Special
from holdfast.resources.paths.replacing import about_to_replace
from holdfast.resources.traits import Declaration, Edgeable, Reversible

TIMES: Mapping[str, tuple[int, int]] = {
    "minute": (0, 59),
    "hour": (0, 23),
    "daymonth": (1, 28),
    "month": (1, 12),
    "dayweek": (0, 6),
}
"""The five fields in their order -> the range of random values."""
LARGE = 1 << 16
"""Crontabs of at least this number of characters are parsed in a thread."""
SPOOLS = {"Debian": "/var/spool/cron/crontabs", "Alpine": "/var/spool/cron/crontabs", "Suse": "/var/spool/cron/tabs"}
"""Family of systems -> directory of the crontabs."""
SPOOL = "/var/spool/cron"
"""Directory of the crontabs in all other systems."""


class InCrontab(Edgeable, Reversible, Resource):
    """Base of the kinds of this family: the crontab of a user."""

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("add", "change", "remove")
    concerns: ClassVar[Mapping[str, Concern]] = {"": "security"}
    user: Account = "root"
    """User whose crontab this is."""

    async def crontab(self, ctx: Context) -> Crontab:
        """Return the present crontab; empty if there is none. Raises `Permanent`."""
        done = await ctx.run("crontab", "-u", self.user, "-l", check=False)
        if done.retcode != 0 and "no crontab" not in done.stderr:
            raise Permanent(
                f"cannot read the crontab of {self.user}: "
                f"{done.stderr.strip() or f'crontab ended with status {done.retcode}'}"
            )
        if done.truncated:  # the missing part would be lost when the crontab is written
            raise Permanent(f"cannot read the crontab of {self.user}: it is larger than 1 MiB")
        text = done.stdout if done.retcode == 0 else ""
        words = SALT if ctx.salt_names else OWN
        return await ctx.blocking(Crontab.read, text, words) if len(text) > LARGE else Crontab.read(text, words)

    async def edit(self, ctx: Context, change: Callable[[Crontab], object]) -> None:
        """Apply `change` to the crontab, one resource at a time. Raises `Permanent` with the message of cron."""
        async with file_lock(f"crontab of {self.user}"):
            tab = await self.crontab(ctx)
            change(tab)
            await ctx.blocking(_keep, self._file(ctx))
            done = await ctx.run("crontab", "-u", self.user, "-", stdin=tab.text(), check=False)
        if done.retcode != 0:
            raise Permanent(
                f"cannot change the crontab of {self.user}: {(done.stderr.strip() or 'crontab failed').splitlines()[0]}"
            )

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
        """Return the user, and the package of cron."""
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
    """Let the agent keep a crontab that `crontab` is about to replace, or note why that is not possible. Blocks."""
    with suppress(OSError, paths.Unsafe):
        about_to_replace(paths.at(path), None)


class JobKind(InCrontab):
    """Base of the kinds of jobs, which identify a job."""

    name: Line
    """The command. Cron ends it at a %, unless a backslash precedes the %."""
    identifier: Literal[False] | Line | None = field(False)
    """Identifier of the job, written in a comment before it.

    False: the command identifies the job. None: no comment is written.
    """

    @property
    def mark(self) -> str:
        """The identifier; empty if there is none."""
        return self.name if self.identifier is False else self.identifier or ""

    async def jobs(self, ctx: Context) -> list[CronJob]:
        """Return the job in the crontab, and its copies."""
        return (await self.crontab(ctx)).jobs(self.name, self.mark)

    async def inverse(self, ctx: Context) -> Declaration:
        """Return the present job, or that there is none."""
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
    """A job is in the crontab of a user, once, with the declared time.

    Fields of time that are not given are `*`. Jobs above the line that Holdfast (or Salt) puts into a crontab are never
    touched.

    /usr/local/bin/backup --quiet:
      cron.present:
        - user: app
        - identifier: backup
        - minute: random
        - hour: 3
        - comment: every night
    """

    minute: Minute = "*"
    """0 to 59, as in crontab(5), or `random`: a fixed value that differs between hosts. All five fields accept that."""
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
    """A comment before the job. Default: left as it is."""
    commented: bool = field(False)
    """Keep the job, but disable it by the prefix `#DISABLED#`."""

    def dependencies(self) -> tuple[Dependency, ...]:
        """Return also the program of the job."""
        return (*super().dependencies(), *(Dependency("path", path, vital=False) for path in programs(self.name)))

    def desired(self) -> State:
        """Return the declared job, without copies."""
        when = {name: getattr(self, name) for name in TIMES} if self.special is None else {"special": self.special}
        said = {} if self.comment is None else {"comment": self._said()}
        return {**when, "command": self.name, "identifier": self.mark, "commented": self.commented, "copies": 0, **said}

    async def probe(self, ctx: Context) -> State:
        """Return the present job. Any value matches a random field."""
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
        """Write the job, in its place or at the end."""
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
    """Remove the job only if it runs at this time, given as a word like `@daily`."""
    ignored: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys((*TIMES, "comment", "commented"), "a job is identified by its identifier or command"),
    }

    def desired(self) -> State:
        """Return None: absent."""
        return None

    async def probe(self, ctx: Context) -> State:
        """Return what is there."""
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
        """Return the present value, or that there is none."""
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
    """The value; None is the empty text."""

    def desired(self) -> State:
        """Return one line with the value."""
        return {"values": [self.value or ""]}

    async def probe(self, ctx: Context) -> State:
        """Return the values of the variable."""
        values = (await self.crontab(ctx)).variables(self.name)
        return {"values": values} if values else None

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Set the variable, in its place or before all jobs."""
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
        """Return what is there."""
        values = (await self.crontab(ctx)).variables(self.name)
        return {"values": values} if values else None

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Remove the variable."""
        await self.edit(
            ctx, lambda tab: tab.remove(*(Variable(self.name, value) for value in tab.variables(self.name)))
        )

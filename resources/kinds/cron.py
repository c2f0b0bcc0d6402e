"""Jobs of cron, and the variables that they see."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator

from holdfast.resources.context import Context, Watch
from holdfast.resources.contract import Concern, Resource, Uid
from holdfast.resources.delta import Delta, State
from holdfast.resources.errors import Permanent
from holdfast.resources.fields import Account, Line, Text, field, one_line, shaped
from holdfast.resources.kinds._crontab import OWN, SALT, Crontab, Job, Variable, told
from holdfast.resources.kinds._crontimes import DayOfMonth, DayOfWeek, Hour, Minute, Month, Special
from holdfast.resources.needs import Need, owned_by, programs
from holdfast.resources.traits import Declaration, Edgeable, Reversible
from holdfast.resources.turns import turn

TIMES: Mapping[str, tuple[int, int]] = {
    "minute": (0, 59),
    "hour": (0, 23),
    "daymonth": (1, 28),
    "month": (1, 12),
    "dayweek": (0, 6),
}
"""The five fields, in their order, and from where to where a random one may lie."""
LARGE = 1 << 16
"""Characters of a crontab from which on it is parsed in a thread."""
SPOOLS = {"Debian": "/var/spool/cron/crontabs", "Alpine": "/var/spool/cron/crontabs", "Suse": "/var/spool/cron/tabs"}
"""Family of systems -> where crontabs are."""
SPOOL = "/var/spool/cron"
"""Where they are in all others."""


class InCrontab(Edgeable, Reversible, Resource):
    """What the kinds of this family share: the crontab of a user."""

    concerns: ClassVar[Mapping[str, Concern]] = {"": "security"}
    user: Account = "root"
    """Whose crontab."""

    async def crontab(self, ctx: Context) -> Crontab:
        """The crontab as it is now; empty when there is none. Raises `Permanent`."""
        done = await ctx.run("crontab", "-u", self.user, "-l", check=False)
        if done.retcode != 0 and "no crontab" not in done.stderr:
            raise Permanent(
                f"cannot read the crontab of {self.user}: {done.stderr.strip() or f'crontab ended with status {done.retcode}'}"
            )
        if done.truncated:  # what is cut off would be lost when it is written again
            raise Permanent(f"cannot read the crontab of {self.user}: it is larger than 1 MiB")
        text = done.stdout if done.retcode == 0 else ""
        words = SALT if ctx.salt_names else OWN
        return await ctx.blocking(Crontab.read, text, words) if len(text) > LARGE else Crontab.read(text, words)

    async def edit(self, ctx: Context, change: Callable[[Crontab], object]) -> None:
        """Change the crontab, one resource after the other. Raises `Permanent` with what cron says against it."""
        async with turn(f"crontab of {self.user}"):
            tab = await self.crontab(ctx)
            change(tab)
            done = await ctx.run("crontab", "-u", self.user, "-", stdin=tab.text(), check=False)
        if done.retcode != 0:
            raise Permanent(
                f"cannot change the crontab of {self.user}: {(done.stderr.strip() or 'crontab failed').splitlines()[0]}"
            )

    def watch(self, ctx: Context) -> Watch:
        """The file of the crontab."""
        return ctx.watch_path(f"{SPOOLS.get(ctx.facts.get('os_family', ''), SPOOL)}/{self.user}")

    def touches(self) -> tuple[Uid, ...]:
        """The file of the crontab, wherever that is."""
        return tuple([("path", f"{spool}/{self.user}") for spool in {*SPOOLS.values(), SPOOL}])

    def offers(self) -> tuple[Uid, ...]:
        """Nothing that others wait for."""
        return ()

    def needs(self) -> tuple[Need, ...]:
        """The user, and cron itself."""
        return (*owned_by(self.user, None), Need("pkg", "cron", vital=False))

    def changes(self, delta: Delta) -> dict[str, Any]:
        """Salt's shape: whose crontab, and what of it."""
        return {self.user: self.name}

    def explain(self, ctx: Context) -> str:
        """Why nothing had to be done."""
        return f"{self.name} is {'not in' if self.desired() is None else 'as declared in'} the crontab of {self.user}"

    def describe(self, delta: Delta, applied: bool) -> str:
        """What was done, or would be."""
        done = (
            "added to"
            if delta.create
            else "removed from"
            if delta.remove
            else f"changed ({', '.join(delta.fields)}) in"
        )
        return f"{self.name} {'was' if applied else 'would be'} {done} the crontab of {self.user}"


class JobKind(InCrontab):
    """What the kinds of jobs share: which one it is."""

    name: Line
    """The command. A % in it ends it, unless a backslash stands before: that is cron's rule."""
    identifier: Literal[False] | Line | None = field(False)
    """What the job is known by, whatever its command; a comment before it says so. False: by its command. None: no comment is made."""

    @property
    def mark(self) -> str:
        """The identifier; empty when there is none."""
        return self.name if self.identifier is False else self.identifier or ""

    async def jobs(self, ctx: Context) -> list[Job]:
        """The job in the crontab, and its copies."""
        return (await self.crontab(ctx)).jobs(self.name, self.mark)

    async def inverse(self, ctx: Context) -> Declaration:
        """The job as it is now, or that there is none."""
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
        """The job."""
        return (("cron", f"{self.user} {self.mark or self.name}"),)


class Present(JobKind, kind="cron.present"):
    """A job is in the crontab of a user, once, and runs at the declared time. A field of time that is not given is `*`.

    Jobs above the line that Holdfast (or Salt) puts into a crontab are never touched.

    /usr/local/bin/backup --quiet:
      cron.present:
        - user: app
        - identifier: backup
        - minute: random
        - hour: 3
        - comment: every night
    """

    minute: Minute = "*"
    """0 to 59. Like all five: as in crontab(5), or `random`, which is any fixed value, another on each host."""
    hour: Hour = "*"
    """0 to 23."""
    daymonth: DayOfMonth = "*"
    """1 to 31."""
    month: Month = "*"
    """1 to 12, or a name."""
    dayweek: DayOfWeek = "*"
    """0 (Sunday) to 7, or a name."""
    special: Special | None = None
    """A word instead of the five: `'@daily'`, `'@reboot'`."""
    comment: Text | None = None
    """A comment before the job; by default that is left as it is."""
    commented: bool = field(False)
    """Keep the job, but disabled: behind `#DISABLED#`."""

    def needs(self) -> tuple[Need, ...]:
        """What it runs, too."""
        return (*super().needs(), *(Need("path", path, vital=False) for path in programs(self.name)))

    def desired(self) -> State:
        """The job as declared, and no copy of it."""
        when = {name: getattr(self, name) for name in TIMES} if self.special is None else {"special": self.special}
        said = {} if self.comment is None else {"comment": self._said()}
        return {**when, "command": self.name, "identifier": self.mark, "commented": self.commented, "copies": 0, **said}

    async def probe(self, ctx: Context) -> State:
        """The job in the words of the declaration: any value is random enough."""
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
        """Put the job in, where it was or at the end."""
        await self.edit(ctx, lambda tab: tab.put(self._job(ctx, tab)))

    def _job(self, ctx: Context, tab: Crontab) -> Job:
        """The job to be; what is random and what is not declared stays as it is."""
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
        return Job((self.special,) if self.special else tuple(times), self.name, self.mark, comment, self.commented)

    def _time(self, ctx: Context, name: str) -> str:
        """A field of time; a random one is the same each time for this job on this host."""
        value: str = getattr(self, name)
        low, high = TIMES[name]
        seed = f"{ctx.facts.get('id')} {self.user} {self.mark or self.name} {name}"
        return str(low + zlib.crc32(seed.encode()) % (high - low + 1)) if value == "random" else value

    def _said(self) -> str:
        return "\n".join(told(line) for line in (self.comment or "").splitlines()).strip("\n")


class Absent(JobKind, kind="cron.absent"):
    """A job is not in the crontab of a user, whatever its time.

    backup:
      cron.absent:
        - user: app
    """

    special: Special | None = None
    """Only if it runs at this word."""
    ignored: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys((*TIMES, "comment", "commented"), "a job is told by its identifier or command"),
    }

    def desired(self) -> State:
        """None: absent."""
        return None

    async def probe(self, ctx: Context) -> State:
        """Whether it is there."""
        return {"command": self.name} if self._mine(await self.crontab(ctx)) else None

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Remove it, and its copies."""
        await self.edit(ctx, lambda tab: tab.remove(*self._mine(tab)))

    def _mine(self, tab: Crontab) -> list[Job]:
        return [job for job in tab.jobs(self.name, self.mark) if self.special in (None, job.when[0])]


class InEnvironment(InCrontab):
    """What the kinds of variables share."""

    name: Annotated[str, shaped(r"[A-Za-z_]\w*", "the name of a variable")]
    """Name of the variable."""

    async def inverse(self, ctx: Context) -> Declaration:
        """Its value now, or that there is none."""
        values = (await self.crontab(ctx)).variables(self.name)
        arguments = {"name": self.name, "user": self.user}
        return (
            Declaration("cron.env_present", {**arguments, "value": values[0]})
            if values
            else Declaration("cron.env_absent", arguments)
        )

    def uids(self) -> tuple[Uid, ...]:
        """The variable."""
        return (("cron-variable", f"{self.user} {self.name}"),)


class EnvPresent(InEnvironment, kind="cron.env_present"):
    """A variable is set for the jobs of a user.

    MAILTO:
      cron.env_present:
        - value: ops@example.org
    """

    value: Annotated[Text, AfterValidator(lambda text: one_line(text) if text else "")] | None = None
    """Its value; None or nothing is the empty text."""

    def desired(self) -> State:
        """One line with the value."""
        return {"values": [self.value or ""]}

    async def probe(self, ctx: Context) -> State:
        """The values it is given."""
        values = (await self.crontab(ctx)).variables(self.name)
        return {"values": values} if values else None

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Set it, where it was or before all jobs."""
        await self.edit(ctx, lambda tab: tab.put(Variable(self.name, self.value or "")))


class EnvAbsent(InEnvironment, kind="cron.env_absent"):
    """A variable is not set for the jobs of a user."""

    def desired(self) -> State:
        """None: absent."""
        return None

    async def probe(self, ctx: Context) -> State:
        """Whether it is there."""
        values = (await self.crontab(ctx)).variables(self.name)
        return {"values": values} if values else None

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Remove it."""
        await self.edit(
            ctx, lambda tab: tab.remove(*(Variable(self.name, value) for value in tab.variables(self.name)))
        )

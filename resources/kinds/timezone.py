"""The time zone of the host, and whether its hardware clock uses UTC."""

from __future__ import annotations

import posixpath
import stat
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from holdfast.resources import paths
from holdfast.resources.context import Context, Watch
from holdfast.resources.contract import Concern, Resource, Uid
from holdfast.resources.delta import Delta, State
from holdfast.resources.dependencies import Dependency
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.errors import Permanent
from holdfast.resources.fields import shaped
from holdfast.resources.kinds.file.base import found, os_errors, ownership, place_of, present_text, put_link
from holdfast.resources.spelling import nearest
from holdfast.resources.traits import Declaration, Edgeable, Reversible

ZONES = "/usr/share/zoneinfo"
LINK = "/etc/localtime"
NAMED = "/etc/timezone"
"""A file with the name of the zone in some distributions; managed only if it exists."""
CLOCK = "/etc/adjtime"
"""A file whose third line says whether the hardware clock uses local time; a missing line means UTC."""
DEVICE = "/dev/rtc"
LIMIT = 1 << 20
"""Maximum size of the file of a zone, in bytes."""


class System(Edgeable, Reversible, Resource, kind="timezone.system"):
    """The host has a time zone.

    The state sets the link `/etc/localtime` and, if it exists, `/etc/timezone`, with or without systemd. systemd's own
    service (`timedatectl`) sees the change at once. inotify reports changes of these files.

    Europe/Berlin:
      timezone.system:
        - utc: true
    """

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("set",)
    concerns: ClassVar[Mapping[str, Concern]] = {"": "operation"}

    name: Annotated[
        str, shaped(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*", "the name of a time zone, such as Europe/Berlin", 255)
    ]
    """The zone: a file below /usr/share/zoneinfo."""
    utc: bool = True
    """Set the hardware clock to UTC; false: do not change it, as in Salt."""

    def desired(self) -> State:
        """Return the zone, and that the hardware clock uses UTC."""
        return {"timezone": self.name, "named": self.name, **({"utc": True} if self.utc else {})}

    async def probe(self, ctx: Context) -> State:
        """Return the present zone, the zone in `/etc/timezone`, and whether the hardware clock uses UTC."""
        self._demand_zone()
        named = await present_text(ctx, NAMED)
        clock = (await present_text(ctx, CLOCK) or "").split("\n")
        return {
            "timezone": await ctx.blocking(self._zone),
            "named": self.name if named is None else named.strip(),
            "utc": [line.strip() for line in clock[2:3]] != ["LOCAL"],
        }

    def _demand_zone(self) -> None:
        """Raise `Permanent` if the zone does not exist."""
        place, seen = found(f"{ZONES}/{self.name}", follow=True)
        if place is not None and seen is not None and stat.S_ISREG(seen.st_mode):
            return
        try:
            table = paths.read(f"{ZONES}/tzdata.zi", LIMIT).decode(errors="replace")
        except OSError:
            raise Permanent(
                f"cannot set the time zone {self.name}: {ZONES} does not have it; it comes with the package tzdata"
            ) from None
        words = [line.split(" ") for line in table.split("\n")]
        known = [line[1] if line[0] == "Z" else line[2] for line in words if line[0] in {"Z", "L"} and len(line) > 2]
        near = nearest(self.name, known)
        raise Permanent(f"there is no time zone {self.name}" + (f"; did you mean {near}?" if near else f" in {ZONES}"))

    def _zone(self) -> str:
        """Return the zone of the link's target; for a file, the declared zone if the content is that of the zone."""
        place, seen = found(LINK)
        if place is None or seen is None:
            return ""
        with os_errors("read", LINK):
            if stat.S_ISLNK(seen.st_mode):
                target = posixpath.normpath(posixpath.join(posixpath.dirname(LINK), place.readlink()))
                return target.removeprefix(f"{ZONES}/")
            if not stat.S_ISREG(seen.st_mode):
                return ""
            return self.name if place.read(LIMIT) == paths.read(f"{ZONES}/{self.name}", LIMIT) else "a file"

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Replace the link and the file, each atomically, then set the hardware clock."""
        if "timezone" in delta.fields:
            owner = await ownership(ctx, None, None)
            with os_errors("link", LINK):
                ctx.report.touched = True
                await ctx.blocking(put_link, place_of(LINK), f"{ZONES}/{self.name}", owner)
        if "named" in delta.fields:
            with os_errors("write", NAMED):
                await ctx.write_file(NAMED, f"{self.name}\n".encode(), mode=0o644)
        if "utc" in delta.fields:
            await self._use_utc(ctx)

    async def _use_utc(self, ctx: Context) -> None:
        """Set the hardware clock to UTC, which updates its file, too; without a clock, only update the file."""
        if paths.exists(DEVICE):
            await ctx.run("hwclock", "--systohc", "--utc", timeout=30)
            return
        lines = (await present_text(ctx, CLOCK) or "").split("\n")
        lines[2] = "UTC"
        with os_errors("write", CLOCK):
            await ctx.write_file(CLOCK, "\n".join(lines).encode(), mode=0o644)

    def watch(self, ctx: Context) -> Watch:
        """Watch the link and the files."""
        return ctx.watch_path(LINK, NAMED, *([CLOCK] if self.utc else []))

    def uids(self) -> tuple[Uid, ...]:
        """Return the uid of the host's time zone."""
        return (("timezone", "system"),)

    def touches(self) -> tuple[Uid, ...]:
        """Return the paths of the link and the files."""
        return tuple(("path", path) for path in (LINK, NAMED, CLOCK))

    def offers(self) -> tuple[Uid, ...]:
        """Return nothing: no resource depends on the time zone."""
        return ()

    def dependencies(self) -> tuple[Dependency, ...]:
        """Return the package with the time zones."""
        return (Dependency("pkg", "tzdata", vital=False),)

    def contradicts(self, other: Resource) -> str | None:
        """Return whether both declare different zones."""
        if isinstance(other, System) and other.name != self.name:
            return f"the time zone is {self.name}, not {other.name}"
        return super().contradicts(other)

    async def inverse(self, ctx: Context) -> Declaration | None:
        """Return a declaration of the present zone; None if the link leads elsewhere or does not exist."""
        zone = await ctx.blocking(self._zone)
        known = found(f"{ZONES}/{zone}", follow=True)[1] if zone and not zone.startswith("/") else None
        return Declaration("timezone.system", {"name": zone, "utc": False}) if known is not None else None

    def changes(self, delta: Delta) -> dict[str, Any]:
        """Return the zone and the clock as far as they change, as Salt does."""
        zone = {"timezone": self.name} if {"timezone", "named"} & {*delta.fields} else {}
        return {**zone, **({"utc": True} if "utc" in delta.fields else {})}

    def effect(self, delta: Delta) -> Effect:
        """Return whether a repair sets the zone or the clock."""
        if delta.fields == ("utc",):
            return Effect(("set",), "the hardware clock", detail=" to UTC")
        return Effect(("set",), "the time zone", detail=f" to {self.name}")

    def explain(self, ctx: Context) -> str:
        """Return why no change was needed."""
        return f"the time zone is already {self.name}"

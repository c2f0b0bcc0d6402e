"""Services: running, dead, started at boot or not, masked or not.

nginx:
  service.running:
    - enable: true
    - reload: true
    - watch: [{file: /etc/nginx/nginx.conf}]
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, ClassVar

from holdfast.resources.context import Context, Watch
from holdfast.resources.contract import Concern, Resource, Uid
from holdfast.resources.delta import Delta, State
from holdfast.resources.errors import Permanent
from holdfast.resources.fields import UNIT_TYPES, Unit, field
from holdfast.resources.interfaces.results import ServiceStatus
from holdfast.resources.interfaces.service import ServiceInterface
from holdfast.resources.needs import Need, unit_needs
from holdfast.resources.traits import Declaration, Edgeable, Refreshable, Reversible

IGNORED = {
    "sig": "the service manager knows the state of a service; no process has to be looked for",
    "force": "a reload is never turned into a restart; say full_restart",
    "provider": "say providers: {service: ...} in agent.yaml",
    "win_delayed": "it belongs to Windows",
    "unmask_runtime": "unmask covers what is masked until the next boot",
}
VERBS = {
    "masked": ("unmask", "mask"),
    "active": ("stop", "start"),
    "enabled": ("disable", "enable"),
}
"""Field -> what makes it false, what makes it true."""
WORDS = {
    "masked": ("is not masked", "is masked"),
    "active": ("does not run", "runs"),
    "enabled": ("does not start at boot", "starts at boot"),
}
PAST = {
    "unmask": "unmasked",
    "mask": "masked",
    "stop": "stopped",
    "start": "started",
    "disable": "disabled",
    "enable": "enabled",
}
SUFFIXES = tuple(f".{word}" for word in UNIT_TYPES)


class Service(Reversible, Resource):
    """What the kinds of this family share: looking at a service, and switching what is wrong."""

    concerns: ClassVar[Mapping[str, Concern]] = {"": "operation"}
    ignored: ClassVar[Mapping[str, str]] = IGNORED

    name: Unit
    """The unit; `.service` where it has no suffix."""

    async def status(self, ctx: Context) -> ServiceStatus:
        """What the service manager knows of it now."""
        service: ServiceInterface = ctx.interface("service")
        return (await service.status([self.name]))[self.name]

    async def probe(self, ctx: Context) -> State:
        """Whether it runs, starts at boot, and is masked; what can be neither enabled nor disabled counts as it is declared."""
        status = await self.status(ctx)
        enabled = status.enabled
        if enabled is None:
            enabled = not status.masked and bool((self.desired() or {}).get("enabled"))
        return {"active": status.active, "enabled": enabled, "masked": bool(status.masked)}

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Switch what is wrong, in the order of `desired`."""
        service, after = ctx.interface("service"), delta.after or {}
        for name in delta.fields:
            await getattr(service, VERBS[name][after[name]])(self.name, options=self.options)

    @property
    def options(self) -> dict[str, Any]:
        """What the provider is told besides the name."""
        return {"no_block": getattr(self, "no_block", False)}

    def changes(self, delta: Delta) -> dict[str, Any]:
        """Salt's shape: `{name: true}`."""
        return {self.name: True}

    def describe(self, delta: Delta, applied: bool) -> str:
        """What was done to it, or would be."""
        after = delta.after or {}
        done = " and ".join(PAST[VERBS[name][after[name]]] for name in delta.fields)
        return f"{self.name} {'was' if applied else 'would be'} {done}"

    def explain(self, ctx: Context) -> str:
        """Why nothing had to be done."""
        return f"{self.name} " + " and ".join(WORDS[name][value] for name, value in (self.desired() or {}).items())

    def watch(self, ctx: Context) -> Watch:
        """The service manager's signals."""
        service: ServiceInterface = ctx.interface("service")
        return service.watch([self.name])

    async def inverse(self, ctx: Context) -> Declaration:
        """As it is now, in each aspect that is declared; one that does not exist neither runs nor starts at boot."""
        status, wanted = await self.status(ctx), self.desired() or {}
        arguments: dict[str, Any] = {"name": self.name}
        if status.masked or wanted.keys() == {"masked"}:
            return Declaration("service.masked" if status.masked else "service.unmasked", arguments)
        enabled = bool(status.exists and status.enabled)
        if "active" not in wanted:
            return Declaration("service.enabled" if enabled else "service.disabled", arguments)
        if "enabled" in wanted and status.enabled is not None:
            arguments["enable"] = enabled
        return Declaration("service.running" if status.exists and status.active else "service.dead", arguments)

    def contradicts(self, other: Resource) -> str | None:
        """They want the same aspect of the service to be different."""
        mine, theirs = self.desired() or {}, other.desired() or {}
        return next(
            (
                f"{name} is {mine[name]}, not {theirs[name]}"
                for name in mine
                if name in theirs and mine[name] != theirs[name]
            ),
            None,
        )

    def uids(self) -> tuple[Uid, ...]:
        """The unit."""
        return (("unit", self.name if self.name.endswith(SUFFIXES) else f"{self.name}.service"),)


class Wanted(Edgeable, Service):
    """A service that must be there."""

    def needs(self) -> tuple[Need, ...]:
        """Its unit file, what adds to that, and the package of its name."""
        return unit_needs(self.uids()[0][1])


class Running(Wanted, Refreshable, kind="service.running"):
    """A service runs, and starts at boot if `enable` says so. What it watches restarts it, or with `reload` reloads it."""

    enable: bool | None = field(None)
    """Start it at boot (true) or not (false); by default that is left as it is."""
    reload: bool = field(False)
    """When something it watches has changed, have it read its configuration again instead of restarting it."""
    full_restart: bool = field(False)
    """Restart it even where `reload` is given."""
    init_delay: float | None = field(None, ge=0)
    """Seconds to wait after a start before looking whether it still runs."""
    no_block: bool = field(False)
    """Ask for the start, and do not wait for its end; one that is about to start is right, then."""
    unmask: bool = field(False)
    """Unmask it if it is masked."""

    def desired(self) -> State:
        """It runs, and is enabled only once it does: what cannot run need not be tried at each boot."""
        masked = {"masked": False} if self.unmask else {}
        return {**masked, "active": True, **({} if self.enable is None else {"enabled": self.enable})}

    async def probe(self, ctx: Context) -> State:
        """As for all services; with `no_block`, one that is about to start runs."""
        state = dict(await super().probe(ctx) or {})
        if self.no_block and not state["active"]:
            state["active"] = (await self.status(ctx)).state == "activating"
        return state

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Unmask, start and enable it, whatever of that is wrong."""
        await super().apply(ctx, delta)
        if "active" in delta.fields:
            await self._settle(ctx)

    async def refresh(self, ctx: Context, apply: bool) -> bool:
        """Reload or restart it; start it if it is down."""
        runs = (await self.status(ctx)).active
        verb = "start" if not runs else "reload" if self.reload and not self.full_restart else "restart"
        if apply:
            ctx.report.begin(lambda: self.account(ctx, Delta({"active": runs}, {"active": True}, ("active",))))
            await getattr(ctx.interface("service"), verb)(self.name, options=self.options)
            await self._settle(ctx)
        ctx.report.changes = {self.name: True}
        ctx.report.comment = f"{self.name} {'was' if apply else 'would be'} {verb}ed"
        return False

    async def _settle(self, ctx: Context) -> None:
        if self.init_delay:
            await asyncio.sleep(self.init_delay)
            if not (await self.status(ctx)).active:
                raise Permanent(f"{self.name} was started, but {self.init_delay:g} s later it does not run")


class Dead(Service, Refreshable, kind="service.dead"):
    """A service does not run, nor start at boot if `enable` says false. What it watches stops it again."""

    enable: bool | None = field(None)
    """Whether it may start at boot; by default that is left as it is."""
    no_block: bool = field(False)
    """Ask for the stop, and do not wait for its end; one that is about to stop is right, then."""
    init_delay: float | None = field(None, ge=0)
    """Seconds to wait after a stop before looking whether it runs again."""

    def desired(self) -> State:
        """It does not run; and what else is declared."""
        return {"active": False, **({} if self.enable is None else {"enabled": self.enable})}

    async def probe(self, ctx: Context) -> State:
        """One that is starting, or waits to be started again, is not dead; one that does not exist is as dead as can be."""
        status = await self.status(ctx)
        if not status.exists:
            return self.desired()
        gone = ("inactive", "failed", "deactivating") if self.no_block else ("inactive", "failed")
        return {**(await super().probe(ctx) or {}), "active": status.state not in gone}

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Stop and disable it, whatever of that is wrong."""
        await super().apply(ctx, delta)
        if "active" in delta.fields:
            await self._settle(ctx)

    async def refresh(self, ctx: Context, apply: bool) -> bool:
        """Stop it, if it runs."""
        service: ServiceInterface = ctx.interface("service")
        ctx.report.touched = apply
        if not await service.stop(self.name, test=not apply):
            return True
        if apply:
            await self._settle(ctx)
        ctx.report.changes = {self.name: True}
        ctx.report.comment = f"{self.name} {'was' if apply else 'would be'} stopped"
        return False

    async def _settle(self, ctx: Context) -> None:
        if self.init_delay:
            await asyncio.sleep(self.init_delay)
            if (await self.probe(ctx) or {}).get("active"):
                raise Permanent(f"{self.name} was stopped, but {self.init_delay:g} s later it runs again")


class Enabled(Wanted, kind="service.enabled"):
    """A service starts at boot; whether it runs now does not matter."""

    def desired(self) -> State:
        """It is enabled."""
        return {"enabled": True}


class Disabled(Service, kind="service.disabled"):
    """A service does not start at boot; whether it runs now does not matter."""

    def desired(self) -> State:
        """It is not enabled."""
        return {"enabled": False}


class Masked(Service, kind="service.masked"):
    """A service cannot be started at all, by nobody."""

    runtime: bool = field(False)
    """Only until the next boot."""

    def desired(self) -> State:
        """It is masked."""
        return {"masked": True}

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Mask it."""
        service: ServiceInterface = ctx.interface("service")
        await service.mask(self.name, self.runtime)


class Unmasked(Service, kind="service.unmasked"):
    """A service can be started."""

    runtime: bool = field(False)
    """It was masked only until the next boot."""

    def desired(self) -> State:
        """It is not masked."""
        return {"masked": False}

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Unmask it."""
        service: ServiceInterface = ctx.interface("service")
        await service.unmask(self.name, self.runtime)

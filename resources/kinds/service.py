"""Services: running, dead, started at boot or not, masked or not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any, ClassVar

from holdfast.resources.context import Context, Watch
from holdfast.resources.contract import Concern, Resource, Uid
from holdfast.resources.delta import Delta, State
from holdfast.resources.dependencies import Dependency, unit_dependencies
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.errors import Permanent, StillDiffers
from holdfast.resources.fields import UNIT_TYPES, Unit, field
from holdfast.resources.interfaces.results import ServiceStatus
from holdfast.resources.interfaces.service import ServiceInterface
from holdfast.resources.needs import Need, needed
from holdfast.resources.stop_requests import stop_request
from holdfast.resources.traits import Declaration, Edgeable, Refreshable, Reversible

IGNORED = {
    "sig": "the service manager knows the state of a service; no process is searched for",
    "force": "a reload never becomes a restart; set full_restart",
    "provider": "set providers: {service: ...} in agent.yaml",
    "win_delayed": "Windows only",
    "unmask_runtime": "unmask also removes a mask that lasts until the next boot",
}
VERBS: Mapping[str, tuple[EffectVerb, EffectVerb]] = {
    "masked": ("unmask", "mask"),
    "active": ("stop", "start"),
    "enabled": ("disable", "enable"),
}
"""Field -> verb that makes it false, verb that makes it true."""
WORDS = {
    "masked": ("is not masked", "is masked"),
    "active": ("does not run", "runs"),
    "enabled": ("does not start at boot", "starts at boot"),
}
FIXED = "can be neither enabled nor disabled"
SUFFIXES = tuple(f".{word}" for word in UNIT_TYPES)


class Service(Reversible, Resource):
    """Base of the kinds of this family: they probe a service and change the aspects that differ."""

    concerns: ClassVar[Mapping[str, Concern]] = {"": "operation"}
    ignored: ClassVar[Mapping[str, str]] = IGNORED
    public_results: ClassVar[bool] = True

    name: Unit
    """The unit; without a suffix, `.service` is added."""

    async def status(self, ctx: Context) -> ServiceStatus:
        """Return the status from the service manager."""
        service = ctx.interface(ServiceInterface)
        return (await service.status([self.name]))[self.name]

    async def probe(self, ctx: Context) -> State:
        """Return whether the service runs, starts at boot, and is masked.

        A service that can be neither enabled nor disabled counts as declared, and the comment says so. One that starts
        only in some of its runlevels is neither enabled nor disabled. Raises `Permanent` if nothing tells whether the
        service runs, and that is declared.
        """
        status = await self.status(ctx)
        if not status.active:
            ctx.report.ended = ctx.report.ended or str(status.extra.get("ended", ""))
        wanted = self.desired() or {}
        if status.active is None and "active" in wanted:
            raise Permanent(
                f"cannot tell whether {self.name} runs: its init script has no action `status`, and it has no pid file"
            )
        enabled = status.enabled
        if enabled and status.extra.get("partly"):
            enabled = not wanted.get("enabled")
        elif enabled is None:
            enabled = not status.masked and bool(wanted.get("enabled"))
            if "enabled" in wanted and not status.masked:
                ctx.report.comment = self._sentence(wanted, FIXED)
        return {"active": bool(status.active), "enabled": enabled, "masked": self._is_masked(status)}

    def _is_masked(self, status: ServiceStatus) -> bool:
        """Return whether the service has a mask of the kind that the state is about."""
        return bool(status.masked)

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Change what differs, in the order of `desired`."""
        service, after, begun = ctx.interface(ServiceInterface), delta.after or {}, time.time()
        for name in delta.fields:
            await getattr(service, VERBS[name][after[name]])(self.name, options=self.options)
        if ctx.report.ended and after.get("active"):  # after the repair, which this must not delay
            ctx.report.ended += await stop_request(ctx, self._unit, begun)

    @property
    def options(self) -> dict[str, Any]:
        """Options for the provider."""
        return {"no_block": getattr(self, "no_block", False)}

    def changes(self, delta: Delta) -> dict[str, Any]:
        """Return `{name: true}`, as Salt does."""
        return {self.name: True}

    def effect(self, delta: Delta) -> Effect:
        """Return what a repair does to the service."""
        after = delta.after or {}
        return Effect(tuple(VERBS[name][after[name]] for name in delta.fields), self.name)

    def explain(self, ctx: Context) -> str:
        """Return why no change was needed."""
        return self._sentence(self.desired() or {})

    def _sentence(self, state: Mapping[str, Any], boot: str = "") -> str:
        """Return a sentence about a state; `boot` takes the place of whether the service starts at boot."""
        words = (boot if boot and name == "enabled" else WORDS[name][value] for name, value in state.items())
        return f"{self.name} {' and '.join(words)}"

    def needs(self) -> tuple[Need, ...]:
        """Return the functions that query and watch the service, and those that make it as declared."""
        verbs = [VERBS[name][value] for name, value in (self.desired() or {}).items()]
        return needed(ServiceInterface, "status", "watch", *verbs)

    def watch(self, ctx: Context) -> Watch:
        """Watch the signals of the service manager."""
        service = ctx.interface(ServiceInterface)
        return service.watch([self.name])

    async def inverse(self, ctx: Context) -> Declaration:
        """Return the present state of each declared aspect.

        A service that does not exist neither runs nor starts at boot.
        """
        status, wanted = await self.status(ctx), self.desired() or {}
        arguments: dict[str, Any] = {"name": self.name}
        if status.masked and status.extra.get("until_boot"):
            return Declaration("service.masked", {**arguments, "runtime": True})
        if status.masked or wanted.keys() == {"masked"}:
            return Declaration("service.masked" if status.masked else "service.unmasked", arguments)
        enabled = bool(status.exists and status.enabled)
        if "active" not in wanted:
            return Declaration("service.enabled" if enabled else "service.disabled", arguments)
        if "enabled" in wanted and status.enabled is not None:
            arguments["enable"] = enabled
        return Declaration("service.running" if status.exists and status.active else "service.dead", arguments)

    def contradicts(self, other: Resource) -> str | None:
        """Return the aspect for which both declare different values."""
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
        """Return the uid of the unit."""
        return (("unit", self._unit),)

    @property
    def _unit(self) -> str:
        return self.name if self.name.endswith(SUFFIXES) else f"{self.name}.service"


class Wanted(Edgeable, Service):
    """Base of the kinds that need the service to exist."""

    def dependencies(self) -> tuple[Dependency, ...]:
        """Return the unit file, its drop-in files, and the package of the same name."""
        return unit_dependencies(self.uids()[0][1])


class Running(Wanted, Refreshable, kind="service.running"):
    """A service runs, and starts at boot if `enable` is true.

    A change of a watched state restarts the service, or with `reload` reloads its configuration.

    nginx:
      service.running:
        - enable: true
        - reload: true
        - watch:
            - file: /etc/nginx/nginx.conf
    """

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("unmask", "start", "restart", "reload", "enable", "disable")

    enable: bool | None = field(None)
    """Start at boot (true) or not (false). Default: left as it is."""
    reload: bool = field(False)
    """After a change of a watched state, reload the configuration instead of restarting the service."""
    full_restart: bool = field(False)
    """Restart the service even if `reload` is set."""
    init_delay: float | None = field(None, unit="seconds", ge=0)
    """Seconds after a start until the agent checks that the service still runs."""
    no_block: bool = field(False)
    """Do not wait until the start is complete; a service that is starting then counts as running."""
    unmask: bool = field(False)
    """Unmask the service if it is masked."""

    def desired(self) -> State:
        """Return that the service runs.

        The service is enabled last, so that a service that cannot start is not started at each boot.
        """
        masked = {"masked": False} if self.unmask else {}
        return {**masked, "active": True, **({} if self.enable is None else {"enabled": self.enable})}

    def needs(self) -> tuple[Need, ...]:
        """Add what a change of a watched state does."""
        return super().needs() + needed(
            ServiceInterface, "reload" if self.reload and not self.full_restart else "restart"
        )

    async def probe(self, ctx: Context) -> State:
        """Probe as for all services; with `no_block`, a service that is starting counts as running."""
        state = dict(await super().probe(ctx) or {})
        if self.no_block and not state["active"]:
            state["active"] = (await self.status(ctx)).state == "activating"
        return state

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Unmask, start and enable the service, where these aspects differ."""
        await super().apply(ctx, delta)
        if "active" in delta.fields:
            await self._settle(ctx)

    async def refresh(self, ctx: Context, apply: bool) -> bool:
        """Reload or restart the service; start it if it does not run."""
        runs = bool((await self.status(ctx)).active)
        verb: EffectVerb = "start" if not runs else "reload" if self.reload and not self.full_restart else "restart"
        if apply:
            ctx.report.begin(lambda: self.account(ctx, Delta({"active": runs}, {"active": True}, ("active",))))
            await getattr(ctx.interface(ServiceInterface), verb)(self.name, options=self.options)
            await self._settle(ctx)
        ctx.report.changes = {self.name: True}
        ctx.report.did(Effect((verb,), self.name), applied=apply)
        return False

    async def _settle(self, ctx: Context) -> None:
        if self.init_delay:
            await asyncio.sleep(self.init_delay)
            if not (await self.status(ctx)).active:
                raise StillDiffers(f"{self.name} was started, but {self.init_delay:g} s later it does not run")


class Dead(Service, Refreshable, kind="service.dead"):
    """A service does not run, and does not start at boot if `enable` is false.

    A change of a watched state stops the service again.

    rpcbind:
      service.dead:
        - enable: false
    """

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("stop", "disable")

    enable: bool | None = field(None)
    """Start at boot (true) or not (false). Default: left as it is."""
    no_block: bool = field(False)
    """Do not wait until the stop is complete; a service that is stopping then counts as stopped."""
    init_delay: float | None = field(None, unit="seconds", ge=0)
    """Seconds after a stop until the agent checks that the service does not run again."""

    def desired(self) -> State:
        """Return that the service does not run, and the other declared aspects."""
        return {"active": False, **({} if self.enable is None else {"enabled": self.enable})}

    async def probe(self, ctx: Context) -> State:
        """Probe the service.

        A service that is starting, or waits to be started again, is not dead; a service that does not exist is.
        """
        status = await self.status(ctx)
        if not status.exists:
            return self.desired()
        gone = ("inactive", "failed", "deactivating") if self.no_block else ("inactive", "failed")
        return {**(await super().probe(ctx) or {}), "active": status.state not in gone}

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Stop and disable the service, where these aspects differ."""
        await super().apply(ctx, delta)
        if "active" in delta.fields:
            await self._settle(ctx)

    async def refresh(self, ctx: Context, apply: bool) -> bool:
        """Stop the service if it runs."""
        service = ctx.interface(ServiceInterface)
        ctx.report.touched = apply
        if not await service.stop(self.name, test=not apply):
            return True
        if apply:
            await self._settle(ctx)
        ctx.report.changes = {self.name: True}
        ctx.report.did(Effect(("stop",), self.name), applied=apply)
        return False

    async def _settle(self, ctx: Context) -> None:
        if self.init_delay:
            await asyncio.sleep(self.init_delay)
            if (await self.probe(ctx) or {}).get("active"):
                raise StillDiffers(f"{self.name} was stopped, but {self.init_delay:g} s later it runs again")


class Enabled(Wanted, kind="service.enabled"):
    """A service starts at boot; whether it runs now does not matter.

    With systemd, an alias means the unit that it leads to, and a unit without unit file its init script, whose links in
    /etc/rc?.d are changed by systemd's own tool and watched. A unit with `Also=` that is not enabled itself means the
    units listed there. A unit that is enabled until the next boot only is not enabled. A static unit, which has no
    section `[Install]`, counts as declared, and the comment says so. A unit that was generated from another file, such
    as /etc/fstab, is compared, but cannot be changed; the error names the file.

    ssh:
      service.enabled
    """

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("unmask", "enable")

    def desired(self) -> State:
        """Return that the service is enabled."""
        return {"enabled": True}


class Disabled(Service, kind="service.disabled"):
    """A service does not start at boot; whether it runs now does not matter.

    `service.enabled` says what this means for each kind of unit. What a generator of systemd enables at each boot, such
    as `console-getty` in containers, can only be masked.

    bluetooth:
      service.disabled
    """

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("disable",)

    def desired(self) -> State:
        """Return that the service is not enabled."""
        return {"enabled": False}


class Masked(Service, kind="service.masked"):
    """A service cannot be started at all.

    ctrl-alt-del.target:
      service.masked
    """

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("mask",)

    runtime: bool = field(False)
    """Mask the service only until the next boot."""

    def desired(self) -> State:
        """Return that the service is masked."""
        return {"masked": True}

    def _is_masked(self, status: ServiceStatus) -> bool:
        """Return whether the service has a mask that lasts as long as the declared one."""
        return bool(status.masked) and (self.runtime or not status.extra.get("until_boot"))

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Mask the service."""
        service = ctx.interface(ServiceInterface)
        await service.mask(self.name, self.runtime)


class Unmasked(Service, kind="service.unmasked"):
    """A service can be started.

    nginx:
      service.unmasked
    """

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("unmask",)

    runtime: bool = field(False)
    """Remove only a mask until the next boot."""

    def desired(self) -> State:
        """Return that the service is not masked."""
        return {"masked": False}

    def _is_masked(self, status: ServiceStatus) -> bool:
        """Return whether the service has a mask that is to be removed."""
        return bool(status.masked) and (not self.runtime or bool(status.extra.get("until_boot")))

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Unmask the service."""
        service = ctx.interface(ServiceInterface)
        await service.unmask(self.name, self.runtime)

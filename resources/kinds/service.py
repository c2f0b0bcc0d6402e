"""Services: running, dead, started at boot or not, masked or not."""

from __future__ import annotations

import asyncio
from typing import ClassVar, Self

from pydantic import model_validator

from holdfast.resources.context import Context
from holdfast.resources.delta import Delta, State
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.errors import StillDiffers
from holdfast.resources.fields import field
from holdfast.resources.interfaces.results import ServiceStatus
from holdfast.resources.interfaces.service import ServiceInterface
from holdfast.resources.kinds._services import ExistingService, Service
from holdfast.resources.needs import Need, needed
from holdfast.resources.traits import Declaration, Refreshable


class Running(ExistingService, Refreshable, kind="service.running"):
    """A service runs and, if `enable` is true, starts at boot.

    A change of a watched state restarts the service or, with `reload`, reloads its configuration.

    nginx:
      service.running:
        - enable: true
        - reload: true
        - watch:
            - file: /etc/nginx/nginx.conf
    """

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("unmask", "start", "restart", "reload", "enable", "disable")

    enable: bool | None = field(None)
    """Start at boot (true) or not (false). Default: unchanged."""
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
        """Add the functions that run after a change of a watched state."""
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
        """Unmask, start and enable the service as far as these aspects differ."""
        await super().apply(ctx, delta)
        if "active" in delta.fields:
            await self._settle(ctx)

    async def refresh(self, ctx: Context, apply: bool) -> bool:
        """Reload or restart the service; start it if it does not run."""
        status, service = await self.status(ctx), ctx.interface(ServiceInterface)
        runs = bool(status.active)
        verb: EffectVerb = "start" if not runs else "reload" if self.reload and not self.full_restart else "restart"
        if apply:
            ctx.report.begin(lambda: self.account(ctx, Delta({"active": runs}, {"active": True}, ("active",))))
            await getattr(service, verb)(self.name, options=self.options)
            await self._settle(ctx)
        elif verb == "reload":
            await service.reload(self.name, test=True)
        ctx.report.changes = {self.name: True}
        ctx.report.did(Effect((verb,), self.name), applied=apply)
        return False

    async def _settle(self, ctx: Context) -> None:
        if self.init_delay:
            await asyncio.sleep(self.init_delay)
            if not (await self.status(ctx)).active:
                raise StillDiffers(f"{self.name} was started, but {self.init_delay:g} s later it does not run")


class Dead(Service, Refreshable, kind="service.dead"):
    """A service does not run and, if `enable` is false, does not start at boot.

    A change of a watched state stops the service again.

    rpcbind:
      service.dead:
        - enable: false
    """

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("stop", "disable")

    enable: bool | None = field(None)
    """Start at boot (true) or not (false). Default: unchanged."""
    no_block: bool = field(False)
    """Do not wait until the stop is complete; a service that is stopping then counts as stopped."""
    init_delay: float | None = field(None, unit="seconds", ge=0)
    """Seconds after a stop until the agent checks that the service does not run again."""

    def desired(self) -> State:
        """Return that the service does not run, and the other declared aspects."""
        return {"active": False, **({} if self.enable is None else {"enabled": self.enable})}

    async def probe(self, ctx: Context) -> State:
        """Probe the service.

        A service that is starting or waits to be restarted is not dead; a service that does not exist is dead.
        """
        status = await self.status(ctx)
        if not status.exists:
            return self.desired()
        gone = ("inactive", "failed", "deactivating") if self.no_block else ("inactive", "failed")
        return {**(await super().probe(ctx) or {}), "active": status.state not in gone}

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Stop and disable the service as far as these aspects differ."""
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


class Enabled(ExistingService, kind="service.enabled"):
    """A service starts at boot; whether it runs now does not matter.

    With systemd, an alias means the unit to which it leads. A unit without a unit file means its init script, whose
    links in /etc/rc?.d systemd's own tool changes and the agent watches. A unit with `Also=` that is not enabled itself
    means the units listed there. A unit that is enabled only until the next boot is not enabled. A static unit, which
    has no section `[Install]`, counts as declared, and the comment says so. A unit that was generated from another
    file, such as /etc/fstab, is compared but cannot be changed; the error names the file, also in a plan.

    ssh:
      service.enabled
    """

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("unmask", "enable")

    def desired(self) -> State:
        """Return that the service is enabled."""
        return {"enabled": True}


class Disabled(Service, kind="service.disabled"):
    """A service does not start at boot; whether it runs now does not matter.

    `service.enabled` describes what this means for each kind of unit. A unit that a generator of systemd enables at
    each boot, such as `console-getty` in containers, can only be masked.

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
        """Return whether the service has a mask that lasts as long as the declared mask."""
        return bool(status.masked) and (self.runtime or not status.extra.get("until_boot"))

    async def _change(self, ctx: Context, delta: Delta, *, test: bool) -> None:
        service = ctx.interface(ServiceInterface)
        await service.mask(self.name, self.runtime, test=test)

    async def inverse(self, ctx: Context) -> Declaration:
        """Return the present state; a mask until the next boot, to which this state adds another one, is kept."""
        status = await self.status(ctx)
        if status.masked and status.extra.get("until_boot") and not self.runtime:
            return Declaration("service.unmasked", {"name": self.name, "lasting": True})
        return await super().inverse(ctx)


class Unmasked(Service, kind="service.unmasked"):
    """A service can be started.

    nginx:
      service.unmasked
    """

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("unmask",)

    runtime: bool = field(False)
    """Remove only a mask until the next boot."""
    lasting: bool = field(False)
    """Remove only a mask that outlives the next boot."""

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        if self.runtime and self.lasting:
            raise ValueError("runtime and lasting exclude each other; without both, all masks are removed")
        return self

    def desired(self) -> State:
        """Return that the service is not masked."""
        return {"masked": False}

    def _is_masked(self, status: ServiceStatus) -> bool:
        """Return whether the service has a mask to remove."""
        until_boot = bool(status.extra.get("until_boot"))
        return bool(status.masked) and (until_boot or not self.runtime) and not (until_boot and self.lasting)

    async def _change(self, ctx: Context, delta: Delta, *, test: bool) -> None:
        service = ctx.interface(ServiceInterface)
        await service.unmask(self.name, self.runtime, test=test, options={"lasting": True} if self.lasting else None)

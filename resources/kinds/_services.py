"""Base of the kinds of services: their probe, their repair and their inverse."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, ClassVar

from holdfast.resources.context import Context, Watch
from holdfast.resources.contract import Concern, Resource, Uid
from holdfast.resources.delta import Delta, State
from holdfast.resources.dependencies import Dependency, unit_dependencies
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.errors import Permanent
from holdfast.resources.fields import UNIT_TYPES, Unit
from holdfast.resources.interfaces.results import ServiceStatus
from holdfast.resources.interfaces.service import ServiceInterface
from holdfast.resources.needs import Need, needed
from holdfast.resources.stop_requests import stop_request
from holdfast.resources.traits import Declaration, Edgeable, Reversible

IGNORED = {
    "sig": "the service manager knows the state of a service; the agent does not search for processes",
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

        A service that can be neither enabled nor disabled counts as declared, and the comment says so. A service that
        starts only in some of its runlevels is neither enabled nor disabled. Raises `Permanent` if the state declares
        whether the service runs but this is unknown.
        """
        status = await self.status(ctx)
        if not status.active:
            ctx.report.ended = ctx.report.ended or str(status.extra.get("ended", ""))
        wanted = self.desired() or {}
        if status.active is None and "active" in wanted:
            raise Permanent(
                f"it is unknown whether {self.name} runs: its init script has no action `status`, and it "
                "has no pid file"
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
        """Return whether the service has a mask of the kind that the state manages."""
        return bool(status.masked)

    async def demand_possible(self, ctx: Context, delta: Delta) -> None:
        """Let the provider refuse what it cannot change. An earlier state may make a missing unit, or remove a mask."""
        status = await self.status(ctx)
        if status.exists and not status.masked:
            await self._change(ctx, delta, test=True)

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Change what differs, in the order of `desired`."""
        after, begun = delta.after or {}, time.time()
        await self._change(ctx, delta, test=False)
        if ctx.report.ended and after.get("active"):  # after the repair, which this must not delay
            ctx.report.ended += await stop_request(ctx, self._unit, begun)

    async def _change(self, ctx: Context, delta: Delta, *, test: bool) -> None:
        service, after = ctx.interface(ServiceInterface), delta.after or {}
        for name in delta.fields:
            await getattr(service, VERBS[name][after[name]])(self.name, test=test, options=self.options)

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
        """Return a sentence about a state; `boot` replaces the part on whether the service starts at boot."""
        words = (boot if boot and name == "enabled" else WORDS[name][value] for name, value in state.items())
        return f"{self.name} {' and '.join(words)}"

    def needs(self) -> tuple[Need, ...]:
        """Return the functions that query, watch and repair the service."""
        verbs = [VERBS[name][value] for name, value in (self.desired() or {}).items()]
        return needed(ServiceInterface, "status", "watch", *verbs)

    def watch(self, ctx: Context) -> Watch:
        """Watch the signals of the service manager."""
        service = ctx.interface(ServiceInterface)
        return service.watch([self.name])

    async def inverse(self, ctx: Context) -> Declaration:
        """Return a declaration of the present state of each declared aspect.

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


class ExistingService(Edgeable, Service):
    """Base of the kinds that need the service to exist."""

    def dependencies(self) -> tuple[Dependency, ...]:
        """Return the unit file, its drop-in files, and the package of the same name."""
        return unit_dependencies(self.uids()[0][1])

"""Services by systemd, over D-Bus only. No status is cached, and the provider waits until each change is complete."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import aclosing, suppress
from functools import partial
from pathlib import Path
from typing import Literal

from holdfast.resources.context import Watch
from holdfast.resources.errors import ChangedMeanwhile, Permanent, Temporary
from holdfast.resources.interfaces.base import Options
from holdfast.resources.interfaces.host import BusError, ProviderHost, Signal
from holdfast.resources.interfaces.provider import Confine
from holdfast.resources.interfaces.results import ChangeSet, ServiceStatus
from holdfast.resources.providers._at_boot import RUNTIME_LINKS
from holdfast.resources.providers._runlevels import BOOT
from holdfast.resources.providers._units import Units, job_result, manager_signals, unit_name, unit_signals
from holdfast.resources.providers.service_base import ServiceProvider, Verb
from holdfast.resources.watches import either

SETTLE = 0.25
"""Seconds for which a service that does not report readiness is observed after its start."""
UNSAID = ("simple", "exec", "idle")
"""Types of services that do not report readiness."""
OTHERS = 90.0
"""Seconds that the job of another program (a restart by hand) may take before it is replaced."""
LINKS = "/etc/systemd/system"
"""Directory of the links of enabled units, and of masks."""
OWN_UNITS = "/usr/local/lib/systemd/system"
"""Directory of unit files of the operator that can be masked."""
RELOAD_TIMEOUT = 90.0
"""Seconds that systemd may take to reload all unit files."""


class Systemd(ServiceProvider):
    """Units of the system manager. A name without a suffix is a service."""

    confine = Confine(grains={"kernel": ("Linux",)}, paths=("/run/systemd/system",), missing="it is not running here")

    def __init__(self, host: ProviderHost) -> None:
        super().__init__(host)
        self._units = Units(host)

    # -- the core ------------------------------------------------------------------------------------------------

    async def _names(self) -> Iterable[str]:
        """Return the names of all services, loaded or not, without their suffix."""
        units = (await self._units.manager("ListUnits"))[0]
        files = (await self._units.manager("ListUnitFiles"))[0]
        names = {unit[0] for unit in units if unit[2] != "not-found"} | {path.rpartition("/")[2] for path, _ in files}
        own = {name.removesuffix(".service") for name in names if name.endswith(".service") and "@." not in name}
        scripts: list[str] = await self.host.blocking(self._units.boot.without_unit, names)
        return own.union(scripts)

    async def _inspect(self, name: str) -> ServiceStatus:
        return await self._units.status(name)

    async def _perform(
        self, verb: Verb, name: str, before: ServiceStatus, timeout: float | None, *, wait: bool
    ) -> None:
        if wait and before.extra["job"]:
            before = await self._after_others(name)
        await self._demand(verb, name, before)
        # A job does not load a unit again that could not be loaded. If the file of a unit was missing during a reload
        # of systemd, the unit stays in error until the next reload, even if the file is back.
        if before.extra["stale"] or (before.extra["load_error"] and not before.masked):
            await self._units.manager("Reload", timeout=RELOAD_TIMEOUT)
        # Reset systemd's counter of failures, so that its start limit does not refuse the job. The engine has its own.
        if before.state == "failed" and verb in ("start", "restart"):
            await self._units.manager("ResetFailedUnit", "s", unit_name(name))
        await self._run_job(verb, name, timeout, wait=wait)

    async def _set_enabled(self, name: str, enabled: bool) -> None:
        now, verb = (await self._inspect(name)).extra, "enable" if enabled else "disable"
        if now["script"]:
            if not await self._units.boot.switch(name, now["script"], enabled):
                await self._units.manager("Reload", timeout=RELOAD_TIMEOUT)
        else:
            await self._link(verb.capitalize(), name, now["unit"], (False, True) if enabled else (False,))

    # -- changing the next boot ----------------------------------------------------------------------------------

    async def _demand_switch(self, verb: Literal["enable", "disable"], name: str, before: ServiceStatus) -> None:
        now = before.extra
        if now["script"]:
            self._units.boot.installer(verb, name, now["script"])
        elif now["file_state"] == "generated":
            raise Permanent(
                f"cannot {verb} {name}: systemd has generated it from {now['source'] or 'no file'}; edit that"
            )
        elif now["file_state"] == "transient":
            raise Permanent(f"cannot {verb} {name}: it is transient, a program has made it without a unit file")
        elif now["file_state"] == "enabled-runtime" and verb == "disable":
            raise Permanent(f"cannot disable {name}: a generator of systemd enables it at each boot; mask it")

    async def mask(self, name: str, runtime: bool = False, *, test: bool = False, options: Options = None) -> ChangeSet:
        """Forbid any start of a unit. Without `runtime`, a mask until the next boot does not suffice."""
        status = await self._inspect(name)
        masked = bool(status.masked) and (runtime or not status.extra["until_boot"])
        place = self.host.system_path(Path(RUNTIME_LINKS if runtime else LINKS, unit_name(name)))
        if not masked and place.is_file() and not place.is_symlink():
            raise Permanent(f"cannot mask {name}: {place} is where the mask would be; move this file to {OWN_UNITS}")
        change = partial(self._link, "Mask", name, unit_name(name), (runtime, True))
        return await self._switch(name, masked, True, change, test=test)

    async def unmask(
        self, name: str, runtime: bool = False, *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Allow the start of a unit: remove all masks, or with `runtime` only a mask until the next boot.

        Option `lasting`: remove only a mask that outlives the next boot.
        """
        status = await self._inspect(name)
        until_boot = status.extra["until_boot"]
        lasting = not runtime and bool((options or {}).get("lasting"))
        masked = bool(status.masked) and (not runtime or until_boot) and not (lasting and until_boot)
        levels = ((True,),) if runtime else ((False,),) if lasting else ((False,), (True,))
        change = partial(self._link, "Unmask", name, unit_name(name), *levels)
        return await self._switch(name, masked, False, change, test=test)

    async def _link(self, verb: str, name: str, unit: str, *calls: Sequence[bool]) -> None:
        """Change the links of a unit file by one call for each set of flags, and reload the manager.

        `unit` differs from the name if the name is an alias, because systemd refuses to enable an alias.
        """
        try:
            for flags in calls:
                signature = "as" + "b" * len(flags)
                await self._units.manager(f"{verb}UnitFiles", signature, [unit], *flags)
        except BusError as error:
            raise refused(verb.lower(), name, error) from error
        await self._units.manager("Reload", timeout=RELOAD_TIMEOUT)

    # -- changing what runs --------------------------------------------------------------------------------------

    def _is_done(self, verb: Verb, status: ServiceStatus) -> bool:
        # A job of another program may be about to stop a unit that runs.
        return super()._is_done(verb, status) and not (verb == "start" and status.extra["job"])

    async def _demand(self, verb: str, name: str, before: ServiceStatus) -> None:
        await super()._demand(verb, name, before)
        if before.masked and verb in ("start", "restart", "enable"):
            raise Permanent(f"cannot {verb} {name}: it is masked; set `unmask: true`")
        if verb == "reload" and not before.extra["can_reload"]:
            raise Permanent(
                f"cannot reload {name}: its unit has no ExecReload=; leave out `reload: true` to have it restarted"
            )

    async def _after_others(self, name: str) -> ServiceStatus:
        """Wait until another program's job for a unit has ended; return the status after that.

        A job of the agent would cancel a stop that is in progress.
        """
        matches = (manager_signals("JobRemoved"), unit_signals(await self._units.load(unit_name(name))))
        async with aclosing(self._units.signals(*matches)) as signals:
            with suppress(TimeoutError):
                async with asyncio.timeout(OTHERS):
                    while (status := await self._units.status(name)).extra["job"]:
                        await anext(signals)
        return status

    async def _run_job(self, verb: Verb, name: str, timeout: float | None, *, wait: bool) -> None:
        """Queue a job and wait for its end; after a start, wait until the service has settled."""
        begun = time.time()  # time of the journal's clock
        matches = (manager_signals("JobRemoved"), unit_signals(await self._units.load(unit_name(name))))
        async with aclosing(self._units.signals(*matches)) as signals:
            await anext(signals)
            try:
                async with asyncio.timeout(timeout):
                    job = (await self._units.manager(f"{verb.capitalize()}Unit", "ss", unit_name(name), "replace"))[0]
                    result = await job_result(signals, job) if wait else "skipped"
            except BusError as error:
                raise refused(verb, name, error) from error
            except TimeoutError:
                raise Temporary(f"cannot {verb} {name}: it took more than {timeout:g} s") from None
            if result == "canceled":
                raise ChangedMeanwhile(
                    f"cannot {verb} {name}: another program asked systemd for the opposite", delay=1.0
                )
            if result not in ("done", "skipped"):
                raise await self._units.failure_of(verb, name, result, begun)
            if result == "done" and verb in ("start", "restart"):
                await self._settle(verb, name, signals, begun)

    async def _settle(self, verb: str, name: str, signals: AsyncIterator[Signal | None], begun: float) -> None:
        """Check that a started service still runs. Raises `Permanent` with its last output if it does not."""
        status = await self._units.status(name)
        if status.active and status.extra["type"] in UNSAID:
            try:
                async with asyncio.timeout(SETTLE):
                    while status.active:
                        await anext(signals)
                        status = await self._units.status(name)
            except TimeoutError:
                return
        if status.active:
            return
        if status.extra["result"] == "success":
            hint = (
                "; for a one-time task its unit needs RemainAfterExit=yes" if status.extra["type"] == "oneshot" else ""
            )
            raise Permanent(
                f"cannot keep {name} running: it ended by itself{hint}{await self._units.last_words(name, begun)}"
            )
        raise await self._units.failure_of(verb, name, "it ended at once", begun)

    def _title(self, name: str) -> str:
        return f"unit {unit_name(name)}"

    # -- watching ------------------------------------------------------------------------------------------------

    def watch(self, names: Sequence[str]) -> Watch:
        """Watch the signals of these units, and their links for the start at boot, which other programs may change."""
        links = self.host.watch_path(LINKS, *map(str, BOOT), recursive=True)
        return either(self._signals(names), links)

    async def _signals(self, names: Sequence[str]) -> Watch:
        """Watch systemd. The end of a job always changes a property of its unit, so jobs need no watch."""
        while True:
            paths = await self._paths(names)
            matches = (*map(unit_signals, paths), manager_signals("UnitFilesChanged"), manager_signals("Reloading"))
            async with aclosing(self._units.signals(*matches)) as signals:
                async for signal in signals:
                    reload = signal is not None and signal.member == "Reloading"
                    if reload and signal is not None and signal.body[0]:
                        continue  # the reload begins; its end is reported, too
                    yield None
                    if reload and paths != await self._paths(names):
                        break  # a name became an alias of another unit, or is no longer one

    async def _paths(self, names: Sequence[str]) -> tuple[str, ...]:
        return tuple([await self._units.load(unit_name(name)) for name in names])


def refused(verb: str, name: str, error: BusError) -> Permanent | Temporary:
    """Return the error for a refused call: `Temporary` if the connection to D-Bus was lost, else `Permanent`."""
    if not error.name:
        return Temporary(f"cannot {verb} {name}: {error}", delay=error.delay)
    return Permanent(f"cannot {verb} {name}: {error}")

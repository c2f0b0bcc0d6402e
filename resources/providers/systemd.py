"""Services by systemd, over D-Bus only. No status is cached, and each change is waited for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, suppress

from holdfast.resources.context import Watch
from holdfast.resources.errors import Permanent, Temporary
from holdfast.resources.interfaces.base import Options
from holdfast.resources.interfaces.host import BusError, ProviderHost, Signal
from holdfast.resources.interfaces.provider import Confine, Provider
from holdfast.resources.interfaces.results import ChangeSet, ServiceStatus
from holdfast.resources.interfaces.service import ServiceInterface
from holdfast.resources.providers._units import Units, job_result, manager_signals, unit_name, unit_signals
from holdfast.resources.spelling import nearest
from holdfast.resources.watches import either

SETTLE = 0.25
"""Seconds for which a service that does not report readiness is observed after its start."""
UNSAID = ("simple", "exec", "idle")
"""Types of services that do not report readiness."""
OTHERS = 90.0
"""Seconds that the job of another program (a restart by hand) may take before it is replaced."""
LINKS = "/etc/systemd/system"
"""Directory of the links of enabled units."""
RELOAD_TIMEOUT = 90.0
"""Seconds that systemd may take to reload all unit files."""


class Systemd(Provider):
    """Units of the system manager. A name without a suffix is a service."""

    implements = ServiceInterface
    confine = Confine(grains={"kernel": ("Linux",)}, paths=("/run/systemd/system",), missing="it is not running here")

    def __init__(self, host: ProviderHost) -> None:
        super().__init__(host)
        self._units = Units(host)

    # -- querying ------------------------------------------------------------------------------------------------

    async def list(self) -> tuple[str, ...]:
        """Return the names of all services, loaded or not, without their suffix."""
        units = (await self._units.manager("ListUnits"))[0]
        files = (await self._units.manager("ListUnitFiles"))[0]
        names = {unit[0] for unit in units if unit[2] != "not-found"} | {path.rpartition("/")[2] for path, _ in files}
        return tuple(
            sorted(name.removesuffix(".service") for name in names if name.endswith(".service") and "@." not in name)
        )

    async def status(self, names: Sequence[str]) -> dict[str, ServiceStatus]:
        """Return the status of each service."""
        return {name: await self._units.status(name) for name in names}

    # -- changing ------------------------------------------------------------------------------------------------

    async def start(
        self, name: str, timeout: float | None = None, *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Start a unit, and check that it does not end at once. Option `no_block`."""
        return await self._change("start", name, timeout, test=test, options=options)

    async def stop(
        self, name: str, timeout: float | None = None, *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Stop a unit. Option `no_block`."""
        return await self._change("stop", name, timeout, test=test, options=options)

    async def restart(
        self, name: str, timeout: float | None = None, *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Restart a unit, and check that it does not end at once. Option `no_block`."""
        return await self._change("restart", name, timeout, test=test, options=options)

    async def reload(
        self, name: str, timeout: float | None = None, *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Reload the configuration of a unit. Option `no_block`."""
        return await self._change("reload", name, timeout, test=test, options=options)

    async def enable(self, name: str, *, test: bool = False, options: Options = None) -> ChangeSet:
        """Enable the start at boot; a unit that cannot be enabled is not changed."""
        before = await self._units.status(name)
        if not before.exists:
            raise Permanent(await self._unknown("enable", name))
        if before.masked:
            raise Permanent(f"cannot enable {name}: it is masked; set `unmask: true`")
        return await self._switch(
            "EnableUnitFiles", "asbb", name, (False, True), old=before.enabled, new=True, test=test
        )

    async def disable(self, name: str, *, test: bool = False, options: Options = None) -> ChangeSet:
        """Disable the start at boot; a unit that cannot be disabled is not changed."""
        enabled = (await self._units.status(name)).enabled
        return await self._switch("DisableUnitFiles", "asb", name, (False,), old=enabled, new=False, test=test)

    async def mask(self, name: str, runtime: bool = False, *, test: bool = False, options: Options = None) -> ChangeSet:
        """Forbid any start of a unit."""
        masked = bool((await self._units.status(name)).masked)
        return await self._switch("MaskUnitFiles", "asbb", name, (runtime, True), old=masked, new=True, test=test)

    async def unmask(
        self, name: str, runtime: bool = False, *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Allow the start of a unit: remove all masks, or with `runtime` only a mask until the next boot."""
        masked = bool((await self._units.status(name)).masked)
        levels = ((True,),) if runtime else ((False,), (True,))
        return await self._switch("UnmaskUnitFiles", "asb", name, *levels, old=masked, new=False, test=test)

    async def _switch(
        self, method: str, signature: str, name: str, *calls: Sequence[bool], old: bool | None, new: bool, test: bool
    ) -> ChangeSet:
        """Change the links of a unit file by these calls, and reload the manager.

        `old` None: there is nothing to change.
        """
        if old is None or old is new:
            return ChangeSet()
        if not test:
            try:
                for flags in calls:
                    await self._units.manager(method, signature, [unit_name(name)], *flags)
            except BusError as error:
                raise refused(method.removesuffix("UnitFiles").lower(), name, error) from error
            await self._units.manager("Reload", timeout=RELOAD_TIMEOUT)
        return ChangeSet(changes={name: {"old": old, "new": new}})

    async def _change(self, verb: str, name: str, timeout: float | None, *, test: bool, options: Options) -> ChangeSet:
        before = await self._units.status(name)
        if verb == "stop" and before.state in ("inactive", "failed"):
            return ChangeSet()
        changes = ChangeSet(changes={name: {"old": before.state, "new": "inactive" if verb == "stop" else "active"}})
        if not test:
            wait = not (options or {}).get("no_block")
            if wait and before.extra["job"]:
                before = await self._after_others(name)
            await self._prepare(verb, name, before)
            await self._run_job(verb, name, timeout, wait=wait)
        return changes

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

    async def _prepare(self, verb: str, name: str, before: ServiceStatus) -> None:
        """Prepare a job. Raises `Permanent` with the remedy if the job cannot succeed."""
        if not before.exists:
            raise Permanent(await self._unknown(verb, name))
        if before.extra["stale"]:
            await self._units.manager("Reload", timeout=RELOAD_TIMEOUT)
        if before.masked and verb in ("start", "restart"):
            raise Permanent(f"cannot {verb} {name}: it is masked; set `unmask: true`")
        if verb == "reload" and not before.extra["can_reload"]:
            raise Permanent(
                f"cannot reload {name}: its unit has no ExecReload=; leave out `reload: true` to have it restarted"
            )
        # Reset systemd's counter of failures, so that its start limit does not refuse the job. The engine has its own.
        if before.state == "failed" and verb in ("start", "restart"):
            await self._units.manager("ResetFailedUnit", "s", unit_name(name))

    async def _run_job(self, verb: str, name: str, timeout: float | None, *, wait: bool) -> None:
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
                raise Temporary(f"cannot {verb} {name}: another program asked systemd for the opposite", delay=1.0)
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

    async def _unknown(self, verb: str, name: str) -> str:
        near = nearest(name.removesuffix(".service"), await self.list())
        hint = f", did you mean {near}?" if near else "; is its package installed?"
        return f"cannot {verb} {name}: there is no unit {unit_name(name)}{hint}"

    # -- watching ------------------------------------------------------------------------------------------------

    def watch(self, names: Sequence[str]) -> Watch:
        """Watch the signals of these units, and their links for the start at boot, which other programs may change."""
        return either(self._signals(names), self.host.watch_path(LINKS, recursive=True))

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
                        break  # a name became an alias of another unit, or ceased to be one

    async def _paths(self, names: Sequence[str]) -> tuple[str, ...]:
        return tuple([await self._units.load(unit_name(name)) for name in names])


def refused(verb: str, name: str, error: BusError) -> Permanent | Temporary:
    """Return the error for a refused call: `Temporary` if the connection to D-Bus was lost, else `Permanent`."""
    if not error.name:
        return Temporary(f"cannot {verb} {name}: {error}", delay=error.delay)
    return Permanent(f"cannot {verb} {name}: {error}")

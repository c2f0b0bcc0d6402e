"""Units of systemd over D-Bus: calls, signals, and output from the journal."""

from __future__ import annotations

import asyncio
import signal as signals
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any

from holdfast.resources.errors import Permanent, Temporary
from holdfast.resources.interfaces.host import BusError, Match, ProviderHost, Signal
from holdfast.resources.interfaces.results import ServiceStatus
from holdfast.resources.providers._at_boot import AtBoot, Boot

SYSTEMD = "org.freedesktop.systemd1"
ROOT = "/org/freedesktop/systemd1"
PROPERTIES = "org.freedesktop.DBus.Properties"
SUFFIXES = ("service", "socket", "timer", "path", "mount", "automount", "swap", "target", "slice", "scope", "device")
ENDED = ("inactive", "failed")
ACTIVE = ("active", "reloading", "refreshing")
SERVICE = ("MainPID", "Type", "Result", "ExecMainStatus")
"""Properties that only services have."""
EXITED, KILLED, DUMPED = 1, 2, 3
"""Values of ExecMainCode: how the main process has ended."""
LAST_WORDS = 8
"""Number of lines of the journal in a message."""


def unit_name(name: str) -> str:
    """Return the unit that a name in a state file means; without a suffix it is a service."""
    return name if name.rpartition(".")[2] in SUFFIXES else f"{name}.service"


class Units:
    """Units as systemd sees them."""

    def __init__(self, host: ProviderHost) -> None:
        self._host, self.boot = host, Boot(host)

    async def manager(self, method: str, signature: str = "", *arguments: Any, timeout: float = 25.0) -> list[Any]:
        """Call the manager. Raises `BusError`."""
        return await self._host.bus().call(
            SYSTEMD, ROOT, f"{SYSTEMD}.Manager", method, signature, *arguments, timeout=timeout
        )

    async def load(self, unit: str) -> str:
        """Return the object path of a unit, which need not exist. Raises `Permanent` for an invalid name."""
        try:
            return str((await self.manager("LoadUnit", "s", unit))[0])
        except BusError as error:
            if error.name.endswith((".InvalidArgs", ".NoSuchUnit")):
                raise Permanent(f"cannot inspect {unit}: {error}") from error
            raise

    async def status(self, name: str) -> ServiceStatus:
        """Return the status of a unit; the call loads the unit."""
        unit = unit_name(name)
        path = await self.load(unit)
        call = self._host.bus().call
        found = (await call(SYSTEMD, path, PROPERTIES, "GetAll", "s", f"{SYSTEMD}.Unit"))[0]
        service: dict[str, Any] = {}
        if unit.endswith(".service"):
            values = await asyncio.gather(
                *(call(SYSTEMD, path, PROPERTIES, "Get", "ss", f"{SYSTEMD}.Service", item) for item in SERVICE)
            )
            service = {item: value[0] for item, value in zip(SERVICE, values, strict=True)}
        if service and found["ActiveState"] in ENDED:
            service["ExecMainCode"] = (
                await call(SYSTEMD, path, PROPERTIES, "Get", "ss", f"{SYSTEMD}.Service", "ExecMainCode")
            )[0]
        known = found["LoadState"] != "not-found"
        file_state = await self._file_state(found["Id"]) if known else ""
        boot = await self._at_boot(found, file_state)
        return ServiceStatus(
            name=name,
            exists=known or bool(boot.script),
            active=found["ActiveState"] in ACTIVE,
            state=found["ActiveState"],
            enabled=boot.enabled,
            masked=file_state.startswith("masked") or found["LoadState"] == "masked",
            pid=service.get("MainPID") or None,
            since=found["StateChangeTimestamp"] / 1e6 or None,
            extra={
                "unit": found["Id"],
                "sub_state": found["SubState"],
                "load_error": found["LoadError"][1],
                "file_state": file_state,
                "until_boot": file_state == "masked-runtime",
                "partly": boot.partly,
                "script": boot.script,
                "source": found.get("SourcePath", ""),
                "stale": found["NeedDaemonReload"],
                "can_reload": found["CanReload"],
                "job": found["Job"][0],
                "type": service.get("Type", ""),
                "result": service.get("Result", ""),
                "exit_status": service.get("ExecMainStatus", 0),
                "ended": ended(unit, service),
            },
        )

    async def _at_boot(self, unit: Mapping[str, Any], file_state: str) -> AtBoot:
        """Return how a unit starts at boot. A unit that is `indirect` does if the units in its `Also=` do."""
        if file_state != "indirect":
            return self.boot.of(unit, file_state)
        states = {await self._file_state(name) for name in self.boot.also(unit)} & {"enabled", "disabled"}
        return AtBoot("enabled" in states, partly=len(states) > 1) if states else AtBoot(None)

    async def _file_state(self, unit: str) -> str:
        try:
            return str((await self.manager("GetUnitFileState", "s", unit))[0])
        except BusError as error:
            if error.name:
                return ""  # it has no unit file, or one with errors
            raise

    async def signals(self, *matches: Match) -> AsyncGenerator[Signal | None, None]:
        """Yield signals of the manager. The manager sends signals only after a subscription on each connection."""
        async with aclosing(self._host.bus().signals(*matches)) as signals:
            async for signal in signals:
                if signal is None:
                    await self._subscribe()
                yield signal

    async def _subscribe(self) -> None:
        try:
            await self.manager("Subscribe")
        except BusError as error:
            if not error.name.endswith(".AlreadySubscribed"):
                raise

    async def failure_of(self, verb: str, name: str, result: str, since: float) -> Permanent:
        """Return the error for a unit that failed, with its exit status and its last output."""
        status = await self.status(name)
        how = status.extra["result"] if status.extra["result"] not in ("", "success", result) else ""
        code = f"status {status.extra['exit_status']}" if status.extra["exit_status"] else ""
        return Permanent(
            f"cannot {verb} {name}: {', '.join(filter(None, (result, how, code)))}{await self.last_words(name, since)}"
        )

    async def last_words(self, name: str, since: float) -> str:
        """Return a unit's output in the journal since a Unix time, as the end of a message; empty if there is none."""
        await self._host.run("journalctl", "--sync", check=False, timeout=5.0)
        options = (
            f"--unit={unit_name(name)}",
            f"--since=@{since:.6f}",
            f"--lines={LAST_WORDS}",
            "--output=cat",
            "--no-pager",
            "--quiet",
        )
        said = (await self._host.run("journalctl", *options, check=False, timeout=10.0)).stdout.strip()
        return f"; its journal:\n{said}" if said else ""


def ended(unit: str, service: Mapping[str, Any]) -> str:
    """Return how a service ended: `web.service was killed by signal 9 (SIGKILL)`; empty if it has not run.

    `service` has the properties of the service, which include ExecMainCode if it does not run.
    """
    code, status, result = service.get("ExecMainCode", 0), service.get("ExecMainStatus", 0), service.get("Result", "")
    if code not in (EXITED, KILLED, DUMPED):
        return ""
    if result == "oom-kill":
        return f"{unit} was killed because memory ran out (OOM)"
    how = f"ended with status {status}" if code == EXITED else _killed(status, dumped=code == DUMPED)
    if result == "success":
        return f"{unit} was stopped" if code == KILLED else f"{unit} {how}"
    why = f" ({result})" if result not in ("exit-code", "signal", "core-dump", "") else ""
    return f"{unit} {how}{why}"


def _killed(number: int, *, dumped: bool) -> str:
    """Return which signal killed a process."""
    try:
        name = f" ({signals.Signals(number).name})"
    except ValueError:  # a real-time signal
        name = ""
    return f"was killed by signal {number}{name}{' and dumped its memory' if dumped else ''}"


def unit_signals(path: str) -> Match:
    """Match changes of one unit's properties; on the bus, all units share one rule."""
    return Match(SYSTEMD, PROPERTIES, "PropertiesChanged", path=path, within=f"{ROOT}/unit")


def manager_signals(member: str) -> Match:
    """Match one kind of the manager's own signals."""
    return Match(SYSTEMD, f"{SYSTEMD}.Manager", member, path=ROOT)


async def job_result(signals: AsyncIterator[Signal | None], job: str) -> str:
    """Return the result of a job: `done`, `failed`, `canceled`, `timeout`, `dependency` or `skipped`.

    Raises `Temporary` if the result cannot be known.
    """
    async for signal in signals:
        if signal is None:
            break
        if signal.member == "JobRemoved" and signal.body[1] == job:
            return str(signal.body[3])
    raise Temporary("the connection to D-Bus ended before the job did", delay=0.1)

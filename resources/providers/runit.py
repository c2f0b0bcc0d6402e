"""Services by runit: its files are read directly, and `sv` changes what runs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from holdfast.resources import paths
from holdfast.resources.context import Completed
from holdfast.resources.errors import HoldfastError, Permanent, Temporary
from holdfast.resources.interfaces.host import ProviderHost
from holdfast.resources.interfaces.provider import Confine
from holdfast.resources.interfaces.results import ServiceStatus
from holdfast.resources.providers.service_base import STOPPING, CommandServiceProvider, Verb, text_of

SUPERVISED = (Path("/etc/service"), Path("/var/service"), Path("/service"))
"""Directories of links to the services that runsvdir supervises; the first one that exists is used."""
AVAILABLE = Path("/etc/sv")
"""Directory of all services."""
FOUND = 15.0
"""Seconds within which runsvdir finds a new link; it searches every five."""
EPOCH = (1 << 62) + 10
"""The Unix epoch in TAI64."""
STATES = {
    (0, "u"): "activating", (0, "d"): "inactive", (1, "u"): "active", (1, "d"): "deactivating",
    (2, "u"): "activating", (2, "d"): "deactivating",
}  # fmt: skip
"""State of the process (0: none, 1: runs, 2: the script `finish` runs), wanted state (up, down) -> state."""


class Runit(CommandServiceProvider):
    """Services that runsvdir supervises. A service starts at boot if it has a link but no file `down`."""

    confine = Confine(grains={"init": ("runit",)}, commands=("sv",))

    def __init__(self, host: ProviderHost) -> None:
        super().__init__(host)
        found = [path for path in map(host.system_path, SUPERVISED) if path.exists()]
        self._supervised = found[0] if found else host.system_path(SUPERVISED[0])
        self._available = host.system_path(AVAILABLE)

    # -- the core ------------------------------------------------------------------------------------------------

    async def _names(self) -> Iterable[str]:
        there = [home.iterdir() for home in (self._available, self._supervised) if home.exists()]
        return {home.name for homes in there for home in homes if paths.exists(f"{home}/run")}

    async def _look(self, name: str) -> ServiceStatus:
        status: ServiceStatus = await self.host.blocking(self._read, name)
        return status

    async def _act(self, verb: Verb, name: str, before: ServiceStatus) -> Completed:
        if verb == "reload":
            self._demand_handler(name, before.pid)
        elif verb != "stop":
            await self._supervise(name)
        return await self._run("sv", "-w", f"{STOPPING:g}", verb, str(self._supervised / name))

    async def _set_enabled(self, name: str, enabled: bool) -> None:
        if enabled:
            await self._supervise(name)
            with suppress(FileNotFoundError):
                paths.at(f"{self._home(name)}/down").unlink()
        else:
            self._keep_down(self._home(name))

    def _sources(self, name: str) -> Iterable[Path]:
        home = self._supervised / name
        return (home, home / "down", home / "supervise/status", self._available / name)

    # -- what runit does not do by itself ------------------------------------------------------------------------

    async def _supervise(self, name: str) -> None:
        """Have runsvdir supervise a service, which is not started at boot if it had no link until now."""
        link = self._supervised / name
        if not paths.exists(str(link)):
            self._keep_down(self._available / name)
            paths.at(str(link)).symlink(str(AVAILABLE / name))
        try:
            async with asyncio.timeout(FOUND):
                while not self._record(name):  # noqa: ASYNC110 - no event tells that runsv has opened its pipe
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise Temporary(f"cannot supervise {name}: runsvdir has not started it in {FOUND:g} s") from None

    def _keep_down(self, home: Path) -> None:
        """Keep runsv from starting a service when runsvdir finds the link to it."""
        with suppress(FileExistsError):
            paths.at(f"{home}/down").create(0o644)

    def _demand_handler(self, name: str, pid: int | None) -> None:
        """Raise `Permanent` if SIGHUP would end the process: runsv would then restart it."""
        status = text_of(self.host.system_path(Path(f"/proc/{pid}/status")))
        caught = [line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:")] or ["0"]
        if not int(caught[0], 16) & 1 and not paths.exists(f"{self._home(name)}/control/h"):
            raise Permanent(
                f"cannot reload {name}: its process does not handle SIGHUP; leave out `reload: true` to have it "
                "restarted"
            )

    # -- helpers -------------------------------------------------------------------------------------------------

    def _home(self, name: str) -> Path:
        link = self._supervised / name
        return link if paths.exists(str(link)) else self._available / name

    def _read(self, name: str) -> ServiceStatus:
        home, record = self._home(name), self._record(name)
        exists = paths.exists(f"{home}/run")
        enabled = exists and home.parent == self._supervised and not paths.exists(f"{home}/down")
        if record is None:
            return ServiceStatus(name=name, exists=exists, active=False, state="inactive", enabled=enabled)
        # A service that runs once (`sv once`) has no wanted state, so nothing needs to be changed.
        process, wanted = record[19], chr(record[17]) if record[17] else "ud"[record[19] != 1]
        state = STATES[process, wanted]
        since = int.from_bytes(record[:8]) - EPOCH + int.from_bytes(record[8:12]) / 1e9
        return ServiceStatus(
            name=name, exists=exists, active=state == "active", state=state, enabled=enabled,
            pid=int.from_bytes(record[12:16], "little") or None, since=since,
        )  # fmt: skip

    def _record(self, name: str) -> bytes | None:
        """Return the 20 bytes of the status of a service; None if no runsv supervises it."""
        supervise = self._supervised / name / "supervise"
        try:
            os.close(os.open(supervise / "ok", os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW))  # runsv has the pipe open
            record = paths.read(f"{supervise}/status")
        except (OSError, HoldfastError):
            return None
        return record if len(record) == 20 else None

    def _logs(self, name: str) -> Iterable[Path]:
        """Return the logs that svlogd writes in the usual places."""
        return (self._home(name) / "log/main/current", self.host.system_path(Path(f"/var/log/{name}/current")))

"""Services by OpenRC: its files are read directly, and `rc-service` and `rc-update` change them."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from holdfast.resources.context import Completed
from holdfast.resources.interfaces.host import ProviderHost
from holdfast.resources.interfaces.provider import Confine
from holdfast.resources.interfaces.results import ServiceStatus
from holdfast.resources.providers._init_scripts import InitScriptProvider
from holdfast.resources.providers._runlevels import Start
from holdfast.resources.providers.service_base import Verb, text_of

STATE = Path("/run/openrc")
RUNLEVELS = Path("/etc/runlevels")
BOOT = ("sysinit", "boot", "default")
"""Runlevels of a boot."""
STATES = {
    "starting": "activating", "stopping": "deactivating", "inactive": "activating", "started": "active",
    "failed": "failed",
}  # fmt: skip
"""Directory with links to the services in a state -> state; the first directory with a link counts."""
LOG = re.compile(r"(?:output_log=|error_log=|--output[= ])[\"']?(/[^\s\"']+)")
"""Where a script sends the output of its daemon."""


class OpenRC(InitScriptProvider):
    """OpenRC's own scripts, with a state in /run/openrc, and LSB scripts, with the action `status`.

    A service starts at boot if it is in a runlevel of the boot. The process of a service below `supervise-daemon` is
    that supervisor. If the supervisor is killed, OpenRC does not know the daemon that still runs.
    """

    confine = Confine(
        commands=("rc-service", "rc-update"), paths=(str(STATE / "softlevel"),), missing="it is not running here"
    )
    priority = 10
    """OpenRC often runs below another init, and uses the same directory of scripts."""

    def __init__(self, host: ProviderHost) -> None:
        super().__init__(host)
        self._state, self._levels = host.system_path(STATE), host.system_path(RUNLEVELS)

    # -- the core ------------------------------------------------------------------------------------------------

    async def _look(self, name: str) -> ServiceStatus:
        if not self._is_own(name):
            return await super()._look(name)
        status: ServiceStatus = await self.host.blocking(self._read, name)
        return status

    async def _act(self, verb: Verb, name: str, before: ServiceStatus) -> Completed:
        if not self._is_own(name):
            return await super()._act(verb, name, before)
        if before.state == "failed":  # OpenRC takes a crashed service for a started one
            await self._run(*self._command(name), "zap")
        return await self._run(*self._command(name), verb)

    def _start_of(self, name: str, text: str) -> Start:
        return Start(bool(self._boot_levels(name)))

    async def _set_enabled(self, name: str, enabled: bool) -> None:
        change = ("add", name, "default") if enabled else ("delete", name, *self._boot_levels(name))
        await self.host.run("rc-update", "--nocolor", *change)

    def _sources(self, name: str) -> Iterable[Path]:
        yield from super()._sources(name)
        yield from (self._state / place / name for place in STATES)
        yield from (self._levels / level / name for level in BOOT)

    # -- helpers -------------------------------------------------------------------------------------------------

    def _command(self, name: str) -> tuple[str, ...]:
        return ("rc-service", "--nocolor", name)

    def _is_own(self, name: str) -> bool:
        return "openrc-run" in self._text(name).partition("\n")[0]

    def _read(self, name: str) -> ServiceStatus:
        state, since = self._mark(name)
        pids = [self._pid_in(file) for file in self._pid_files(name)]
        if state == "active" and None in pids:
            state = "failed"  # OpenRC reports it as crashed
        return ServiceStatus(
            name=name, exists=True, active=state == "active", state=state, enabled=bool(self._boot_levels(name)),
            pid=next(filter(None, pids), None), since=since,
        )  # fmt: skip

    def _mark(self, name: str) -> tuple[str, float | None]:
        """Return the state of a service, and the time of OpenRC's link for it, which OpenRC moves at any moment."""
        for place, state in STATES.items():
            with suppress(FileNotFoundError):
                link = (self._state / place / name).lstat()
                if stat.S_ISLNK(link.st_mode):
                    return state, link.st_mtime
        return "inactive", None

    def _pid_files(self, name: str) -> set[Path]:
        """Return the pid files of a service that OpenRC and its start-stop-daemon have noted."""
        notes = [text_of(file) for file in (self._state / "daemons" / name).glob("*")]
        pairs = [line.partition("=") for note in notes for line in note.splitlines()]
        files = {value for key, _, value in pairs if key == "pidfile"}
        files.add(text_of(self._state / "options" / name / "pidfile").strip())
        return {self.host.system_path(Path(file)) for file in files if file.startswith("/")}

    def _boot_levels(self, name: str) -> list[str]:
        return [level for level in BOOT if (self._levels / level / name).is_symlink()]

    def _logs(self, name: str) -> Iterable[Path]:
        return [self.host.system_path(Path(path)) for path in LOG.findall(self._text(name))]

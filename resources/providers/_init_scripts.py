"""Services with init scripts in /etc/init.d: what a script reports, and what can be read from its text."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path

from holdfast.resources import paths
from holdfast.resources.context import Completed
from holdfast.resources.errors import Permanent
from holdfast.resources.interfaces.host import ProviderHost
from holdfast.resources.interfaces.results import ServiceStatus
from holdfast.resources.providers._runlevels import Start
from holdfast.resources.providers.service_base import CommandServiceProvider, Verb, text_of

SCRIPTS = Path("/etc/init.d")
NO_SERVICES = frozenset({"README", "functions", "functions.sh", "rc", "rcS", "skeleton", "single", "halt", "reboot"})
"""Files of the init system itself."""
STATES = {0: "active", 1: "failed", 2: "failed", 3: "inactive"}
"""Exit status of the action `status`, as the Linux Standard Base defines it -> state."""
STATUS_TIMEOUT = 30.0
"""Seconds that a script may take to report the status."""
LABEL = re.compile(r"^\s*\(?\s*([\w|\s\"'-]+?)\s*\)", re.MULTILINE)
"""Label of a branch of a `case`: `restart|force-reload)`."""
ASSIGNMENT = re.compile(r"^\s*(?:export\s+)?(\w+)=[\"']?([^\s\"';#]*)", re.MULTILINE)
VARIABLE = re.compile(r"\$\{?(\w+)\}?")
COMMON = "init-d-script"
"""Debian's interpreter of init scripts, which has all actions."""


class InitScriptProvider(CommandServiceProvider, ABC, abstract=True):
    """Derives from `_start_of` and `_set_enabled` what all services with LSB init scripts have in common.

    The status is that of the script's action `status`. If a script has neither this action nor a pid file, it is
    unknown whether its service runs.
    """

    def __init__(self, host: ProviderHost) -> None:
        super().__init__(host)
        self._scripts = host.system_path(SCRIPTS)

    @abstractmethod
    def _start_of(self, name: str, text: str) -> Start:
        """Return whether the boot starts a service whose script has this text."""

    def _command(self, name: str) -> tuple[str, ...]:
        """Return the command that takes an action as its last argument."""
        return (str(self._scripts / name),)

    async def _names(self) -> Iterable[str]:
        return await self.host.blocking(names_in, self._scripts)  # type: ignore[no-any-return]

    def _text(self, name: str) -> str:
        return text_of(self._scripts / name)

    async def _look(self, name: str) -> ServiceStatus:
        text, file = self._text(name), self._pid_file(name)
        pid = self._pid_in(file)
        if has_action(text, "status"):
            done = await self.host.run(*self._command(name), "status", check=False, timeout=STATUS_TIMEOUT)
            state = STATES.get(done.retcode, "unknown")
        else:
            state = "active" if pid else "unknown" if text and not paths.exists(str(file)) else "inactive"
        start = self._start_of(name, text)
        return ServiceStatus(
            name=name, exists=bool(text), active=None if state == "unknown" else state == "active", state=state,
            enabled=bool(text) and start.enabled, pid=pid, extra={"partly": start.partly},
        )  # fmt: skip

    def _pid_file(self, name: str) -> Path:
        return self.host.system_path(Path(os.path.normpath(pid_file(self._text(name), name))))

    async def _act(self, verb: Verb, name: str, before: ServiceStatus) -> Completed:
        if verb == "reload" and not has_action(self._text(name), "reload"):
            raise Permanent(
                f"cannot reload {name}: its init script has no action `reload` that is not a restart; leave out "
                "`reload: true` to have it restarted"
            )
        return await self._run(*self._command(name), verb)

    def _sources(self, name: str) -> Iterable[Path]:
        return (self._scripts / name, self._pid_file(name))


def names_in(directory: Path) -> set[str]:
    """Return the names of the services that have a script."""
    with os.scandir(directory) as entries:
        return {
            entry.name
            for entry in entries
            if entry.is_file() and os.access(entry.path, os.X_OK) and not is_of_init(entry.name)
        }


def is_of_init(name: str) -> bool:
    """Return whether a file in the directory of scripts belongs to the init system and is not a service."""
    return name in NO_SERVICES or name.startswith(".") or ".dpkg-" in name


def has_action(script: str, action: str) -> bool:
    """Return whether the text of a script has this action, and does not only restart the service for it."""
    if COMMON in script.partition("\n")[0]:
        return True
    labels = [set(re.findall(r"[\w-]+", label)) for label in LABEL.findall(script)]
    return any(action in label and "restart" not in label for label in labels)


def pid_file(script: str, name: str) -> Path:
    """Return the pid file that a script sets as PIDFILE or declares in a comment; default: /run/NAME.pid."""
    values = dict(reversed(ASSIGNMENT.findall(script)))  # the first assignment is used
    declared = re.search(r"^#\s*pidfile:\s*(/\S+)", script, re.MULTILINE)
    path = declared[1] if declared else values.get("PIDFILE", "")
    for _ in range(4):  # variables in the values of variables
        path = VARIABLE.sub(lambda found: values.get(found[1], ""), path)
    return Path(path) if path.startswith("/") else Path(f"/run/{name}.pid")

"""Whether units of systemd start at boot, by their unit file states, their init scripts, and generators."""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from holdfast.resources.errors import Permanent
from holdfast.resources.interfaces.host import ProviderHost
from holdfast.resources.providers._init_scripts import SCRIPTS, is_of_init, names_in
from holdfast.resources.providers._runlevels import LEVELS, Runlevels, wanted_levels
from holdfast.resources.providers.service_base import text_of

FIXED = ("static", "masked", "masked-runtime")
"""States of units that can be neither enabled nor disabled."""
SCRIPT_PLACES = (str(SCRIPTS), "/etc/rc.d/init.d")
"""Directories of scripts, as systemd names them."""
GENERATORS = tuple(Path(prefix, "lib/systemd/system-generators/systemd-sysv-generator") for prefix in ("/usr", "/"))
"""Paths of the program that makes units for scripts."""
INSTALLERS = tuple(Path(prefix, "lib/systemd/systemd-sysv-install") for prefix in ("/usr", "/"))
"""Paths of the program by which systemd changes the links of scripts."""
EARLY = "S"
"""The runlevel of sysvinit that systemd does not have: it ignores the scripts that only this one starts."""
PACKAGES = {"Debian": "systemd", "RedHat": "chkconfig"}
"""Family of distributions -> the package with this program."""
RUNTIME_LINKS = Path("/run/systemd/system")
"""Directory of the links of units that are enabled, and of masks, until the next boot."""
GENERATED = "/run/systemd/generator"
"""How the paths of generated units begin."""
ALSO = re.compile(r"^\s*Also\s*=(.*)$", re.MULTILINE)
"""A line of the section `[Install]` that names further units."""


class AtBoot(NamedTuple):
    """How a unit starts at boot."""

    enabled: bool | None
    """None if it can be neither enabled nor disabled."""
    partly: bool = False
    """Whether only some of the links that enable the unit exist."""
    script: str = ""
    """The init script from which systemd generates the unit."""


class Boot:
    """Reads whether units start at boot, and changes that for units that are generated from scripts."""

    def __init__(self, host: ProviderHost) -> None:
        self._host, self._runlevels = host, Runlevels(host, LEVELS - {EARLY})

    def of(self, unit: Mapping[str, Any], state: str) -> AtBoot:
        """Return how a unit with these properties and this unit file state starts at boot."""
        if script := self._script_of(unit, state):
            return AtBoot(*self._runlevels.start(script, self._text(script)), script)
        if state == "generated":
            return AtBoot(bool(unit.get("WantedBy") or unit.get("RequiredBy")))
        if state == "enabled-runtime":
            return AtBoot(not self._ends_with_this_boot(unit))
        return AtBoot(None if state in FIXED else state == "enabled")

    def also(self, unit: Mapping[str, Any]) -> list[str]:
        """Return the units to enable or disable in place of a unit whose unit file state is `indirect`."""
        text = text_of(self._host.system_path(Path(unit["FragmentPath"]))).replace("\\\n", " ")
        return [name for line in ALSO.findall(text.partition("[Install]")[2]) for name in line.split()]

    async def switch(self, name: str, script: str, enabled: bool) -> bool:
        """Change whether the boot starts a script, as systemctl does it; return whether that has reloaded systemd."""
        verb = "enable" if enabled else "disable"
        installer = self.installer(verb, name, script)
        await self._runlevels.switch(script, self._text(script), enabled, (str(installer), verb, script))
        return self._host.facts.get("os_family") == "Debian"  # update-rc.d does it

    def installer(self, verb: str, name: str, script: str) -> Path:
        """Return the program that changes the links of a script.

        Raises `Permanent` if it is missing, or if systemd ignores the links that the script asks for.
        """
        if wanted_levels(self._text(script)) == {EARLY}:
            raise Permanent(
                f"cannot {verb} {name}: its script {SCRIPTS / script} starts in runlevel {EARLY} only, which systemd "
                "does not have; install a unit file for it"
            )
        installer = self._first_program(INSTALLERS)
        if installer is None:
            package = PACKAGES.get(str(self._host.facts.get("os_family")))
            raise Permanent(
                f"cannot {verb} {name}: it has no unit file but the script {SCRIPTS / script}, and "
                f"{INSTALLERS[0]}, which changes the links of scripts, is missing"
                + (f"; it is in the package {package}" if package else "")
            )
        return installer

    def without_unit(self, units: Container[str]) -> list[str]:
        """Return the names of services whose script is newer than the units of systemd."""
        if self._first_program(GENERATORS) is None:
            return []
        try:
            scripts = names_in(self._host.system_path(SCRIPTS))
        except FileNotFoundError:
            return []
        return [name for script in scripts if f"{(name := script.removesuffix('.sh'))}.service" not in units]

    def _script_of(self, unit: Mapping[str, Any], state: str) -> str:
        """Return the script of a service that has no unit file; empty if it has none.

        The script may be so new that systemd has not generated its unit yet.
        """
        if state == "generated":
            source = PurePosixPath(unit.get("SourcePath") or "/")
            return source.name if str(source.parent) in SCRIPT_PLACES else ""
        name, _, suffix = unit["Id"].rpartition(".")
        if unit["LoadState"] != "not-found" or suffix != "service" or self._first_program(GENERATORS) is None:
            return ""
        places = (SCRIPTS / script for script in (name, f"{name}.sh"))
        found = self._first_program(places)
        return found.name if found and not is_of_init(found.name) else ""

    def _text(self, script: str) -> str:
        return text_of(self._host.system_path(SCRIPTS / script))

    def _first_program(self, places: Iterable[Path]) -> Path | None:
        """Return the first of these paths that is an executable file."""
        paths = map(self._host.system_path, places)
        return next((path for path in paths if path.is_file() and os.access(path, os.X_OK)), None)

    def _ends_with_this_boot(self, unit: Mapping[str, Any]) -> bool:
        """Return whether a unit is enabled only until the next boot.

        This is so if its links are in RUNTIME_LINKS, or if a unit file has replaced a generated unit since systemd was
        last reloaded: the generator does not make the links of that unit again.
        """
        if unit.get("FragmentPath", "").startswith(GENERATED):
            return True
        directories = self._host.system_path(RUNTIME_LINKS).glob("*.*")  # multi-user.target.wants and the like
        return any(os.path.lexists(directory / unit["Id"]) for directory in directories)

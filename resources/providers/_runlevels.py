"""The links in /etc/rc?.d, which say in which runlevels of a boot the script of a service is started."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from holdfast.resources.context import PATH
from holdfast.resources.errors import Permanent
from holdfast.resources.interfaces.host import ProviderHost

LEVELS = frozenset("S2345")
"""Runlevels of a boot by sysvinit."""
BOOT = tuple(Path(f"/etc/rc{level}.d") for level in sorted(LEVELS))
"""Directories of the links to the scripts that a boot starts."""
DEFAULT_START = re.compile(r"^#\s*Default-Start:([ \t0-9A-Za-z]*)$", re.MULTILINE)
"""Finds the runlevels that the header of a script asks for, as the Linux Standard Base defines it."""


def wanted_levels(text: str) -> set[str]:
    """Return the runlevels that the header of a script asks for."""
    header = DEFAULT_START.search(text)
    return set(header[1].split()) if header else set()


class Start(NamedTuple):
    """Whether the boot starts a script."""

    enabled: bool | None
    """Whether it is started in a runlevel of the boot; None if that cannot be changed."""
    partly: bool = False
    """Whether it is started, but not in all runlevels that its header asks for."""


class Runlevels:
    """The links of this host, which are read for each call: that takes less time than one call over D-Bus.

    `levels`: the runlevels in which the init system of the host starts scripts at a boot.
    """

    def __init__(self, host: ProviderHost, levels: frozenset[str]) -> None:
        self._host, self._levels = host, levels

    def start(self, name: str, text: str) -> Start:
        """Return whether the boot starts a script with this text."""
        levels = {place.name[2] for place in BOOT if _has_link(self._host.system_path(place), name)} & self._levels
        return Start(bool(levels), bool(levels) and not wanted_levels(text) & self._levels <= levels)

    async def switch(self, name: str, text: str, enabled: bool, *commands: tuple[str, ...]) -> None:
        """Make the links start a script, or not, by Debian's tool. Raises `Permanent` if the tool has not done so.

        The tool does not add a missing link if there are others. In this case, all links are removed and made again.
        """
        await self._run(*commands)
        if enabled and self.start(name, text).partly and shutil.which("update-rc.d", path=PATH):
            await self._run(("update-rc.d", name, "remove"), *commands)
        after = self.start(name, text)
        if after.enabled is not enabled or after.partly:
            verb, links = ("enable", "add") if enabled else ("disable", "remove")
            raise Permanent(f"cannot {verb} {name}: `{' '.join(commands[-1])}` did not {links} its links in /etc/rc?.d")

    async def _run(self, *commands: tuple[str, ...]) -> None:
        for command in commands:
            await self._host.run(*command)


def _has_link(directory: Path, name: str) -> bool:
    """Return whether a directory has a link `S..NAME`; the number has two digits."""
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(directory) as entries:
        return any(entry.name[3:] == name and entry.name[0] == "S" and entry.name[1:3].isdigit() for entry in entries)
    return False

"""Services by init scripts alone; `update-rc.d` changes the boot."""

from __future__ import annotations

import shutil
from pathlib import Path

from holdfast.resources.context import PATH
from holdfast.resources.interfaces.host import ProviderHost
from holdfast.resources.interfaces.provider import Confine
from holdfast.resources.providers._init_scripts import SCRIPTS, InitScriptProvider

BOOT = tuple(Path(f"/etc/rc{level}.d") for level in "S2345")
"""Directories of the links to the scripts that a boot starts."""


class SysV(InitScriptProvider):
    """Init scripts. A service starts at boot if a runlevel of the boot has a link `S..NAME` to its script.

    Without `update-rc.d`, no service can be enabled or disabled. A pid file makes a crash an event; the crash of a
    service without one is found by the next recheck.
    """

    confine = Confine(grains={"init": ("sysvinit",)}, paths=(str(SCRIPTS),))
    trees = BOOT

    def __init__(self, host: ProviderHost) -> None:
        super().__init__(host)
        self._boots = shutil.which("update-rc.d", path=PATH) is not None
        """Whether the start at boot can be changed."""

    def _enabled(self, name: str) -> bool | None:
        if not self._boots:
            return None
        return any(link for level in BOOT for link in self.host.system_path(level).glob(f"S[0-9][0-9]{name}"))

    async def _set_enabled(self, name: str, enabled: bool) -> None:
        if enabled:
            await self.host.run("update-rc.d", name, "defaults")
        await self.host.run("update-rc.d", name, "enable" if enabled else "disable")

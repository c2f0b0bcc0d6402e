"""Services by init scripts alone; `update-rc.d` or `chkconfig` changes the boot."""

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

    Without `update-rc.d` and `chkconfig`, no service can be enabled or disabled.
    """

    confine = Confine(grains={"init": ("sysvinit",)}, paths=(str(SCRIPTS),))
    trees = BOOT

    def __init__(self, host: ProviderHost) -> None:
        super().__init__(host)
        self._tool = next((tool for tool in ("update-rc.d", "chkconfig") if shutil.which(tool, path=PATH)), "")

    def _enabled(self, name: str) -> bool | None:
        if not self._tool:
            return None
        return any(link for level in BOOT for link in self.host.system_path(level).glob(f"S[0-9][0-9]{name}"))

    async def _set_enabled(self, name: str, enabled: bool) -> None:
        if self._tool == "chkconfig":
            await self.host.run("chkconfig", name, "on" if enabled else "off")
            return
        if enabled:
            await self.host.run("update-rc.d", name, "defaults")
        await self.host.run("update-rc.d", name, "enable" if enabled else "disable")

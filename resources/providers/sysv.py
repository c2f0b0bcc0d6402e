"""Services by init scripts alone; `update-rc.d` changes the boot."""

from __future__ import annotations

import shutil

from holdfast.resources.context import PATH
from holdfast.resources.interfaces.host import ProviderHost
from holdfast.resources.interfaces.provider import Confine
from holdfast.resources.providers._init_scripts import SCRIPTS, InitScriptProvider
from holdfast.resources.providers._runlevels import BOOT, LEVELS, Runlevels, Start


class SysV(InitScriptProvider):
    """Init scripts. A service starts at boot if a runlevel of the boot has a link `S..NAME` to its script.

    Without `update-rc.d`, no service can be enabled or disabled. A pid file makes a crash an event; the crash of a
    service without one is found by the next recheck.
    """

    confine = Confine(grains={"init": ("sysvinit",)}, paths=(str(SCRIPTS),))
    trees = BOOT

    def __init__(self, host: ProviderHost) -> None:
        super().__init__(host)
        self._runlevels = Runlevels(host, LEVELS)
        self._boots = shutil.which("update-rc.d", path=PATH) is not None
        """Whether the start at boot can be changed."""

    def _start_of(self, name: str, text: str) -> Start:
        return self._runlevels.start(name, text) if self._boots else Start(None)

    async def _set_enabled(self, name: str, enabled: bool) -> None:
        defaults = (("update-rc.d", name, "defaults"),) if enabled else ()
        switch = ("update-rc.d", name, "enable" if enabled else "disable")
        await self._runlevels.switch(name, self._text(name), enabled, *defaults, switch)

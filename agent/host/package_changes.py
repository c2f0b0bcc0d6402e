"""Postpones repairs of packages, their files and their units while another process may be changing them.

An administrator who removes a package stops its service first. An agent that starts the service again, or restores
files, would undo this work. So before each repair the engine asks this module whether another process is changing the
resource's package. After `TIMEOUT` seconds, repairs continue, and health reports that: an apt that waits for an answer
on an unattended terminal must not disable the agent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NoReturn

from holdfast.agent.engine.model.waits import Obstacle
from holdfast.agent.health import Health
from holdfast.resources import package_locks
from holdfast.resources.contract import Resource
from holdfast.resources.dependencies import UNITS
from holdfast.resources.errors import HoldfastError

TIMEOUT = 600.0
"""Seconds for which packages in use by another process are left alone."""
INTERVAL = 0.2
"""Seconds between two checks whether the other process is done. The kernel does not notify when a lock is released."""
FRESH = 0.005
"""Seconds for which a free lock counts as free without another check. dpkg needs longer to read its database, which
it does before it changes a file."""
CONDITION = "packages-in-other-hands"
"""Code of the health condition that names the other process."""


class PackageChanges:
    """Processes beside the agent that change packages. `pkg_interface` binds the package manager.

    The provider is loaded only when a package manager's lock (`held`) is first found taken: all providers together need
    more than a megabyte.
    """

    def __init__(
        self, pkg_interface: Callable[[], Any], health: Health, held: Callable[[], bool] = package_locks.held
    ) -> None:
        self._pkg_interface, self._health, self._held = pkg_interface, health, held
        self._pkg: Any = None
        self._free = 0.0
        """Loop time until which the lock counts as free without another check."""
        self._who = ""
        """The other process; empty if none is known."""
        self._begun = asyncio.Event()
        self._over = asyncio.Event()
        """Set when the other process is done or its time is up."""
        self._until = 0.0
        """Loop time at which its time is up."""

    async def obstacle(self, resource: Resource) -> Obstacle | None:
        """Return why a resource cannot be repaired now: another process is changing its package.

        None if no other process is changing it.
        """
        if self._who and self._over.is_set():
            return None  # the time of the other process is up
        who = self._others()
        if not who:
            return None
        try:
            why = await self._why(resource)
        except (HoldfastError, OSError):
            return None  # the run itself will report the error
        if not why:
            return None
        if not self._who:
            self._who, self._over = who, asyncio.Event()
            self._until = asyncio.get_running_loop().time() + TIMEOUT
            self._begun.set()
        return Obstacle(f"{self._who} {why}", self._until, self._over)

    async def _why(self, resource: Resource) -> str:
        """Return what the other process does to the package of the resource; empty if nothing."""
        names, paths = concerns(resource)
        if (names or paths) and await self._pkg.in_other_hands(names, paths):
            return "is changing its package"
        from holdfast.resources.kinds._packages import Packages  # noqa: PLC0415 - needed only beside another process

        # The resource would wait for the lock and occupy a worker meanwhile.
        waits = isinstance(resource, Packages) and await resource.wrong(self._pkg, apply=False)
        return "uses the package manager" if waits else ""

    async def run(self) -> NoReturn:
        """Follow the other processes until cancelled."""
        while True:
            await self._begun.wait()
            self._begun.clear()
            self._health.set(
                CONDITION,
                f"{self._who} uses the package manager: packages that it may change are left alone meanwhile",
            )
            while self._others():
                if asyncio.get_running_loop().time() >= self._until and not self._over.is_set():
                    minutes = TIMEOUT / 60
                    text = f"{self._who} has used the package manager for {minutes:g} min: repairs continue anyway"
                    self._health.set(CONDITION, text)
                    self._over.set()
                await asyncio.sleep(INTERVAL)
            self._who = ""
            self._over.set()
            self._health.clear(CONDITION)

    def _others(self) -> str:
        now = asyncio.get_running_loop().time()
        if now < self._free:
            return ""
        who = self._asked()
        if not who:
            self._free = now + FRESH
        return who

    def _asked(self) -> str:
        """Ask the provider for another process; bind the provider first, if a lock has never been found taken."""
        if self._pkg is None:
            if not self._held():
                return ""
            try:
                self._pkg = self._pkg_interface()
                self._pkg.others()
            except HoldfastError:
                self._pkg = NO_PACKAGE_MANAGER  # no package manager that could be asked
        return self._pkg.others() or ""


class NoPackageManager:
    """Stands in where no package manager is available."""

    @staticmethod
    def others() -> None:
        """Return None: there is no other process."""


NO_PACKAGE_MANAGER = NoPackageManager()


def concerns(resource: Resource) -> tuple[set[str], set[str]]:
    """Return the packages of a resource, and the paths by which a package may own it.

    For a service, the paths of its unit.
    """
    names, paths = set(), set()
    for kind, value in resource.uids():
        if kind == "pkg":
            names.add(value.partition(":")[0])
        elif kind == "path":
            paths.add(value)
        elif kind == "unit":
            paths |= {f"{directory}/{value}" for directory in UNITS}
    return names, paths

"""What an administrator's package manager has in its hands is left alone until he is done: packages, their files, their units.

Whoever removes a package stops its service first; an agent that starts it again, or puts files back, fights him, and loses time for both.
So before a resource is put right it is asked whether others are changing its package. After `PATIENCE` repairs go on all the same, and
health says so: an administrator who went home with a question of apt's on his screen must not switch off the agent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NoReturn

from holdfast.agent.engine.report import Obstacle
from holdfast.agent.health import Health
from holdfast.resources import package_locks
from holdfast.resources.contract import Resource
from holdfast.resources.dependencies import UNITS
from holdfast.resources.errors import HoldfastError

PATIENCE = 600.0
"""Seconds for which what others have in their hands is left alone."""
INTERVAL = 0.2
"""Seconds between two looks whether they are done; the kernel tells nobody when a lock is given up."""
CONDITION = "packages-in-other-hands"
"""Code of the health condition that tells of them."""


class Administrator:
    """Those who change packages beside the agent, as the engine asks about them. `interface` finds the provider of packages.

    The provider is looked for when a lock of a package manager (`held`) is held for the first time: all providers together take up more than a megabyte.
    """

    def __init__(
        self, interface: Callable[[str], Any], health: Health, held: Callable[[], bool] = package_locks.held
    ) -> None:
        self._interface, self._health, self._held = interface, health, held
        self._pkg: Any = None
        self._who = ""
        """Who is at work; empty: nobody has been seen with anything in his hands."""
        self._begun = asyncio.Event()
        self._over = asyncio.Event()
        """They are done, or their time is up."""
        self._until = 0.0
        """Loop time at which it is."""

    async def obstacle(self, resource: Resource) -> Obstacle | None:
        """What keeps a resource from being put right now: others have its package in their hands."""
        if self._who and self._over.is_set():
            return None  # their time is up
        who = self._others()
        if not who:
            return None
        try:
            why = await self._why(resource)
        except (HoldfastError, OSError):
            return None  # what cannot be read will be found by the run itself
        if not why:
            return None
        if not self._who:
            self._who, self._over = who, asyncio.Event()
            self._until = asyncio.get_running_loop().time() + PATIENCE
            self._begun.set()
        return Obstacle(f"{self._who} {why}", self._until, self._over)

    async def _why(self, resource: Resource) -> str:
        """What they do that is in its way; empty: nothing."""
        names, paths = concerns(resource)
        if (names or paths) and await self._pkg.in_other_hands(names, paths):
            return "is changing its package"
        from holdfast.resources.kinds._packages import Packages  # noqa: PLC0415 - only who is not alone needs it

        # It would wait for their lock, and take up a worker meanwhile.
        waits = isinstance(resource, Packages) and await resource.wrong(self._pkg, apply=False)
        return "uses the package manager" if waits else ""

    async def run(self) -> NoReturn:
        """Follow those who are at work, for ever."""
        while True:
            await self._begun.wait()
            self._begun.clear()
            self._health.set(
                CONDITION, f"{self._who} uses the package manager: what it has in its hands is left alone meanwhile"
            )
            while self._others():
                if asyncio.get_running_loop().time() >= self._until and not self._over.is_set():
                    text = f"{self._who} has used the package manager for {PATIENCE / 60:g} min: repairs go on in spite of that"
                    self._health.set(CONDITION, text)
                    self._over.set()
                await asyncio.sleep(INTERVAL)
            self._who = ""
            self._over.set()
            self._health.clear(CONDITION)

    def _others(self) -> str:
        if self._pkg is None:
            if not self._held():
                return ""
            try:
                self._pkg = self._interface("pkg")
                self._pkg.others()
            except HoldfastError:
                self._pkg = NOBODY  # no package manager that could be asked
        return str(self._pkg.others())


class Nobody:
    """Stands for the package manager where there is none."""

    @staticmethod
    def others() -> str:
        """Nobody."""
        return ""


NOBODY = Nobody()


def concerns(resource: Resource) -> tuple[set[str], set[str]]:
    """The packages that a resource is about, and the paths by which a package may own it; a service's are those of its unit."""
    names, paths = set(), set()
    for kind, value in resource.uids():
        if kind == "pkg":
            names.add(value.partition(":")[0])
        elif kind == "path":
            paths.add(value)
        elif kind == "unit":
            paths |= {f"{directory}/{value}" for directory in UNITS}
    return names, paths

"""Finds other programs that use apt and dpkg, by their locks, and the packages that they change.

A frontend (apt, aptitude) holds `lock-frontend` from its first question to its end, and `lock` while it does not run
dpkg; dpkg itself holds `lock`. So the locks show that another program is running. The state of a package in dpkg's
database shows that it is being changed: the state is no longer `installed` before the first script of the package runs.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.resources.interfaces.host import ProviderHost
from holdfast.resources.package_locks import PACKAGES, described, holder, is_ours
from holdfast.resources.providers._claims import Claims
from holdfast.resources.providers._pkg_database import Cache, PackageDatabase, differences


@dataclass(slots=True)
class LockedPackages:
    """The packages that another program changes, from when the agent notices it until it releases the locks."""

    before: PackageDatabase | None
    """The database before the other program began, if it is known."""
    claims: Claims
    """The paths of `packages`."""
    packages: set[str] = field(default_factory=set)
    """Packages that were not `installed` at some time, or that differ from before."""


class Others:
    """Other programs that change packages. Commands of the agent are not among them."""

    def __init__(self, database: Cache, host: ProviderHost, admin: Path, ucf: Path) -> None:
        self._database, self._host, self._admin, self._ucf = database, host, admin, ucf
        self._arch = str(host.facts.get("osarch", ""))
        self._session: LockedPackages | None = None
        self._reading = asyncio.Lock()

    def at_work(self) -> str:
        """Return the other program; empty if there is none."""
        pid = next(filter(None, map(holder, map(self._host.system_path, PACKAGES))), 0)
        who = "" if pid == 0 or is_ours(pid) else described(pid)
        if not who:
            self._session = None
        elif self._session is None:
            self._session = LockedPackages(self._database.last, Claims(self._admin, self._ucf, self._arch))
        return who

    async def have(self, names: frozenset[str], paths: frozenset[str]) -> bool:
        """Return whether another program is changing, or has changed, one of these packages or a path's package."""
        self.at_work()
        session = self._session
        if session is None:
            return False
        async with self._reading:
            # Read ucf's registry before dpkg's status, which takes longer: a script removes a file from the registry
            # before it removes the file itself.
            await self._host.blocking(session.claims.update, session.packages)
            now = await self._database.read()
            session.before = session.before or now
            new = now.unfinished | (session.before.residual - now.residual) | differences(session.before, now).keys()
            if not new <= session.packages:
                session.packages |= new
                await self._host.blocking(session.claims.update, session.packages)
        return not (session.packages.isdisjoint(names) and session.claims.paths.isdisjoint(paths))

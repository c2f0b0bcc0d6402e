"""Who else uses apt and dpkg: by their locks, and what they are changing.

A frontend (apt, aptitude) holds `lock-frontend` from its first question to its end, and `lock` whenever no dpkg of its own works; a dpkg
holds `lock`. So the locks tell that somebody is there. What he has in his hands is what dpkg has: before the first script of a package runs, its state
is no longer `installed`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.resources.interfaces.base import Host
from holdfast.resources.package_locks import PACKAGES, described, holder, is_ours
from holdfast.resources.providers._claims import UCF, Claims
from holdfast.resources.providers._dpkg import ADMIN, LISTS, Database, Dpkg, differences

LOCKS = (*PACKAGES, LISTS / "lock", Path("/var/cache/apt/archives/lock"))
"""And of those who fetch something."""


@dataclass(slots=True)
class Session:
    """What one of the others has in his hands, from when we saw him until he gives up the locks."""

    before: Database | None
    """As it was before he began, as far as that is known."""
    claims: Claims
    """The paths of `packages`."""
    packages: set[str] = field(default_factory=set)
    """Those that were not `installed` at some time, or are not as before."""


class Others:
    """Those who change packages beside us. Commands of the agent are none of them."""

    def __init__(self, dpkg: Dpkg, host: Host, admin: Path = ADMIN, ucf: Path = UCF) -> None:
        self._dpkg, self._host, self._admin, self._ucf = dpkg, host, admin, ucf
        self._arch = str(host.facts.get("osarch", ""))
        self._session: Session | None = None
        self._reading = asyncio.Lock()

    def at_work(self) -> str:
        """Who it is; empty: nobody."""
        pid = next(filter(None, map(holder, PACKAGES)), 0)
        who = "" if pid == 0 or is_ours(pid) else described(pid)
        if not who:
            self._session = None
        elif self._session is None:
            self._session = Session(self._dpkg.last, Claims(self._admin, self._ucf, self._arch))
        return who

    async def have(self, names: frozenset[str], paths: frozenset[str]) -> bool:
        """Whether one of these packages, or one that ships one of these paths, is or has been in their hands since they began."""
        self.at_work()
        session = self._session
        if session is None:
            return False
        async with self._reading:
            # Before dpkg is asked, which takes a while: a script that is about to remove a file has ucf forget it next.
            await self._host.blocking(session.claims.update, session.packages)
            now = await self._dpkg.read()
            session.before = session.before or now
            new = now.unfinished | (session.before.residual - now.residual) | differences(session.before, now).keys()
            if not new <= session.packages:
                session.packages |= new
                await self._host.blocking(session.claims.update, session.packages)
        return not (session.packages.isdisjoint(names) and session.claims.paths.isdisjoint(paths))


def lock_holder(paths: Iterable[Path] = LOCKS) -> str:
    """Who holds one of these locks, `process 123 (apt-get)`, or nothing."""
    pid = next(filter(None, map(holder, paths)), 0)
    return described(pid) if pid else ""

"""Who else uses apt and dpkg: by their locks, and what they are changing.

A frontend (apt, aptitude) holds `lock-frontend` from its first question to its end, and `lock` whenever no dpkg of its own works; a dpkg
holds `lock`. So the locks tell that somebody is there. What he has in his hands is what dpkg has: before the first script of a package runs, its state
is no longer `installed`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.resources.interfaces.base import Host
from holdfast.resources.locks import PACKAGES, described, holder, is_ours
from holdfast.resources.providers._dpkg import ADMIN, LISTS, Database, Dpkg, differences

LOCKS = (*PACKAGES, LISTS / "lock", Path("/var/cache/apt/archives/lock"))
"""And of those who fetch something."""


@dataclass(slots=True)
class Session:
    """What one of the others has in his hands, from when we saw him until he gives up the locks."""

    before: Database | None
    """As it was before he began, as far as that is known."""
    packages: set[str] = field(default_factory=set)
    """Those that were not `installed` at some time, or are not as before."""
    paths: set[str] = field(default_factory=set)
    """What they ship: kept, for dpkg forgets it with the package."""


class Others:
    """Those who change packages beside us. Commands of the agent are none of them."""

    def __init__(self, dpkg: Dpkg, host: Host, admin: Path = ADMIN) -> None:
        self._dpkg, self._host, self._info = dpkg, host, admin / "info"
        self._arch = str(host.facts.get("osarch", ""))
        self._session: Session | None = None

    def at_work(self) -> str:
        """Who it is; empty: nobody."""
        pid = next(filter(None, map(holder, PACKAGES)), 0)
        who = "" if pid == 0 or is_ours(pid) else described(pid)
        if not who:
            self._session = None
        elif self._session is None:
            self._session = Session(self._dpkg.last)
        return who

    async def have(self, names: frozenset[str], paths: frozenset[str]) -> bool:
        """Whether one of these packages, or one that ships one of these paths, is or has been in their hands since they began."""
        self.at_work()
        session = self._session
        if session is None:
            return False
        now = await self._dpkg.read()
        session.before = session.before or now
        new = (now.unfinished | differences(session.before, now).keys()) - session.packages
        if new:
            session.packages |= new
            session.paths |= await self._host.blocking(self._shipped, new)
        return not (session.packages.isdisjoint(names) and session.paths.isdisjoint(paths))

    def _shipped(self, names: Iterable[str]) -> set[str]:
        """What they ship, but for the directories that every host has."""
        return set().union(*map(self._listed, names)) - self._listed("base-files")

    def _listed(self, name: str) -> set[str]:
        for file in (self._info / f"{name}.list", self._info / f"{name}:{self._arch}.list"):
            try:
                return set(file.read_text(errors="surrogateescape").split("\n"))
            except OSError:
                continue
        return set()


def lock_holder(paths: Iterable[Path] = LOCKS) -> str:
    """Who holds one of these locks, `process 123 (apt-get)`, or nothing."""
    pid = next(filter(None, map(holder, paths)), 0)
    return described(pid) if pid else ""

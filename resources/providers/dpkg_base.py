"""Base of the providers of packages that dpkg installs: dpkg's own reports, and recovery from an interruption."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Literal

from holdfast.resources.interfaces.host import ProviderHost
from holdfast.resources.interfaces.results import FileDeviation, PkgInfo
from holdfast.resources.providers._claims import UCF
from holdfast.resources.providers._deviations import deviations
from holdfast.resources.providers._dpkg import (
    ADMIN,
    DESCRIPTION,
    FORMAT,
    Files,
    compare_versions,
    descriptions,
    parse,
    shipped,
    shippers,
)
from holdfast.resources.providers._locks import Others
from holdfast.resources.providers._pkg_database import PackageDatabase, by_name
from holdfast.resources.providers.pkg_base import PkgProvider


class DpkgProvider(PkgProvider, abstract=True):
    """Reads and compares packages by dpkg."""

    database = (ADMIN / "status",)
    intermediate = (ADMIN / "updates",)

    def __init__(self, host: ProviderHost) -> None:
        super().__init__(host)
        self._admin = host.system_path(ADMIN)
        self._files = Files(str(host.facts.get("osarch", "")), self._admin)
        self._others = Others(self._cache, host, self._admin, host.system_path(UCF))

    async def _query(self) -> PackageDatabase:
        return parse((await self.host.run("dpkg-query", "--show", f"--showformat={FORMAT}", limit=1 << 26)).stdout)

    async def compare(self, a: str, b: str) -> Literal[-1, 0, 1]:
        """Compare two versions by Debian's rules."""
        return compare_versions(a, b)

    async def _recover(self, database: PackageDatabase, *, failed: bool = False) -> str:
        """Finish an interrupted installation: apt refuses all work until then."""
        if not (self._was_interrupted() or (database.unfinished and not failed)):
            return ""
        packages = sorted(database.unfinished)
        self.host.log.warning("an installation was interrupted: finishing it", packages=packages)
        done = await self._run("dpkg", "--force-confdef", "--force-confold", "--configure", "--pending")
        return self._reason(done) if done.retcode else ""

    def _was_interrupted(self) -> bool:
        """Return whether a dpkg was interrupted. Its changes are not in the status file yet."""
        return any((self._admin / "updates").iterdir())

    # -- files and descriptions ----------------------------------------------------------------------------------

    async def owner(self, paths: Sequence[str]) -> dict[str, str | None]:
        """Search dpkg's lists of files; /bin and /usr/bin are the same directory, and so are /sbin and /lib."""
        found: dict[str, str] = await self.host.long_blocking(shippers, self._admin, paths)
        return {path: found.get(path) for path in paths}

    async def files(self, names: Sequence[str]) -> dict[str, list[str]]:
        """Read dpkg's lists of files, which have directories, too."""
        database = await self._cache.read()
        there = {name: found[0] for name in names if (found := database.named(name))}
        return {name: await self.host.blocking(shipped, self._admin, pkg) for name, pkg in there.items()}

    async def info(self, names: Sequence[str] = ()) -> dict[str, PkgInfo]:
        """Return descriptions from dpkg's database, which has no licenses; extra: maintainer, section, source."""
        done = await self._run(
            "dpkg-query", "--show", f"--showformat={DESCRIPTION}", looks=True, to="describe packages"
        )
        database = PackageDatabase(by_name(descriptions(done.stdout)))
        found: dict[str, Any] = {name: database.named(name) for name in names or database.installed}
        return {name: pkgs[0] for name, pkgs in found.items() if pkgs}

    async def verify(self, names: Sequence[str] = ()) -> dict[str, list[FileDeviation]]:
        """Compare digests by `dpkg --verify`, which checks only the content of files, and whether they exist."""
        database = await self._cache.read()
        there = [name for name in names if database.named(name)]
        if names and not there:
            return {}
        command = ("dpkg", "--verify", "--verify-format=rpm", *there)
        done = await self._run(*command, looks=True, accept=(0, 1), to="verify packages")
        found: dict[str, list[FileDeviation]] = {}
        wrong = {deviation.path: deviation for deviation in deviations(done.stdout)}
        for path, name in (await self.owner(list(wrong)) if wrong else {}).items():
            if name:
                found.setdefault(name, []).append(wrong[path])
        return found

    async def residual(self, names: Sequence[str]) -> list[str]:
        """Return the removed packages whose configuration files are still there."""
        left = (await self._cache.read()).residual
        return [name for name in names if name in left]

    async def owners(self, names: Sequence[str], paths: AbstractSet[str]) -> dict[str, list[str]]:
        """Search dpkg's lists of files; each is read again only after a change or for new paths."""
        found: dict[str, list[str]] = await self.host.blocking(self._files.owners, names, frozenset(paths))
        return found

    # -- other programs ------------------------------------------------------------------------------------------

    def others(self) -> str | None:
        """Return the process that holds dpkg's lock or the lock of its frontends."""
        return self._others.at_work() or None

    async def in_other_hands(self, names: AbstractSet[str], paths: AbstractSet[str]) -> bool:
        """Use dpkg's states of packages and its lists of files."""
        return await self._others.have(frozenset(names), frozenset(paths))

    def _notice(self) -> None:
        self._others.at_work()  # the next read may find a change by another program

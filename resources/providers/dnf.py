"""Packages by dnf 4.

Only `refresh` fetches lists of packages; all other commands use those that are there, however old. A repository that
cannot be reached does not prevent the use of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from holdfast.resources import paths
from holdfast.resources.errors import Permanent
from holdfast.resources.interfaces.provider import Confine
from holdfast.resources.interfaces.results import Patch
from holdfast.resources.providers import _dnf, _rpm
from holdfast.resources.providers._pkg_database import Changes
from holdfast.resources.providers.pkg_base import Fetched, Transaction
from holdfast.resources.providers.rpm_base import RpmProvider

CACHE = Path("/var/cache/dnf")
DNF = ("dnf", "--assumeyes", "--setopt=*.skip_if_unavailable=1")
STALE = "--setopt=*.metadata_expire=never"
"""Accepts lists of packages of any age."""
LOOK = ("dnf", "--assumeno", "--cacheonly", "--setopt=logdir=/run/holdfast/dnf")
"""Only reads: downloads nothing, and writes no log beside those of an administrator's commands."""
LOCKED = Path("/etc/dnf/plugins/versionlock.list")


class Dnf(RpmProvider):
    """Packages of Fedora, Red Hat and their relatives where dnf is version 4, which has the command `dnf-3`.

    Options of `install`: `fromrepo`, `skip_verify`, `update_holds`, `only_upgrade`, `install_recommends`.
    """

    confine = Confine(grains={"os_family": ("RedHat",)}, commands=("dnf-3", "rpm"))
    lists = (CACHE,)
    repositories = Path("/etc/yum.repos.d")
    sources = (repositories,)
    pids = (Path("/var/lib/dnf/rpmdb_lock.pid"), CACHE / "metadata_lock.pid")
    missing = ("No match for argument", "Unable to find a match", "nothing provides", "no cache for", "Cannot download")

    async def _offered(self, names: Sequence[str]) -> dict[str, list[str]]:
        query = ("repoquery", "--quiet", "--available", "--queryformat=%{name} %{evr}")
        done = await self._run(*LOOK, *query, *names, to=f"ask dnf for {', '.join(names)}", looks=True)
        return _rpm.offers((name, version) for name, version in map(str.split, done.stdout.splitlines()))

    async def _plan(self, transaction: Transaction) -> Changes:
        command = (*LOOK, *_dnf.arguments(transaction))
        done = await self._run(*command, to=transaction.title, accept=(0, 1), looks=True)
        if done.retcode and _dnf.DECLINED not in done.stderr:
            raise Permanent(f"cannot {transaction.title}: {self._reason(done)}")
        return _rpm.changed(await self._cache.read(), *_dnf.planned(done.stdout))

    async def _make(self, transaction: Transaction) -> None:
        await self._run(*DNF, STALE, *_dnf.arguments(transaction), to=transaction.title)
        if again := [pkg.name for pkg in transaction.pkgs if pkg.reinstall]:
            await self._run(*DNF, STALE, "reinstall", *again, to=f"reinstall {', '.join(again)}")

    async def _fetch_lists(self) -> Fetched:
        done = await self._run(*DNF, "--verbose", "makecache", "--refresh")
        result = _dnf.repositories(done.stdout, done.stderr)
        return Fetched(result, self._reason(done) if done.retcode or "failed" in result.values() else "")

    # -- optional functions --------------------------------------------------------------------------------------

    async def _held(self) -> frozenset[str]:
        """Read the list of the plugin `versionlock`; excluded versions (`!name...`) are no holds."""
        try:
            text = await self.host.blocking(paths.read, str(self.host.system_path(LOCKED)))
        except FileNotFoundError:
            return frozenset()
        return _dnf.locked(text.decode(errors="replace"))

    async def _set_held(self, names: Sequence[str], held: bool) -> None:
        verb = "add" if held else "delete"
        await self._run(*DNF, STALE, "versionlock", verb, *names, to=f"{verb} a lock of {', '.join(names)}")

    async def _unneeded(self) -> list[str]:
        query = ("repoquery", "--quiet", "--unneeded", "--queryformat=%{name}")
        done = await self._run(*LOOK, *query, to="find packages that are not needed", looks=True)
        return done.stdout.split()

    async def download(self, names: Sequence[str]) -> dict[str, str]:
        """Fetch packages and what they need by the plugin `download`, to a directory in dnf's cache."""
        if not names:
            return {}
        to, directory = f"download {', '.join(names)}", CACHE / "holdfast"
        await self._run(*DNF, STALE, "download", "--resolve", f"--destdir={directory}", *names, to=to)
        query = ("repoquery", "--quiet", "--available", "--latest-limit=1", "--queryformat=%{name} %{location}")
        done = await self._run(*LOOK, *query, *names, to=to, looks=True)
        return {name: str(directory / Path(file).name) for name, file in map(str.split, done.stdout.splitlines())}

    async def groups(self, names: Sequence[str] = ()) -> dict[str, list[str]]:
        """Return the groups with their mandatory, default, optional and conditional packages."""
        done = await self._run(*LOOK, "--quiet", "group", "info", *(names or ["*"]), to="list groups", looks=True)
        return _dnf.groups(done.stdout)

    async def patches(self, names: Sequence[str] = ()) -> dict[str, Patch]:
        """Return the advisories for installed packages; those without an installed package are left out."""
        command = (*LOOK, "--quiet", "updateinfo")
        listed = await self._run(*command, "list", "--all", *names, to="list patches", looks=True)
        told = await self._run(*command, "info", "--all", *names, to="describe patches", looks=True)
        return _dnf.patches(listed.stdout, told.stdout)

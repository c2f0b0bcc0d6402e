"""Packages by dnf 4."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from holdfast.resources import paths
from holdfast.resources.interfaces.provider import Confine
from holdfast.resources.interfaces.results import Patch
from holdfast.resources.providers import _dnf
from holdfast.resources.providers.dnf_base import ASSENT, DnfProvider
from holdfast.resources.providers.pkg_base import Fetched

CACHE = Path("/var/cache/dnf")
LOCKED = Path("/etc/dnf/plugins/versionlock.list")


class Dnf(DnfProvider):
    """Packages of Fedora, Red Hat and their relatives where `dnf` is version 4, also called `dnf-3`.

    Options of `install`: `fromrepo`, `skip_verify`, `update_holds`, `only_upgrade`, `install_recommends`.
    """

    confine = Confine(grains={"os_family": ("RedHat",)}, commands=("dnf-3", "rpm"), unless={"dnf": "dnf5"})
    command = "dnf-3"
    replaced = _dnf.REPLACED
    unlocked = "--disableplugin=versionlock"
    downloads = CACHE / "holdfast"
    lists = (CACHE,)
    pids = (Path("/var/lib/dnf/rpmdb_lock.pid"), CACHE / "metadata_lock.pid")

    async def _fetch_lists(self) -> Fetched:
        done = await self._run(self.command, *ASSENT, "--verbose", "makecache", "--refresh")
        result = _dnf.repositories(done.stdout, done.stderr)
        return Fetched(result, self._reason(done) if done.retcode or "failed" in result.values() else "")

    async def _held(self) -> frozenset[str]:
        """Read the list of the plugin `versionlock`; excluded versions (`!name...`) are no holds."""
        try:
            text = await self.host.blocking(paths.read, str(self.host.system_path(LOCKED)))
        except FileNotFoundError:
            return frozenset()
        return _dnf.locked(text.decode(errors="replace"))

    async def groups(self, names: Sequence[str] = ()) -> dict[str, list[str]]:
        """Return the groups with their mandatory, default, optional and conditional packages."""
        return _dnf.groups(await self._look("--quiet", "group", "info", *(names or ["*"]), to="list groups"))

    async def patches(self, names: Sequence[str] = ()) -> dict[str, Patch]:
        """Return the advisories for installed packages; those without an installed package are left out."""
        command = ("--quiet", "updateinfo")
        listed = await self._look(*command, "list", "--all", *names, to="list patches")
        return _dnf.patches(listed, await self._look(*command, "info", "--all", *names, to="describe patches"))

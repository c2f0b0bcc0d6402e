"""Packages by dnf 5."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from holdfast.resources import paths
from holdfast.resources.context import Completed
from holdfast.resources.interfaces.provider import Confine
from holdfast.resources.interfaces.results import Patch
from holdfast.resources.providers import _dnf5
from holdfast.resources.providers.dnf_base import ASSENT, LOOKS, DnfProvider
from holdfast.resources.providers.pkg_base import Fetched

LOCKED = Path("/etc/dnf/versionlock.toml")


class Dnf5(DnfProvider):
    """Packages of Fedora since 41, where `dnf` is version 5. Preferred where `dnf` is neither version.

    Options of `install`: `fromrepo`, `skip_verify`, `update_holds`, `only_upgrade`, `install_recommends`. `watch` does
    not see that another program has fetched lists of packages, as dnf 5 keeps them in subdirectories.
    """

    confine = Confine(grains={"os_family": ("RedHat",)}, commands=("dnf5", "rpm"), unless={"dnf": "dnf-3"})
    priority = 1
    command = "dnf5"
    end = "\\n"
    looks = (*LOOKS, "--setopt=*.skip_if_unavailable=1")
    replaced = _dnf5.REPLACED
    unlocked = "--setopt=disable_excludes=*"
    downloads = Path("/var/cache/holdfast/dnf")
    lists = (Path("/var/cache/libdnf5"),)

    async def _fetch_lists(self) -> Fetched:
        done = await self._run(self.command, *ASSENT, "makecache", "--refresh")
        known = _dnf5.enabled(await self._look("repolist", "--json", to="list repositories"))
        result = _dnf5.repositories(done.stderr, known)
        why = self._reason(done) if done.retcode else _dnf5.complaints(done.stderr)
        return Fetched(result, why if done.retcode or "failed" in result.values() else "")

    def _reason(self, done: Completed) -> str:
        return super()._reason(done._replace(stderr=_dnf5.without_progress(done.stderr)))

    async def _held(self) -> frozenset[str]:
        """Read dnf's locks; those that only exclude a version are no holds."""
        try:
            text = await self.host.blocking(paths.read, str(self.host.system_path(LOCKED)))
        except FileNotFoundError:
            return frozenset()
        return _dnf5.locked(text.decode(errors="replace"))

    async def groups(self, names: Sequence[str] = ()) -> dict[str, list[str]]:
        """Return the groups with their mandatory, default, optional and conditional packages."""
        return _dnf5.groups(await self._look("--quiet", "group", "info", *(names or ["*"]), to="list groups"))

    async def patches(self, names: Sequence[str] = ()) -> dict[str, Patch]:
        """Return the advisories for installed packages; those without an installed package are left out."""
        command = ("--quiet", "advisory")
        there = await self._look(*command, "list", "--installed", "--json", *names, to="list patches")
        listed = await self._look(*command, "list", "--all", "--json", *names, to="list patches")
        told = await self._look(*command, "info", "--all", "--json", *names, to="describe patches")
        return _dnf5.patches(there, listed, told)

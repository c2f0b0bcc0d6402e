"""Packages by zypper.

Only `refresh` fetches lists of packages; all other commands use the present lists, however old. A repository that
cannot be reached does not prevent the use of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from holdfast.resources import paths
from holdfast.resources.context import Completed
from holdfast.resources.interfaces.provider import Confine
from holdfast.resources.interfaces.results import Patch, PkgSpec
from holdfast.resources.providers import _rpm, _zypper
from holdfast.resources.providers._pkg_database import Changes
from holdfast.resources.providers.pkg_base import Fetched, Transaction
from holdfast.resources.providers.rpm_base import RpmProvider

ZYPPER = ("zypper", "--non-interactive", "--xmlout")
CHANGE = (*ZYPPER, "--no-refresh")
LOOK = ("env", "ZYPP_LOGFILE=/dev/null", *CHANGE)
"""Switches for commands that only read: they do not write to the log of an administrator's commands."""
LISTS = Path("/var/cache/zypp/raw")
LOCKED = Path("/etc/zypp/locks")


class Zypper(RpmProvider):
    """Packages of SUSE and openSUSE.

    Options of `install`: `fromrepo`, `skip_verify`, `only_upgrade`, `install_recommends`.
    """

    confine = Confine(grains={"os_family": ("Suse",)}, commands=("zypper", "rpm"))
    lists = (LISTS,)
    repositories = Path("/etc/zypp/repos.d")
    sources = (repositories,)
    pids = (Path("/run/zypp.pid"),)
    busy = ("System management is locked",)
    missing = ("No provider of", "not found in package names", "nothing provides", "File not found")

    async def _offered(self, names: Sequence[str]) -> dict[str, list[str]]:
        query = ("search", "--details", "--match-exact", "--type", "package")
        done = await self._run(*LOOK, *query, *names, to="search packages", accept=_zypper.FOUND, looks=True)
        return _rpm.offers(_zypper.offered(done.stdout))

    async def _plan(self, transaction: Transaction) -> Changes:
        command = (*LOOK, *_zypper.arguments(transaction, "--dry-run"))
        done = await self._run(*command, to=transaction.title, accept=_zypper.DONE, looks=True)
        return _rpm.changed(await self._cache.read(), _zypper.planned(done.stdout))

    async def _make(self, transaction: Transaction) -> None:
        await self._run(*CHANGE, *_zypper.arguments(transaction), to=transaction.title, accept=_zypper.DONE)
        if again := [pkg.name for pkg in transaction.pkgs if pkg.reinstall]:
            await self._run(
                *CHANGE, "install", "--force", *again, to=f"reinstall {', '.join(again)}", accept=_zypper.DONE
            )

    async def _fetch_lists(self) -> Fetched:
        done = await self._run(*ZYPPER, "refresh")
        result = _zypper.repositories(done.stdout, await self._repositories())
        return Fetched(result, self._reason(done) if done.retcode or "failed" in result.values() else "")

    def _trial(self, directory: str, name: str, *, import_key: bool) -> tuple[str, ...]:
        trust = ("--gpg-auto-import-keys",) if import_key else ()
        return (*ZYPPER, "--reposd-dir", directory, *trust, "refresh", name)

    # -- what zypper has besides ---------------------------------------------------------------------------------

    async def _held(self) -> frozenset[str]:
        """Read zypper's locks of whole packages; those with a repository or a pattern are no holds."""
        try:
            text = await self.host.blocking(paths.read, str(self.host.system_path(LOCKED)))
        except FileNotFoundError:
            return frozenset()
        return _zypper.locked(text.decode(errors="replace"))

    async def _set_held(self, names: Sequence[str], held: bool) -> None:
        verb = "addlock" if held else "removelock"
        await self._run(*CHANGE, verb, "--type", "package", *names, to=f"{verb} {', '.join(names)}")

    async def _unneeded(self) -> list[str]:
        command = ("env", "ZYPP_LOGFILE=/dev/null", "zypper", "--non-interactive", "--no-refresh")
        done = await self._run(
            *command, "packages", "--unneeded", to="find packages that are not needed", accept=_zypper.DONE, looks=True
        )
        return _zypper.column(done.stdout, "Name")

    async def download(self, names: Sequence[str]) -> dict[str, str]:
        """Fetch packages and what they need to zypper's cache."""
        if not names:
            return {}
        to = f"download {', '.join(names)}"
        plan = await self._plan(Transaction("install", tuple([PkgSpec(name=name) for name in names])))
        done = await self._run(*CHANGE, "download", *dict.fromkeys([*names, *plan]), to=to, accept=_zypper.DONE)
        files = _zypper.downloads(done.stdout)
        return {name: files[name] for name in names if name in files}

    async def groups(self, names: Sequence[str] = ()) -> dict[str, list[str]]:
        """Return the patterns with the packages that they require or recommend."""
        run = partial(self._run, *LOOK, accept=_zypper.FOUND, looks=True)
        wanted = names or _zypper.patterns((await run("patterns", to="list patterns")).stdout)
        if not wanted:
            return {}
        done = await run("info", "--type", "pattern", *wanted, to="describe patterns")
        return _zypper.contents(done.stdout)

    async def patches(self, names: Sequence[str] = ()) -> dict[str, Patch]:
        """Return the patches of the repositories that concern an installed package."""
        done = await self._run(*LOOK, "list-patches", "--all", to="list patches", accept=_zypper.DONE, looks=True)
        return {number: patch for number, patch in _zypper.patches(done.stdout).items() if not names or number in names}

    # -- helpers -------------------------------------------------------------------------------------------------

    async def _repositories(self) -> dict[str, str]:
        """Return alias -> name of the enabled repositories."""
        return _zypper.enabled((await self._run(*LOOK, "repos", to="list repositories", looks=True)).stdout)

    def _reason(self, done: Completed) -> str:
        return _zypper.complaint(done.stdout) or super()._reason(done)

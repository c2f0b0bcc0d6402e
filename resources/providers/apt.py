"""Packages by apt and dpkg.

apt's own defaults apply (recommended packages are installed). No package asks a question: changed configuration files
are kept.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

from holdfast.resources.context import Completed
from holdfast.resources.errors import Permanent
from holdfast.resources.interfaces.base import Options
from holdfast.resources.interfaces.host import ProviderHost
from holdfast.resources.interfaces.provider import Confine
from holdfast.resources.interfaces.results import ChangeSet, PkgSpec
from holdfast.resources.providers._claims import UCF
from holdfast.resources.providers._complaints import KILLED, complaint
from holdfast.resources.providers._dpkg import ADMIN, FORMAT, LISTS, Files, parse, planned, policies
from holdfast.resources.providers._locks import LOCKS, Others
from holdfast.resources.providers._pkg_database import Changes, PackageDatabase
from holdfast.resources.providers.pkg_base import Fetched, HoldingProvider, Outcome, Transaction
from holdfast.resources.spelling import nearest

APT_GET = ("apt-get", "--quiet", "--assume-yes")
QUIET = {"DEBIAN_FRONTEND": "noninteractive", "APT_LISTCHANGES_FRONTEND": "none", "UCF_FORCE_CONFFOLD": "1"}
"""Environment in which no package asks a question."""
SIMULATE = ("--simulate", "--option=Dir::Log::Planner=/dev/null")
"""Switches for simulation; without the second switch, simulations of root write a log of the plan."""
LOCK = ("--option=DPkg::Lock::Timeout=10",)
"""Seconds for which apt itself waits for its lock, if another program takes the lock between our check and apt's."""
KEEP = ("-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold")
SWITCHES = {
    "skip_verify": "--allow-unauthenticated",
    "update_holds": "--allow-change-held-packages",
    "only_upgrade": "--only-upgrade",
}
"""Options of `install` -> switches of apt-get."""
UPDATED: Mapping[str, Outcome] = {"Get": "updated", "Hit": "unchanged", "Err": "failed"}


class Apt(HoldingProvider):
    """Debian's packages.

    Options of `install`: `fromrepo`, `skip_verify`, `update_holds`, `only_upgrade`, `install_recommends`; of `upgrade`:
    `dist_upgrade` also upgrades packages that need others to be installed or removed.
    """

    confine = Confine(
        grains={"os_family": ("Debian",)}, commands=("apt-get", "apt-cache", "apt-mark", "dpkg-query", "dpkg")
    )
    database = (ADMIN / "status",)
    intermediate = (ADMIN / "updates",)
    lists = (LISTS,)
    fetched = (LISTS / "partial",)
    locks = LOCKS
    busy = ("Could not get lock",)
    killed = KILLED
    missing = ("Unable to locate package", "has no installation candidate", "was not found", "Failed to fetch", "404")
    environment = QUIET
    full_upgrade = Transaction("upgrade", options={"dist_upgrade": True})

    def __init__(self, host: ProviderHost) -> None:
        super().__init__(host)
        admin = host.system_path(ADMIN)
        self._files = Files(str(host.facts.get("osarch", "")), admin)
        self._others = Others(self._cache, host, admin, host.system_path(UCF))

    # -- the core ------------------------------------------------------------------------------------------------

    async def _query(self) -> PackageDatabase:
        return parse((await self.host.run("dpkg-query", "--show", f"--showformat={FORMAT}", limit=1 << 26)).stdout)

    async def _offered(self, names: Sequence[str]) -> dict[str, list[str]]:
        return {name: versions for name, (_, versions) in (await self._policies(names)).items()}

    async def _plan(self, transaction: Transaction) -> Changes:
        done = await self._run(*APT_GET, *SIMULATE, *_arguments(transaction), to=transaction.title, looks=True)
        return planned(done.stdout)

    async def _transact(self, transaction: Transaction) -> None:
        await self._run(*APT_GET, *LOCK, *KEEP, *_arguments(transaction), to=transaction.title)

    async def _fetch_lists(self) -> Fetched:
        done = await self._run(*APT_GET, *LOCK, "update")
        result = _repositories(done.stdout)
        return Fetched(result, complaint(done) if done.retcode or "failed" in result.values() else "")

    async def compare(self, a: str, b: str) -> Literal[-1, 0, 1]:
        """Compare two versions by dpkg's own rules."""
        if a == b:
            return 0
        for relation, order in (("lt", -1), ("gt", 1)):
            if (await self.host.run("dpkg", "--compare-versions", a, relation, b, check=False)).retcode == 0:
                return -1 if order < 0 else 1
        return 0

    async def _recover(self, database: PackageDatabase, *, failed: bool = False) -> None:
        """Finish an interrupted installation: apt refuses all work until then."""
        if self._was_interrupted() or (database.unfinished and not failed):
            packages = sorted(database.unfinished)
            self.host.log.warning("an installation was interrupted: finishing it", packages=packages)
            await self._run("dpkg", "--force-confdef", "--force-confold", "--configure", "--pending")

    def _was_interrupted(self) -> bool:
        """Return whether a dpkg was interrupted. Its changes are not in the status file yet."""
        return any(self.host.system_path(ADMIN / "updates").iterdir())

    # -- what only apt has ---------------------------------------------------------------------------------------

    async def install(
        self, pkgs: Sequence[PkgSpec], refresh: bool | None = None, *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Install in one transaction. Half-installed packages are unpacked again."""
        halved = (await self._cache.read()).halved
        again = [pkg.model_copy(update={"reinstall": True}) if pkg.name in halved else pkg for pkg in pkgs]
        return await super().install(again, refresh, test=test, options=options)

    async def latest(self, names: Sequence[str], refresh: bool = False) -> dict[str, str | None]:
        """Return the candidates, which priorities of repositories may make older than the newest version."""
        if refresh:
            await self.refresh()
        return {name: candidate for name, (candidate, _) in (await self._policies(names)).items()}

    async def _policies(self, names: Sequence[str]) -> dict[str, tuple[str | None, list[str]]]:
        """Return name -> candidate, and all versions, the newest first."""
        if not names:
            return {}
        done = await self._run("apt-cache", "policy", *names, looks=True)
        if done.retcode and "E:" in done.stderr:
            raise Permanent(f"cannot ask apt for {', '.join(names)}: {complaint(done)}")
        found = {name: (candidate, versions) for name, candidate, versions in policies(done.stdout)}
        return {name: found.get(name, (None, [])) for name in names}

    async def _set_held(self, names: Sequence[str], held: bool) -> None:
        verb = "hold" if held else "unhold"
        await self._run("apt-mark", verb, *names, to=f"{verb} {', '.join(names)}")

    async def residual(self, names: Sequence[str]) -> list[str]:
        """Return the removed packages whose configuration files are still there."""
        left = (await self._cache.read()).residual
        return [name for name in names if name in left]

    async def owners(self, names: Sequence[str], paths: Collection[str]) -> dict[str, list[str]]:
        """Search dpkg's lists of files; each is read again only after a change or for new paths."""
        found: dict[str, list[str]] = await self.host.blocking(self._files.owners, names, frozenset(paths))
        return found

    def others(self) -> str:
        """Return the process that holds dpkg's lock or the lock of its frontends."""
        return self._others.at_work()

    async def in_other_hands(self, names: Collection[str], paths: Collection[str]) -> bool:
        """Use dpkg's states of packages and its lists of files."""
        return await self._others.have(frozenset(names), frozenset(paths))

    def _notice(self) -> None:
        self._others.at_work()  # another program may have made the change that is read next

    # -- failures ------------------------------------------------------------------------------------------------

    def _reason(self, done: Completed) -> str:
        return complaint(done)

    async def _hint(self, done: Completed) -> str:
        """Return a hint for an unknown package: the most similar name."""
        _, found, rest = done.stderr.partition("Unable to locate package ")
        unknown = rest.partition("\n")[0].strip()
        if not found:
            return ""
        names = (await self._run("apt-cache", "pkgnames", unknown[:2], looks=True)).stdout.split()
        if near := await self.host.blocking(nearest, unknown, names):
            return f"; did you mean {near}?"
        return "" if self._fetched() else "; the lists of packages were never fetched: set `refresh: true`"


def _repositories(text: str) -> dict[str, Outcome]:
    """Parse the output of `apt-get update`: repository -> result."""
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line[:3] in UPDATED]
    return {rest[0]: UPDATED[word[:3]] for word, *rest in lines if rest}


def _arguments(transaction: Transaction) -> list[str]:
    """Return the arguments of apt-get for a transaction."""
    pkgs, options = transaction.pkgs, transaction.options
    if transaction.verb == "remove":
        return ["purge" if transaction.purge else "remove", *transaction.names]
    if transaction.verb == "upgrade" and pkgs:
        return ["install", "--only-upgrade", *transaction.names]
    if transaction.verb == "upgrade":
        return ["dist-upgrade" if options.get("dist_upgrade") else "upgrade"]
    switches = _install_switches(options)
    if any(pkg.version or pkg.source for pkg in pkgs):
        switches.append("--allow-downgrades")
    if any(pkg.reinstall for pkg in pkgs):
        switches.append("--reinstall")
    return ["install", *switches, *[pkg.source or "=".join(filter(None, (pkg.name, pkg.version))) for pkg in pkgs]]


def _install_switches(options: Mapping[str, Any]) -> list[str]:
    """Return the switches of apt-get for the options of `install`."""
    switches = [switch for option, switch in SWITCHES.items() if options.get(option)]
    if options.get("fromrepo"):
        switches.append(f"--target-release={options['fromrepo']}")
    if options.get("install_recommends") is not None:
        switches.append("--install-recommends" if options["install_recommends"] else "--no-install-recommends")
    return switches

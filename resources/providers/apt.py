"""Packages by apt and dpkg.

apt's own defaults apply (recommended packages are installed). No package asks a question: changed configuration files
are kept.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from urllib.parse import unquote

from holdfast.resources.context import Completed
from holdfast.resources.errors import ChangedMeanwhile, Permanent, Temporary
from holdfast.resources.interfaces.base import Options
from holdfast.resources.interfaces.host import ProviderHost
from holdfast.resources.interfaces.provider import Confine
from holdfast.resources.interfaces.results import ChangeSet, PkgSpec, Repo
from holdfast.resources.package_locks import PACKAGES
from holdfast.resources.providers._apt_keys import KEYRINGS
from holdfast.resources.providers._candidates import candidate, directory_of
from holdfast.resources.providers._complaints import KILLED, complaint, messages
from holdfast.resources.providers._dpkg import ETC, LISTS, planned, policies
from holdfast.resources.providers._pkg_database import Changes
from holdfast.resources.providers.dpkg_base import DpkgProvider
from holdfast.resources.providers.pkg_base import Fetched, HoldingProvider, Outcome, Transaction, UnneededProvider
from holdfast.resources.spelling import nearest

NO_CACHE = "--option=Dir::Cache::pkgcache="
"""Makes apt read dpkg's database itself. Commands that only read would write apt's own copy, which is outdated
if the database has changed twice in a second without a change of its size."""
NO_REGEX = "--option=APT::Cmd::Pattern-Only=true"
"""Without this option, apt reads the name of a package that it does not have, such as `php7.0`, as a regular
expression, and installs all packages whose names match."""
APT_GET = ("apt-get", "--quiet", "--assume-yes", NO_CACHE, NO_REGEX)
APT_CACHE = ("apt-cache", NO_CACHE)
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
DOWNLOAD = ("install", "--download-only", "--reinstall", "--allow-downgrades", "--allow-change-held-packages")
ARCHIVES = Path("/var/cache/apt/archives")
"""Directory of fetched packages."""
OUTCOMES: Mapping[str, Outcome] = {"Hit": "unchanged", "Get": "updated", "Err": "failed"}
"""Word of `apt-get update` -> outcome for a repository; if several apply, the last one decides."""


class Apt(DpkgProvider, HoldingProvider, UnneededProvider):
    """Debian's packages.

    Options of `install`: `fromrepo`, `skip_verify`, `update_holds`, `only_upgrade`, `install_recommends`; of `upgrade`:
    `dist_upgrade` also upgrades packages that need others to be installed or removed.
    """

    confine = Confine(
        grains={"os_family": ("Debian",)}, commands=("apt-get", "apt-cache", "apt-mark", "dpkg-query", "dpkg")
    )
    lists = (LISTS,)
    fetched = (LISTS / "partial",)
    sources = (ETC / "sources.list", ETC / "sources.list.d")
    locks = (*PACKAGES, LISTS / "lock", ARCHIVES / "lock")
    busy = ("Could not get lock",)
    killed = KILLED
    missing = ("Unable to locate package", "has no installation candidate", "was not found", "Failed to fetch", "404")
    environment = QUIET
    full_upgrade = Transaction("upgrade", options={"dist_upgrade": True})

    def __init__(self, host: ProviderHost) -> None:
        super().__init__(host)
        self._etc = host.system_path(ETC)

    # -- the core ------------------------------------------------------------------------------------------------

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
        return Fetched(result, messages(done) if done.retcode or "failed" in result.values() else "")

    # -- what only apt has ---------------------------------------------------------------------------------------

    async def install(
        self, pkgs: Sequence[PkgSpec], refresh: bool | None = None, *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Install in one transaction. Half-installed packages are unpacked again."""
        halved = (await self._cache.read()).halved
        again = [pkg.model_copy(update={"reinstall": True}) if pkg.name in halved else pkg for pkg in pkgs]
        return await super().install(again, refresh, test=test, options=options)

    async def latest(self, names: Sequence[str], refresh: bool = False) -> dict[str, str | None]:
        """Return the candidates. Because of priorities of repositories, one may be older than the newest version."""
        if refresh:
            await self.refresh()
        return {name: candidate for name, (candidate, _) in (await self._policies(names)).items()}

    async def _policies(self, names: Sequence[str]) -> dict[str, tuple[str | None, list[str]]]:
        """Return name -> candidate, and all versions, the newest first."""
        if not names:
            return {}
        done = await self._run(*APT_CACHE, "policy", *names, looks=True)
        if done.retcode and "E:" in done.stderr:
            raise Permanent(f"cannot ask apt for {', '.join(names)}: {complaint(done)}")
        found = {name: (candidate, versions) for name, candidate, versions in policies(done.stdout)}
        return {name: found.get(name, (None, [])) for name in names}

    async def _set_held(self, names: Sequence[str], held: bool) -> None:
        verb = "hold" if held else "unhold"
        await self._run("apt-mark", verb, *names, to=f"{verb} {', '.join(names)}")

    async def _unneeded(self) -> list[str]:
        done = await self._run(*APT_GET, *SIMULATE, "autoremove", to="find packages that are not needed", looks=True)
        return [name for name, change in planned(done.stdout).items() if not change["new"]]

    async def download(self, names: Sequence[str]) -> dict[str, str]:
        """Fetch packages and what they need to apt's archive; files of a repository on this host stay where they are.

        apt removes the files after the next installation, unless `APT::Keep-Downloaded-Packages` is set.
        """
        if not names:
            return {}
        to = f"download {', '.join(names)}"
        found = await self._run(*APT_GET, "download", "--print-uris", *names, to=to, looks=True)
        archives = f"--option=Dir::Cache::archives={ARCHIVES}"
        await self._run(*APT_GET, *LOCK, archives, *DOWNLOAD, *names, to=to)
        return downloads(found.stdout, names)

    # -- repositories --------------------------------------------------------------------------------------------

    async def repos(self) -> dict[str, Repo]:
        """Read sources.list and sources.list.d.

        The id is the name of the file without its ending; the second entry of a file is `NAME:2`. Extra: `types`,
        `suites`, `components`, `architectures`, `signed_by`, `options` (further fields of sources.list(5)) and `file`.
        """
        from holdfast.resources.providers import _apt_repos  # noqa: PLC0415 - few hosts use it

        return dict(await self.host.blocking(_apt_repos.known_repos, self._etc))

    async def repo_set(
        self, repo: Repo, refresh: bool = False, *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Change the entry of the repository, or write a new file in sources.list.d.

        Extra as in `repos`; `suites` is required; a new entry is added to `file`. Options: `key` is the key of the
        repository in ASCII armor, which is stored in /etc/apt/keyrings, or at `signed_by`; `one_line` writes a new file
        in the older format; `clean_file` removes all other entries of the file.
        """
        from holdfast.resources.providers import _apt_repos  # noqa: PLC0415 - few hosts use it

        tried_in = self.host.system_path(directory_of(repo.id))
        change = partial(_apt_repos.set_repo, self.host.system_path, repo, options or {}, tried_in)
        edit = await self.host.blocking(change)
        if edit.changes and not test:
            async with self._editing:
                if refresh and repo.enabled:
                    await self._try(repo.id, edit.candidate)
                again = await self.host.blocking(change)
                if again.changes != edit.changes:
                    raise ChangedMeanwhile(f"cannot set repository {repo.id}: another program has changed it")
                edit = again
                await self.host.blocking(_apt_repos.write_edit, self.host.system_path, edit)
        return ChangeSet(changes=edit.changes)

    async def _try(self, name: str, files: Mapping[str, str]) -> None:
        """Fetch the lists of a repository before it is configured. Raises `Temporary` if that fails.

        apt names lists by the URL, so it finds them when the repository is configured. The lists of others stay.
        """
        async with candidate(self.host, name, files) as directory:
            only = (
                f"--option=Dir::Etc::sourcelist={directory / next(iter(files))}",
                "--option=Dir::Etc::sourceparts=-",
            )
            done = await self._run(*APT_GET, *LOCK, *only, "--option=APT::Get::List-Cleanup=0", "update")
        if done.retcode or "failed" in _repositories(done.stdout).values():
            raise Temporary(f"cannot set repository {name}: cannot fetch its lists of packages: {messages(done)}")

    async def repo_remove(self, id: str, *, test: bool = False, options: Options = None) -> ChangeSet:
        """Remove the entry, and its key if no other repository uses it.

        Option: `key` removes the file in `signed_by` even if the agent has not chosen its name.
        """
        from holdfast.resources.providers import _apt_repos  # noqa: PLC0415 - few hosts use it

        async with self._editing:
            edit = await self.host.blocking(_apt_repos.remove_repo, self.host.system_path, id, options or {})
            if not test:
                await self.host.blocking(_apt_repos.write_edit, self.host.system_path, edit)
        return ChangeSet(changes=edit.changes)

    def repo_files(self) -> tuple[str, ...]:
        """Return sources.list, sources.list.d, and the directory of keys."""
        return tuple(str(self.host.system_path(path)) for path in (*self.sources, ETC / KEYRINGS))

    # -- failures ------------------------------------------------------------------------------------------------

    def _is_busy(self, done: Completed) -> bool:
        """Return whether apt itself reports a lock. On standard output, scripts that run apt may report one."""
        return any(words in done.stderr for words in self.busy)

    def _reason(self, done: Completed) -> str:
        return complaint(done)

    async def _hint(self, done: Completed) -> str:
        """Return a hint for an unknown package: the most similar name."""
        _, found, rest = done.stderr.partition("Unable to locate package ")
        unknown = rest.partition("\n")[0].strip()
        if not found:
            return ""
        names = (await self._run(*APT_CACHE, "pkgnames", unknown[:2], looks=True)).stdout.split()
        if near := await self.host.blocking(nearest, unknown, names):
            return f"; did you mean {near}?"
        return "" if self._fetched() else "; the lists of packages were not fetched yet: set `refresh: true`"


def _repositories(text: str) -> dict[str, Outcome]:
    """Parse the output of `apt-get update`, which has lines for each file of a repository: URI and suite -> outcome.

    A repository has failed if one of its files has, and is updated if one of its files is new.
    """
    words: dict[str, set[str]] = {}
    for word, uri, suite in re.findall(r"^(Get|Hit|Err):\d+ (\S+) (\./|[^\s/]+)", text, re.MULTILINE):
        words.setdefault(f"{uri} {suite}", set()).add(word)
    return {name: [outcome for word, outcome in OUTCOMES.items() if word in seen][-1] for name, seen in words.items()}


def downloads(text: str, names: Sequence[str]) -> dict[str, str]:
    """Parse `apt-get download --print-uris NAME...`: name -> the path where the package file is afterwards."""
    found = {}
    for uri, file in re.findall(r"^'([^']*)' (\S+)", text, re.MULTILINE):
        scheme, _, path = uri.partition(":")
        path = os.path.normpath(unquote(path)) if scheme == "file" else str(ARCHIVES / file)
        found[file.partition("_")[0]] = path
    return {name: path for name in names if (path := found.get(re.split("[:=/]", name)[0]))}


def _arguments(transaction: Transaction) -> list[str]:
    """Return the arguments of apt-get for a transaction."""
    pkgs, options = transaction.pkgs, transaction.options
    if transaction.verb == "remove":
        return ["purge" if transaction.purge else "remove", *transaction.names]
    if transaction.verb == "upgrade" and pkgs:
        return ["install", "--only-upgrade", *transaction.names]
    if transaction.verb == "upgrade":
        return ["dist-upgrade" if options.get("dist_upgrade") else "upgrade"]
    return ["install", *_install_switches(transaction), *map(_wanted, pkgs)]


def _wanted(pkg: PkgSpec) -> str:
    """Return how apt-get names a package to install."""
    return pkg.source or (f"{pkg.name}={pkg.version}" if pkg.version else pkg.name)


def _install_switches(transaction: Transaction) -> list[str]:
    """Return the switches of apt-get for an installation."""
    options, pkgs = transaction.options, transaction.pkgs
    switches = [switch for option, switch in SWITCHES.items() if options.get(option)]
    if options.get("fromrepo"):
        switches.append(f"--target-release={options['fromrepo']}")
    if options.get("install_recommends") is not None:
        switches.append("--install-recommends" if options["install_recommends"] else "--no-install-recommends")
    if any(pkg.version or pkg.source for pkg in pkgs):
        switches.append("--allow-downgrades")
    if any(pkg.reinstall for pkg in pkgs):
        switches.append("--reinstall")
    return switches

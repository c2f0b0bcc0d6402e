"""Packages by pacman.

Arch supports no partial upgrade: a package from newer lists may need newer libraries than those that are installed. So
the lists of the system belong to the installed packages, and `install` uses them as they are. A refresh fetches lists
into a directory of its own. They become those of the system when no installed package has a newer version in them, or
by an upgrade of all packages. Until then, only `upgrades` and an upgrade of all packages see them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Literal
from urllib.parse import unquote

from holdfast.resources.context import Completed
from holdfast.resources.errors import Temporary
from holdfast.resources.interfaces.host import ProviderHost
from holdfast.resources.interfaces.provider import Confine
from holdfast.resources.interfaces.results import FileDeviation, PkgInfo, PkgSpec
from holdfast.resources.package_locks import described
from holdfast.resources.providers._alpm import (
    LOCAL,
    LOCK,
    SYNC,
    descriptions,
    deviations,
    installed,
    offered,
    opener,
    problems,
)
from holdfast.resources.providers._pkg_database import Changes, PackageDatabase
from holdfast.resources.providers.pkg_base import Fetched, Outcome, Transaction, UnneededProvider

FETCHED = Path("/var/cache/holdfast/pacman")
"""Directory of the lists that `refresh` fetches: a database of pacman with the installed packages of the system."""
PACMAN = ("pacman", "--noconfirm")
LOOKS = 3
"""Number of times that the lock must be found without a program before it counts as left by an interrupted one."""
PLAN = ("--print", "--print-format=%n\t%v")


class Pacman(UnneededProvider):
    """Arch's packages.

    New lists of packages are used only by an upgrade of all packages, unless they have no newer versions of installed
    packages. Packages that a new one replaces are missing in plans, as pacman does not print them. A transaction with
    repository packages and package files takes one command for each. `remove` also removes the packages that need the
    removed ones.
    """

    confine = Confine(grains={"os_family": ("Arch",)}, commands=("pacman", "vercmp"))
    database = (LOCAL, LOCK)
    lists = (SYNC,)
    fetched = (FETCHED / "sync", SYNC)
    busy = ("unable to lock database",)
    missing = ("target not found", "failed retrieving file")

    def __init__(self, host: ProviderHost) -> None:
        super().__init__(host)
        self._left = 0
        """Number of times in a row that the lock was found without a program that has it open."""

    # -- the core ------------------------------------------------------------------------------------------------

    async def _query(self) -> PackageDatabase:
        found: PackageDatabase = await self.host.blocking(installed, self.host.system_path(LOCAL))
        return found

    async def _offered(self, names: Sequence[str]) -> dict[str, list[str]]:
        found = offered((await self._run(*PACMAN, "--sync", "--info", *names, looks=True)).stdout)
        return {name: await self._newest_first(versions) for name, versions in found.items()}

    async def _plan(self, transaction: Transaction) -> Changes:
        versions = (await self._cache.read()).versions()
        changes = {}
        for command in await self._commands(transaction):
            lists = ("--dbpath", str(FETCHED)) if await self._takes_over(transaction) else ()
            done = await self._run(*PACMAN, *lists, *command, *PLAN, to=transaction.title, looks=True)
            for name, version in re.findall(r"^(\S+)\t(\S+)$", done.stdout, re.MULTILINE):
                new = "" if transaction.verb == "remove" else version
                if versions.get(name, "") != new:
                    changes[name] = {"old": versions.get(name, ""), "new": new}
        return changes

    async def _transact(self, transaction: Transaction) -> None:
        switches = ["--nosave"] if transaction.purge else []
        switches += ["--refresh"] if await self._takes_over(transaction) else []
        for command in await self._commands(transaction):
            await self._run(*PACMAN, *command, *switches, to=transaction.title)

    async def _fetch_lists(self) -> Fetched:
        await self.host.blocking(self._prepare)
        own = (*PACMAN, "--dbpath", str(FETCHED))
        done = await self._run(*own, "--sync", "--refresh", looks=True)
        found: dict[str, Outcome] = {
            name: "updated" if what == "downloading..." else "unchanged"
            for name, what in re.findall(r"^ (\S+) (downloading\.\.\.|is up to date)", done.stdout, re.MULTILINE)
        }
        found |= _failures(done, found)
        if await self.host.blocking(self._tidy, found) and not await self._outdated(*own):
            again = await self._run(*PACMAN, "--sync", "--refresh")
            found |= _failures(again, found)
            done = again if again.retcode else done
        return Fetched(found, self._reason(done) if done.retcode else "")

    async def compare(self, a: str, b: str) -> Literal[-1, 0, 1]:
        """Compare two versions by vercmp."""
        order = int((await self.host.run("vercmp", a, b)).stdout)
        return -1 if order < 0 else 1 if order else 0

    # -- what only pacman needs ----------------------------------------------------------------------------------

    async def _commands(self, transaction: Transaction) -> list[list[str]]:
        """Return the arguments of pacman for each command of a transaction."""
        if transaction.verb == "remove":
            return [["--remove", "--cascade", *transaction.names]]
        if _is_full_upgrade(transaction):
            return [["--sync", "--sysupgrade"]]
        parts = (
            (["--upgrade"], [pkg.source for pkg in transaction.pkgs if pkg.source]),
            (["--sync", "--needed"], await self._wanted([pkg for pkg in transaction.pkgs if not pkg.reinstall])),
            (["--sync"], [_target(pkg) for pkg in transaction.pkgs if pkg.reinstall and not pkg.source]),
        )
        return [[*switches, *targets] for switches, targets in parts if targets]

    async def _wanted(self, pkgs: Sequence[PkgSpec]) -> list[str]:
        """Return the targets of a transaction that are passed to pacman.

        A package that is newer than in the lists is left out, because pacman would replace it by the older one.
        """
        database, outdated = await self._cache.read(), await self._outdated(*PACMAN)
        return [
            _target(pkg)
            for pkg in pkgs
            if not pkg.source and (pkg.version or pkg.name in outdated or not database.named(pkg.name))
        ]

    async def _outdated(self, *command: str) -> list[str]:
        """Return the installed packages with a newer version in the lists, without those that are to be ignored."""
        done = await self._run(*command, "--query", "--upgrades", looks=True)
        return re.findall(r"^(\S+) \S+ -> \S+$", done.stdout, re.MULTILINE)

    async def _newest_first(self, versions: list[str]) -> list[str]:
        """Sort the versions that repositories offer: usually one, rarely two."""
        found: list[str] = []
        for version in dict.fromkeys(versions):
            newer = [await self.compare(version, other) > 0 for other in found]
            found.insert(newer.index(True) if True in newer else len(found), version)
        return found

    async def latest(self, names: Sequence[str], refresh: bool = False) -> dict[str, str | None]:
        """Return the versions in the lists of the system, each from the first repository that has the package."""
        if refresh:
            await self.refresh()
        done = await self._run(*PACMAN, "--sync", "--info", *names, looks=True) if names else None
        found = offered(done.stdout) if done else {}
        return {name: next(iter(found.get(name, ())), None) for name in names}

    # -- lists of packages ---------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Create the database for the fetched lists, and remove the lock of an interrupted refresh."""
        own = self.host.system_path(FETCHED)
        own.mkdir(parents=True, exist_ok=True)
        if not (own / LOCAL.name).is_symlink():
            (own / LOCAL.name).symlink_to(LOCAL)
        lock = own / LOCK.name
        if lock.exists() and not opener(lock):
            lock.unlink(missing_ok=True)

    def _tidy(self, repositories: Mapping[str, Outcome]) -> bool:
        """Remove fetched lists of other repositories, and return whether one is newer than that of the system."""
        for file in self.host.system_path(FETCHED / SYNC.name).glob("*.db"):
            if repositories and file.stem not in repositories:
                file.unlink()
        return self._newer()

    def _newer(self) -> bool:
        """Return whether a fetched list is newer than that of the system. pacman gives both the time of the server."""
        system = {file.name: file.stat().st_mtime for file in self.host.system_path(SYNC).glob("*.db")}
        fetched = self.host.system_path(FETCHED / SYNC.name).glob("*.db")
        return any(file.stat().st_mtime > system.get(file.name, 0.0) for file in fetched)

    async def _takes_over(self, transaction: Transaction) -> bool:
        """Return whether a transaction makes the fetched lists those of the system."""
        return _is_full_upgrade(transaction) and await self.host.blocking(self._newer)

    # -- optional functions --------------------------------------------------------------------------------------

    async def owner(self, paths: Sequence[str]) -> dict[str, str | None]:
        """Ask pacman, which finds the owners of existing paths only."""
        done = await self._run("pacman", "--query", "--owns", *paths, looks=True)
        found = dict(reversed(re.findall(r"^(.+) is owned by (\S+) \S+$", done.stdout, re.MULTILINE)))
        return {path: found.get(path) for path in paths}

    async def files(self, names: Sequence[str]) -> dict[str, list[str]]:
        """Return files and directories."""
        database = await self._cache.read()
        found: dict[str, list[str]] = {name: [] for name in names if database.named(name)}
        if found:
            done = await self._run("pacman", "--query", "--list", *found, looks=True, to="list files")
            for name, path in re.findall(r"^(\S+) (.+?)/?$", done.stdout, re.MULTILINE):
                found[name].append(path)
        return {name: sorted(paths) for name, paths in found.items()}

    async def info(self, names: Sequence[str] = ()) -> dict[str, PkgInfo]:
        """Read pacman's database; extra: packager, groups, and whether it was installed on request (`explicit`)."""
        found: dict[str, PkgInfo] = await self.host.blocking(descriptions, self.host.system_path(LOCAL))
        return {name: found[name] for name in names or found if name in found}

    async def verify(self, names: Sequence[str] = ()) -> dict[str, list[FileDeviation]]:
        """Compare files with the properties and digests that pacman has recorded."""
        database = await self._cache.read()
        there = [name for name in names if database.named(name)]
        if names and not there:
            return {}
        done = await self._run("pacman", "--query", "--check", "--check", *there, looks=True)
        return deviations(f"{done.stdout}\n{done.stderr}")

    async def _unneeded(self) -> list[str]:
        roots = (await self._run("pacman", "--query", "--deps", "--unrequired", "--quiet", looks=True)).stdout.split()
        if not roots:
            return []
        command = (*PACMAN, "--remove", "--recursive", *PLAN, *roots)
        done = await self._run(*command, looks=True, to="find packages that are not needed")
        return re.findall(r"^(\S+)\t\S+$", done.stdout, re.MULTILINE)

    async def download(self, names: Sequence[str]) -> dict[str, str]:
        """Fetch packages and what they need to pacman's cache."""
        if not names:
            return {}
        to = f"download {', '.join(names)}"
        await self._run(*PACMAN, "--sync", "--downloadonly", *names, to=to)
        command = (*PACMAN, "--sync", "--nodeps", "--nodeps", "--print", "--print-format=%n\t%l", *names)
        done = await self._run(*command, looks=True, to=to)
        found = dict(re.findall(r"^(\S+)\tfile://(.+)$", done.stdout, re.MULTILINE))
        return {name: unquote(found[name]) for name in names if name in found}

    async def groups(self, names: Sequence[str] = ()) -> dict[str, list[str]]:
        """Return the groups of the repositories."""
        found: dict[str, list[str]] = {}
        done = await self._run("pacman", "--sync", "--groups", *(names or ["--groups"]), looks=True)
        for group, name in re.findall(r"^(\S+) (\S+)$", done.stdout, re.MULTILINE):
            found.setdefault(group, []).append(name)
        return found

    # -- failures ------------------------------------------------------------------------------------------------

    def _holder(self) -> str:
        """Return the program that has the lock. Raises `Temporary` if a program was interrupted and has left it."""
        lock = self.host.system_path(LOCK)
        self._left = self._left if lock.exists() else 0
        if not lock.exists():
            return ""
        if pid := opener(lock):
            self._left = 0
            return described(pid)
        self._left += 1  # a program that ends closes the lock before it removes it
        if self._left > LOOKS:
            raise Temporary(
                f"cannot use pacman: an interrupted program has left {LOCK}; make sure that no program changes "
                "packages, and remove the file",
                delay=30.0,
            )
        return "a program that has just ended"

    def _reason(self, done: Completed) -> str:
        return problems(done.stdout, done.stderr) or super()._reason(done)

    async def _hint(self, done: Completed) -> str:
        """Return why a package that only the newest lists have is not installed."""
        if any(words in done.stderr for words in self.missing) and await self.host.blocking(self._newer):
            return (
                "; there are newer lists, but they have newer versions of installed packages, too, and Arch supports "
                "no partial upgrade: upgrade all packages first"
            )
        return ""


def _failures(done: Completed, known: Collection[str]) -> dict[str, Outcome]:
    """Return the repositories whose lists a refresh has not fetched: all of them, if it failed without naming any."""
    named = re.findall(r"failed retrieving file '(.+)\.db'", done.stderr)
    return dict.fromkeys(named or known, "failed") if done.retcode else {}


def _is_full_upgrade(transaction: Transaction) -> bool:
    return transaction.verb == "upgrade" and not transaction.pkgs


def _target(pkg: PkgSpec) -> str:
    """Return how pacman names a package to be installed."""
    return "=".join(filter(None, (pkg.name, pkg.version)))

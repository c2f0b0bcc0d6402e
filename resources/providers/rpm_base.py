"""Base of the providers of packages that rpm installs: what rpm itself reports, and the files that it leaves behind."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

from holdfast.resources.errors import Permanent, Temporary
from holdfast.resources.interfaces.base import Options
from holdfast.resources.interfaces.results import ChangeSet, FileDeviation, PkgInfo, Repo
from holdfast.resources.package_locks import described
from holdfast.resources.paths import at, exists, read
from holdfast.resources.providers import _rpm
from holdfast.resources.providers._candidates import candidate, directory_of
from holdfast.resources.providers._deviations import deviations
from holdfast.resources.providers._pkg_database import PackageDatabase, by_name
from holdfast.resources.providers._rpm_repos import KEYS, Key, key_of, known_repos, remove_repo, section_of, set_repo
from holdfast.resources.providers.pkg_base import HoldingProvider, Transaction, UnneededProvider

ADMIN = Path("/var/lib/rpm")
"""Directory of rpm's database, or a link to it (`/usr/lib/sysimage/rpm`)."""
SAVED = ".rpmsave"
"""Suffix of a changed configuration file that rpm keeps when the package is removed."""
ALL = "--all"
"""Stands for all packages, in place of names."""


class RpmProvider(HoldingProvider, UnneededProvider, abstract=True):
    """Reads, compares and describes packages by rpm.

    The core of a provider is `_offered`, `_plan`, `_make` and `_fetch_lists`.
    """

    database = (ADMIN, *(ADMIN / name for name in ("rpmdb.sqlite", "rpmdb.sqlite-wal", "Packages.db", "Packages")))
    locks = (ADMIN / ".rpm.lock",)
    pids: ClassVar[tuple[Path, ...]] = ()
    """Files in which a program that uses the tool writes its process id."""

    repositories: ClassVar[Path]
    """Directory of the `.repo` files."""

    @abstractmethod
    def _trial(self, directory: str, name: str, *, import_key: bool) -> tuple[str, ...]:
        """Return the command that fetches the lists of the repository in a directory of `.repo` files."""

    @abstractmethod
    async def _make(self, transaction: Transaction) -> None:
        """Make a transaction, by `_run`."""

    # -- the core ------------------------------------------------------------------------------------------------

    async def _query(self) -> PackageDatabase:
        text = await self._rpm(ALL, "--queryformat", _rpm.FORMAT, to="read rpm's database")
        database: PackageDatabase = await self.host.blocking(_rpm.parse, text)
        return database

    async def _transact(self, transaction: Transaction) -> None:
        """Make the transaction; with `purge`, delete the configuration files that rpm keeps because of changes."""
        saved = await self._saved(transaction) if transaction.purge else []
        await self._make(transaction)
        await self.host.blocking(_delete, saved)

    async def compare(self, a: str, b: str) -> _rpm.Order:
        """Compare by rpm's rules; a version without a release is older than the same version with one."""
        return _rpm.compare(a, b)

    def _holder(self) -> str:
        """Return the process that holds rpm's lock or that a pid file of the tool names."""
        return super()._holder() or next((found for path in self.pids if (found := self._named_in(path))), "")

    def _named_in(self, path: Path) -> str:
        """Return the running process whose id a file has; empty if there is none."""
        try:
            pid = int(read(str(self.host.system_path(path))))
        except (OSError, ValueError):
            return ""
        return described(pid) if exists(f"/proc/{pid}") else ""

    # -- querying ------------------------------------------------------------------------------------------------

    async def owner(self, paths: Sequence[str]) -> dict[str, str | None]:
        """Ask rpm for each path, which also finds a path by way of a link to its directory."""
        found: dict[str, str | None] = {}
        for path in paths:
            done = await self._run("rpm", "--query", "--queryformat", "%{NAME}\\n", "--file", path, looks=True)
            found[path] = min(done.stdout.split()) if done.retcode == 0 else None
        return found

    async def files(self, names: Sequence[str]) -> dict[str, list[str]]:
        """Ask rpm for the files and directories of packages; `%ghost` files are among them."""
        there = await self._there(names)
        found = await self._shipped(there) if there else {}
        return {name: sorted(found.get(name, ())) for name in there}

    async def info(self, names: Sequence[str] = ()) -> dict[str, PkgInfo]:
        """Return descriptions from rpm's database; extra: group, packager, source."""
        there = await self._there(names)
        if names and not there:
            return {}
        done = await self._rpm("--queryformat", _rpm.DESCRIPTION, *(there or [ALL]), to="describe packages")
        described = by_name(_rpm.descriptions(done))
        return {name: pkgs[-1] for name, pkgs in described.items() if isinstance(pkgs[-1], PkgInfo)}

    async def verify(self, names: Sequence[str] = ()) -> dict[str, list[FileDeviation]]:
        """Compare files by `rpm --verify`, without dependencies and the scripts of packages."""
        there = await self._there(names)
        if names and not there:
            return {}
        selected = there or [ALL]
        done = await self._run("rpm", "--verify", "--nodeps", "--noscripts", *selected, looks=True)
        wrong = {deviation.path: deviation for deviation in deviations(done.stdout)}
        shipped = await self._shipped(selected) if wrong else {}
        found = {name: sorted(files & wrong.keys()) for name, files in shipped.items()}
        return {name: [wrong[path] for path in files] for name, files in found.items() if files}

    # -- repositories --------------------------------------------------------------------------------------------

    async def repos(self) -> dict[str, Repo]:
        """Read the `.repo` files; extra: all other fields of the section, such as `name`, `gpgkey`, `mirrorlist`."""
        return dict(await self.host.blocking(known_repos, self.host.system_path(self.repositories)))

    async def repo_set(
        self, repo: Repo, refresh: bool = False, *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Change the section of the repository, or write a new file; extra as in `repos`.

        Options: `key` is the key of the repository in ASCII armor, which is stored in /etc/pki/rpm-gpg; with
        `import_key`, zypper trusts the key that the repository names.
        """
        if unknown := (options or {}).keys() - {"key", "import_key"}:
            raise Permanent(f"cannot set repository {repo.id}: unknown options: {', '.join(sorted(unknown))}")
        given = (options or {}).get("key")
        key = None if given is None else key_of(repo.id, given, self.host.system_path(KEYS))
        change = partial(set_repo, self.host.system_path(self.repositories), repo, key)
        changes = await self.host.blocking(partial(change, test=True))
        if changes and not test:
            async with self._editing:
                if refresh and repo.enabled:
                    await self._try(repo, key, import_key=bool((options or {}).get("import_key")))
                changes = await self.host.blocking(partial(change, test=False))
        return ChangeSet(changes=changes)

    async def _try(self, repo: Repo, key: Key | None, *, import_key: bool) -> None:
        """Fetch the lists of a repository before it is configured. Raises `Temporary` if that fails."""
        name = f"{repo.id.replace(':', '-')}.repo"
        tried = None if key is None else self.host.system_path(directory_of(repo.id)) / "key.asc"
        files = {name: section_of(repo, tried)} | ({} if key is None else {"key.asc": key.text})
        async with candidate(self.host, repo.id, files) as directory:
            done = await self._run(*self._trial(str(directory), repo.id, import_key=import_key))
        if done.retcode:
            raise Temporary(
                f"cannot set repository {repo.id}: cannot fetch its lists of packages: {self._reason(done)}"
            )

    async def repo_remove(self, id: str, *, test: bool = False, options: Options = None) -> ChangeSet:
        """Remove the section, its file if nothing else is in it, and the key that `repo_set` has written."""
        places = (self.host.system_path(self.repositories), id, self.host.system_path(KEYS))
        async with self._editing:
            return ChangeSet(changes=await self.host.blocking(partial(remove_repo, *places, test=test)))

    def repo_files(self) -> tuple[str, ...]:
        """Return the directories of the `.repo` files and of keys."""
        return tuple(str(self.host.system_path(path)) for path in (self.repositories, KEYS))

    # -- helpers -------------------------------------------------------------------------------------------------

    async def _rpm(self, *arguments: str, to: str = "query rpm's database") -> str:
        """Query rpm's database and return what it prints."""
        return (await self._run("rpm", "--query", *arguments, to=to, looks=True)).stdout

    async def _shipped(self, names: Sequence[str]) -> dict[str, set[str]]:
        """Return the paths that installed packages ship."""
        text = await self._rpm("--queryformat", "[%{=NAME}\\t%{FILENAMES}\\n]", *names, to="list files of packages")
        found: dict[str, set[str]] = {}
        for name, _, path in (line.partition("\t") for line in text.splitlines()):
            found.setdefault(name, set()).add(path)
        return found

    async def _there(self, names: Iterable[str]) -> list[str]:
        """Return which of these packages are installed."""
        database = await self._cache.read()
        return [name for name in names if database.named(name)]

    async def _saved(self, transaction: Transaction) -> list[str]:
        """Return where rpm would keep configuration files of packages that a transaction removes."""
        plan: Mapping[str, object] = await self._plan(transaction)
        listed = await self._rpm("--configfiles", *await self._there(plan)) if plan else ""
        saved = [str(self.host.system_path(Path(f"{path}{SAVED}"))) for path in listed.splitlines() if path[:1] == "/"]
        return [path for path in saved if not await self.host.blocking(exists, path)]


def _delete(files: Iterable[str]) -> None:
    """Delete those of the files that exist. Raises `Unsafe` if an untrusted user could have put one there. Blocks."""
    for file in files:
        if exists(file):
            at(file).unlink()

"""`pkg`: software packages."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import ClassVar, Literal

from holdfast.resources.context import Watch
from holdfast.resources.interfaces.base import Interface, Options, not_applicable, replaces, supported
from holdfast.resources.interfaces.results import ChangeSet, FileDeviation, Patch, Pkg, PkgInfo, PkgSpec, Repo
from holdfast.resources.watches import idle

HOLDERS = ("Debian", "RedHat", "Suse", "FreeBSD", "MacOS", "OpenWrt")
REPOSITORIES = ("Debian", "RedHat", "Suse", "OpenWrt")
"""Families whose repositories can be listed and changed one by one."""
COMMON = ("Debian", "RedHat", "Suse", "Arch", "Alpine")
WITHOUT_RESIDUES = ("RedHat", "Suse", "Arch", "Alpine")
"""Families whose package managers do not know which files a removed package has left."""


class PkgInterface(Interface, name="pkg"):
    """Query, install and remove packages.

    Functions that change something return what they changed, including dependencies; with `test` they change nothing
    and return what they would change. They wait for other programs that use the package database, and raise `Permanent`
    if the package manager refuses; the error's `changes` has what was changed before.
    """

    words: ClassVar[frozenset[str]] = frozenset({"a", "b", "id", "names", "paths", "pkgs"})

    @replaces("list_pkgs")
    async def list_installed(self, names: Sequence[str] = ()) -> dict[str, list[Pkg]]:
        """Return the installed packages by name; with `names` only these.

        A name that only other packages provide (`mail-transport-agent`) gives those packages.
        """
        return {}

    @replaces("latest_version")
    async def latest(self, names: Sequence[str], refresh: bool = False) -> dict[str, str | None]:
        """Return the version that would be installed now, by name; None for a name that no repository offers."""
        return {}

    async def available(self, names: Sequence[str]) -> dict[str, list[str]]:
        """Return all versions that can be installed, the newest first."""
        return {}

    @replaces("list_upgrades")
    async def upgrades(self, refresh: bool = True) -> dict[str, dict[str, str]]:
        """Return installed packages with a newer candidate: name -> {current, candidate}."""
        return {}

    async def install(
        self, pkgs: Sequence[PkgSpec], refresh: bool | None = None, *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Install packages, or change them to the given version, in one transaction.

        `refresh`: fetch the package lists first; None: only if a package is not found.
        """
        return ChangeSet()

    async def remove(
        self, names: Sequence[str], purge: bool = False, *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Remove packages; with `purge`, also their configuration files and those of packages removed earlier."""
        return ChangeSet()

    async def upgrade(
        self, names: Sequence[str] = (), refresh: bool = True, *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Upgrade these packages, or all, to their candidates."""
        return ChangeSet()

    @replaces("version_cmp")
    async def compare(self, a: str, b: str) -> Literal[-1, 0, 1]:
        """Compare two versions: -1 if `a` is older, 1 if it is newer."""
        return 0

    @replaces("refresh_db")
    @not_applicable(os=("OpenBSD", "AIX"))
    async def refresh(self, force: bool = False) -> dict[str, Literal["updated", "unchanged", "failed"]]:
        """Fetch the lists of packages, by repository. Without `force`, lists fetched within the last hour are kept."""
        return {}

    @supported(os_family=HOLDERS)
    async def hold(self, names: Sequence[str], *, test: bool = False, options: Options = None) -> ChangeSet:
        """Hold packages at their present version."""
        return ChangeSet()

    @supported(os_family=HOLDERS)
    async def unhold(self, names: Sequence[str], *, test: bool = False, options: Options = None) -> ChangeSet:
        """Let packages be upgraded again."""
        return ChangeSet()

    @replaces("list_holds")
    @supported(os_family=HOLDERS)
    async def holds(self) -> dict[str, str | None]:
        """Return held packages: name -> version, None if the package is not installed."""
        return {}

    @supported(os_family=("Debian",))
    @not_applicable(os_family=WITHOUT_RESIDUES)
    async def residual(self, names: Sequence[str]) -> list[str]:
        """Return the removed packages whose configuration files are still there."""
        return []

    @replaces("list_repos")
    @supported(os_family=(*REPOSITORIES, "Void"))
    async def repos(self) -> dict[str, Repo]:
        """Return the configured repositories by id, also those that are not enabled."""
        return {}

    @replaces("mod_repo")
    @supported(os_family=REPOSITORIES)
    async def repo_set(
        self, repo: Repo, refresh: bool = False, *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Add a repository, or change the one with this id so that it is exactly as described.

        The changes are `id` -> {old, new}, each the repository as a mapping, None if there is none. `refresh`: fetch
        the lists of packages of this repository before it is configured; if that fails, nothing is changed.
        """
        return ChangeSet()

    @replaces("del_repo")
    @supported(os_family=(*REPOSITORIES, "Void"))
    async def repo_remove(self, id: str, *, test: bool = False, options: Options = None) -> ChangeSet:
        """Remove a repository; an unknown id changes nothing."""
        return ChangeSet()

    @supported(os_family=REPOSITORIES)
    def repo_files(self) -> tuple[str, ...]:
        """Return the files and directories that have the repositories and their keys, to be watched."""
        return ()

    @supported(os_family=COMMON)
    async def owner(self, paths: Sequence[str]) -> dict[str, str | None]:
        """Return the installed package that ships a path, by path; None if none does.

        A path that several packages ship, such as a directory, gives the first of their names.
        """
        return {}

    @replaces("file_dict")
    @supported(os_family=COMMON)
    async def files(self, names: Sequence[str]) -> dict[str, list[str]]:
        """Return the paths that installed packages ship, sorted, by name. Other names are left out."""
        return {}

    @replaces("info_installed")
    @supported(os_family=COMMON)
    async def info(self, names: Sequence[str] = ()) -> dict[str, PkgInfo]:
        """Return descriptions of installed packages by name; with `names` only of these."""
        return {}

    @supported(os_family=COMMON)
    async def verify(self, names: Sequence[str] = ()) -> dict[str, list[FileDeviation]]:
        """Compare installed files with what the packages shipped: name -> the files that differ.

        Packages without differences are left out. With `names`, only these packages are checked.
        """
        return {}

    @supported(os_family=("Debian", "RedHat", "Suse", "Arch", "FreeBSD"))
    async def autoremove(self, names: Sequence[str] = (), *, test: bool = False, options: Options = None) -> ChangeSet:
        """Remove packages that were installed only for others, and that no package needs any more.

        With `names`, only these of them.
        """
        return ChangeSet()

    @supported(os_family=COMMON)
    async def download(self, names: Sequence[str]) -> dict[str, str]:
        """Fetch the candidates of packages and of what they need, and return the path of each package file by name.

        Nothing is installed. Raises `Permanent` for a name that no repository offers.
        """
        return {}

    @replaces("group_list")
    @supported(os_family=("RedHat", "Suse", "Arch"))
    async def groups(self, names: Sequence[str] = ()) -> dict[str, list[str]]:
        """Return the groups of packages that the repositories define: name of the group -> packages."""
        return {}

    @replaces("list_patches")
    @supported(os_family=("RedHat", "Suse"))
    async def patches(self, names: Sequence[str] = ()) -> dict[str, Patch]:
        """Return the published patches that concern this host by their id; with `names` only these."""
        return {}

    @supported(os_family=("Debian",))
    async def owners(self, names: Sequence[str], paths: AbstractSet[str]) -> dict[str, list[str]]:
        """Return which of these packages ship which of these paths: path -> packages.

        Only installed packages are known.

        Directories that every host has (`/etc`, `/usr/bin`) belong to no package. Called at each change of the states,
        so it must be cheap: no command.
        """
        return {}

    @supported(os_family=("Debian",))
    def others(self) -> str | None:
        """Return the program that changes packages now, or is about to, other than the agent: `process 7 (apt-get)`.

        None if there is none. Called before each run of a resource, so it must be cheap; it does not block.
        """
        return None

    @supported(os_family=("Debian",))
    async def in_other_hands(self, names: AbstractSet[str], paths: AbstractSet[str]) -> bool:
        """Return whether another program is changing, or has changed, a package or the package of a path."""
        return False

    def watch(self, names: Sequence[str] = (), catalogue: bool = False) -> Watch:
        """Watch the database entries of these packages (default: of all packages).

        With `catalogue`, watch the package lists, too.

        The intermediate steps of the agent's own changes are not reported, only their results.
        """
        return idle()

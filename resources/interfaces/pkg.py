"""`pkg`: software packages."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

from holdfast.resources.context import Watch
from holdfast.resources.interfaces.base import Interface, Options, not_applicable, supported
from holdfast.resources.interfaces.results import ChangeSet, Pkg, PkgSpec
from holdfast.resources.watches import idle

HOLDERS = ("Debian", "RedHat", "Suse", "FreeBSD")


class PkgInterface(Interface, name="pkg"):
    """Look at, install and remove packages.

    Functions that change something return what they changed, with the packages they pulled in; with `test` they change
    nothing and return what they would. They wait for others who use the package database, and raise `Permanent` when
    the package manager refuses.
    """

    async def list_installed(self, names: Sequence[str] = ()) -> dict[str, list[Pkg]]:
        """What is installed, by name; with `names` only these, those not installed left out.

        A name that is only provided by other packages (`mail-transport-agent`) gives those.
        """
        return {}

    async def latest(self, names: Sequence[str], refresh: bool = False) -> dict[str, str | None]:
        """The version that would be installed now; None for a name that no repository offers."""
        return {}

    async def available(self, names: Sequence[str]) -> dict[str, list[str]]:
        """All versions that can be installed, the newest first."""
        return {}

    async def upgrades(self, refresh: bool = True) -> dict[str, dict[str, str]]:
        """Installed packages that have a newer candidate: name -> {current, candidate}."""
        return {}

    async def install(
        self, pkgs: Sequence[PkgSpec], refresh: bool | None = None, *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Install or bring to the given version, in one transaction.

        `refresh` the lists of the repositories before: None means when a package is not found without.
        """
        return ChangeSet()

    async def remove(
        self, names: Sequence[str], purge: bool = False, *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Remove packages; `purge` their configuration files too, also of those removed earlier."""
        return ChangeSet()

    async def upgrade(
        self, names: Sequence[str] = (), refresh: bool = True, *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Bring these packages, or all, to their candidates."""
        return ChangeSet()

    async def compare(self, a: str, b: str) -> Literal[-1, 0, 1]:
        """How two versions stand: -1 when `a` is older, 1 when it is newer."""
        return 0

    @not_applicable(os=("OpenBSD", "AIX"))
    async def refresh(self, force: bool = False) -> dict[str, Literal["updated", "unchanged", "failed"]]:
        """Fetch the lists of the repositories, by repository. Without `force`, lists fetched within the last hour will do."""
        return {}

    @supported(os_family=HOLDERS)
    async def hold(self, names: Sequence[str], *, test: bool = False, options: Options = None) -> ChangeSet:
        """Keep packages at their present version."""
        return ChangeSet()

    @supported(os_family=HOLDERS)
    async def unhold(self, names: Sequence[str], *, test: bool = False, options: Options = None) -> ChangeSet:
        """Let packages be upgraded again."""
        return ChangeSet()

    @supported(os_family=HOLDERS)
    async def holds(self) -> dict[str, str | None]:
        """Packages that are held: name -> version, None when it is not installed."""
        return {}

    @supported(os_family=("Debian",))
    async def residual(self, names: Sequence[str]) -> list[str]:
        """Those of the names that were removed but left configuration files behind, to be purged."""
        return []

    @supported(os_family=("Debian",))
    async def owners(self, names: Sequence[str], paths: Collection[str]) -> dict[str, list[str]]:
        """Which of these packages ship which of these paths: path -> packages. No more than what is installed can be known.

        Directories that every host has (`/etc`, `/usr/bin`) belong to nobody. Asked whenever states change, so it must be cheap: no command.
        """
        return {}

    @supported(os_family=("Debian",))
    def others(self) -> str:
        """Who changes packages now, or is about to, and was not started by the agent: `process 7 (apt-get)`; empty: nobody.

        Asked before each run of a resource, so it must be cheap; it does not block.
        """
        return ""

    @supported(os_family=("Debian",))
    async def in_other_hands(self, names: Collection[str], paths: Collection[str]) -> bool:
        """Whether those others are changing, or have changed since they began, one of these packages or one that ships one of these paths."""
        return False

    def watch(self, names: Sequence[str] = (), catalogue: bool = False) -> Watch:
        """Says when what the database knows of these packages (by default: of any) has changed; with `catalogue` also the lists of the repositories.

        What the agent's own changes do on the way is not told, only what they have left behind.
        """
        return idle()

"""Base of the providers of packages by dnf 4 and dnf 5: what both commands have in common.

Only `refresh` fetches lists of packages; all other commands use the present lists, however old. A repository that
cannot be reached does not prevent the use of the others.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from holdfast.resources import paths
from holdfast.resources.errors import Permanent
from holdfast.resources.interfaces.base import Options
from holdfast.resources.interfaces.results import ChangeSet, Repo
from holdfast.resources.providers import _dnf, _rpm
from holdfast.resources.providers._pkg_database import Changes
from holdfast.resources.providers.pkg_base import Transaction
from holdfast.resources.providers.rpm_base import RpmProvider

ARMOR = b"-----BEGIN PGP PUBLIC KEY BLOCK-----"
ASSENT = ("--assumeyes", "--setopt=*.skip_if_unavailable=1")
STALE = "--setopt=*.metadata_expire=never"
"""Accepts lists of packages of any age."""
LOOKS = ("--assumeno", "--cacheonly", "--setopt=logdir=/run/holdfast/dnf")
"""Switches for commands that only read: they download nothing, and do not write to the log of an administrator's
commands."""


class DnfProvider(RpmProvider, abstract=True):
    """Plans and makes transactions.

    The core of a provider is `_fetch_lists` and `_held`, and the attributes below.
    """

    command: ClassVar[str]
    end: ClassVar[str] = ""
    """Text that ends a line of `--queryformat`."""
    looks: ClassVar[tuple[str, ...]] = LOOKS
    """Switches of a command that only reads."""
    replaced: ClassVar[re.Pattern[str]]
    """Finds the packages that others replace in the table of a transaction."""
    unlocked: ClassVar[str]
    """Switch that ignores locks of versions."""
    downloads: ClassVar[Path]

    repositories = Path("/etc/yum.repos.d")
    sources = (repositories,)
    missing = (
        "No match for argument", "Unable to find a match", "nothing provides", "no cache for", "Cannot download",
        "available; You might want to use",
    )  # fmt: skip

    # -- the core ------------------------------------------------------------------------------------------------

    async def _offered(self, names: Sequence[str]) -> dict[str, list[str]]:
        text = await self._query_lists("%{name} %{evr}", *names, to=f"ask dnf for {', '.join(names)}")
        return _rpm.offers((name, version) for name, version in map(str.split, text.splitlines()))

    async def _plan(self, transaction: Transaction) -> Changes:
        command = (self.command, *self.looks, *_dnf.arguments(transaction, self.unlocked))
        done = await self._run(*command, to=transaction.title, accept=(0, 1), looks=True)
        if done.retcode and _dnf.DECLINED not in done.stderr:
            raise Permanent(f"cannot {transaction.title}: {self._reason(done)}")
        return _rpm.changed(await self._cache.read(), _dnf.planned(done.stdout, self.replaced))

    async def _make(self, transaction: Transaction) -> None:
        await self._act(*_dnf.arguments(transaction, self.unlocked), to=transaction.title)
        if again := [pkg.name for pkg in transaction.pkgs if pkg.reinstall]:
            await self._act("reinstall", *again, to=f"reinstall {', '.join(again)}")

    # -- what dnf has besides ------------------------------------------------------------------------------------

    async def _set_held(self, names: Sequence[str], held: bool) -> None:
        verb = "add" if held else "delete"
        await self._act("versionlock", verb, *names, to=f"{verb} a lock of {', '.join(names)}")

    async def _unneeded(self) -> list[str]:
        query = ("repoquery", "--quiet", "--unneeded", f"--queryformat=%{{name}}{self.end}")
        return (await self._look(*query, to="find packages that are not needed")).split()

    async def download(self, names: Sequence[str]) -> dict[str, str]:
        """Fetch packages and what they need by `dnf download`, to a directory of the agent."""
        if not names:
            return {}
        to = f"download {', '.join(names)}"
        await self._act("download", "--resolve", f"--destdir={self.downloads}", *names, to=to)
        text = await self._query_lists("%{name} %{location}", *names, to=to, only=("--latest-limit=1",))
        return {name: str(self.downloads / Path(file).name) for name, file in map(str.split, text.splitlines())}

    def _trial(self, directory: str, name: str, *, import_key: bool) -> tuple[str, ...]:
        must = f"--setopt={name}.skip_if_unavailable=0"
        return (self.command, "--assumeyes", f"--setopt=reposdir={directory}", must, "makecache", "--refresh")

    async def repo_set(
        self, repo: Repo, refresh: bool = False, *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Change the section of the repository, or write a new file; extra as in `repos`.

        Option: `key` is the key of the repository in ASCII armor, which is stored in /etc/pki/rpm-gpg.
        Raises `Permanent` if a key in a file of this host is not in ASCII armor: rpm imports no other ones.
        """
        for key in str(repo.extra.get("gpgkey") or "").replace(",", " ").split():
            path = key.removeprefix("file://")
            if path.startswith("/") and await self.host.blocking(self._is_binary, path):
                raise Permanent(f"cannot set repository {repo.id}: its key {path} is not in ASCII armor, as rpm needs")
        return await super().repo_set(repo, refresh, test=test, options=options)

    # -- helpers -------------------------------------------------------------------------------------------------

    def _is_binary(self, path: str) -> bool:
        """Return whether a key exists and is not in ASCII armor."""
        try:
            return ARMOR not in paths.read(str(self.host.system_path(Path(path))))
        except FileNotFoundError:
            return False

    async def _act(self, *arguments: str, to: str) -> None:
        """Make a change with the present lists."""
        await self._run(self.command, *ASSENT, STALE, *arguments, to=to)

    async def _look(self, *arguments: str, to: str) -> str:
        """Return the output of a command that only reads."""
        return (await self._run(self.command, *self.looks, *arguments, to=to, looks=True)).stdout

    async def _query_lists(self, fields: str, *names: str, to: str, only: Sequence[str] = ()) -> str:
        """Return a line with these fields for each package of the lists."""
        query = ("repoquery", "--quiet", "--available", *only, f"--queryformat={fields}{self.end}")
        return await self._look(*query, *names, to=to)

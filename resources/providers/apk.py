"""Packages by apk 2 and apk 3, Alpine's package manager.

apk has a list of wanted packages, `/etc/apk/world`. `install` and `remove` change this list, and apk removes by itself
the packages that no wanted package needs. A version that was installed by its number stays until another one is
requested.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from holdfast.resources.context import Completed
from holdfast.resources.errors import Permanent
from holdfast.resources.interfaces.provider import Confine
from holdfast.resources.interfaces.results import FileDeviation, Pkg, PkgInfo
from holdfast.resources.paths import make_parents
from holdfast.resources.providers import _apk
from holdfast.resources.providers._pkg_database import Changes, PackageDatabase, by_name
from holdfast.resources.providers.pkg_base import Fetched, PkgProvider, Transaction

INSTALLED = Path("/lib/apk/db/installed")
REPOSITORIES = Path("/etc/apk/repositories")
CACHE = Path("/var/cache/apk")
DOWNLOADS = Path("/var/cache/holdfast/apk")
VERSION_2 = "apk-tools 2."
APK = ("apk", "--no-progress", "--no-interactive")
AUDIT = (*APK, "audit", "--system", "--check-permissions", "--details", "--protected-paths", "/dev/null")
"""Without protected paths, configuration files are compared, too."""
ORDER: dict[str, Literal[-1, 0, 1]] = {"<": -1, "=": 0, ">": 1}


class Apk(PkgProvider):
    """Alpine's packages. `remove` also removes the packages that need the removed ones.

    A package file must be signed with a key of `/etc/apk/keys`. Repositories with a tag (`@edge`) offer nothing.
    """

    confine = Confine(grains={"os_family": ("Alpine",)}, commands=("apk",))
    database = (INSTALLED,)
    lists = (CACHE,)
    busy = ("Unable to lock database",)
    missing = ("(no such package)", "breaks: world[")

    async def _query(self) -> PackageDatabase:
        pkgs, provided = [], dict[str, list[Pkg]]()
        for entry in await self._entries():
            pkgs.append(pkg := Pkg(name=entry["P"][0], version=entry["V"][0], arch=entry["A"][0]))
            for name in " ".join(entry.get("p", ())).split():
                provided.setdefault(re.split("[<=>~]", name)[0], []).append(pkg)
        return PackageDatabase(by_name(pkgs), provided)

    async def _offered(self, names: Sequence[str]) -> dict[str, list[str]]:
        return _apk.offers((await self._run(*APK, "policy", *names, looks=True)).stdout)

    async def _plan(self, transaction: Transaction) -> Changes:
        text = ""
        for command in _commands(transaction):
            done = await self._run(*APK, *command, "--simulate", to=transaction.title, looks=True)
            text += done.stdout
        steps = {name: (verb, old, new) for verb, name, old, new in _apk.STEP.findall(text)}
        before = (await self._cache.read()).versions()
        changes = {
            name: (before.get(name, ""), "" if step[0] == "Purging" else step[2]) for name, step in steps.items()
        }
        return {name: {"old": old, "new": new} for name, (old, new) in changes.items() if old != new}

    async def _transact(self, transaction: Transaction) -> None:
        for command in _commands(transaction):
            await self._run(*APK, *command, to=transaction.title)

    async def _fetch_lists(self) -> Fetched:
        done = await self._run(*APK, "update")
        outcomes, why = _apk.repositories(done.stdout, done.stderr, await self._configured())
        if done.retcode and not why:
            return Fetched({}, self._reason(done))
        return Fetched(outcomes, "; ".join(f"{name}: {reason}" for name, reason in why.items()))

    async def compare(self, a: str, b: str) -> Literal[-1, 0, 1]:
        """Compare two versions by `apk version --test`. Raises `Permanent` for text that is not a version."""
        order = ORDER.get((await self.host.run("apk", "version", "--test", a, b, check=False)).stdout.strip())
        if order is None:
            raise Permanent(f"cannot compare {a} and {b}: apk knows no such versions")
        return order

    # -- optional functions --------------------------------------------------------------------------------------

    async def owner(self, paths: Sequence[str]) -> dict[str, str | None]:
        """Search the list of installed files. Directories belong to the first package that has them."""
        owners: dict[str, str] = {}
        for entry in await self._entries():
            for path in entry.get("paths", ()):
                owners.setdefault(path, entry["P"][0])
        return {path: owners.get(path) for path in paths}

    async def files(self, names: Sequence[str]) -> dict[str, list[str]]:
        """Return files and directories."""
        return {
            entry["P"][0]: sorted(entry.get("paths", ())) for entry in await self._entries() if entry["P"][0] in names
        }

    async def info(self, names: Sequence[str] = ()) -> dict[str, PkgInfo]:
        """Read apk's database, which does not say when a package was installed; extra: maintainer and origin."""
        found = (_apk.description(entry) for entry in await self._entries())
        return {info.name: info for info in found if not names or info.name in names}

    async def verify(self, names: Sequence[str] = ()) -> dict[str, list[FileDeviation]]:
        """Compare files with the properties and digests of apk's database. Files of `/etc` count as configuration."""
        done = await self._run(*AUDIT, looks=True, to="compare files with those of packages")
        changed = _apk.deviations(done.stdout)
        found: dict[str, list[FileDeviation]] = {}
        for entry in await self._entries():
            if not names or entry["P"][0] in names:
                paths = sorted({*entry.get("paths", ())})
                # apk does not report the files of a directory that is missing.
                missing = {path: _apk.deviation(path, "missing") for path in await self._missing(paths)}
                found[entry["P"][0]] = [here for path in paths if (here := (changed | missing).get(path))]
        return {name: files for name, files in found.items() if files}

    async def download(self, names: Sequence[str]) -> dict[str, str]:
        """Fetch packages and what they need to a directory of the agent."""
        if not names:
            return {}
        await self.host.blocking(make_parents, str(self.host.system_path(DOWNLOADS / "file")))
        done = await self._run(*APK, "fetch", "--recursive", "--output", str(DOWNLOADS), *names)
        if done.retcode or done.stderr.startswith("ERROR: "):  # apk 3 does not fail if there is no such package
            raise await self._failure(f"download {', '.join(names)}", done)
        latest = await self.latest(names)
        return {name: str(DOWNLOADS / f"{name}-{version}.apk") for name, version in latest.items() if version}

    # -- helpers -------------------------------------------------------------------------------------------------

    async def _configured(self) -> list[str]:
        """Return the configured repositories for apk 2, which does not name all of them; empty for apk 3."""
        if not (await self._run("apk", "--version", looks=True)).stdout.startswith(VERSION_2):
            return []
        return _apk.configured(await self.host.blocking(self._text, REPOSITORIES))

    async def _missing(self, paths: Sequence[str]) -> list[str]:
        """Return which of these paths do not exist."""
        found: list[str] = await self.host.blocking(
            lambda: [path for path in paths if not os.path.lexists(self.host.system_path(Path(path)))]
        )
        return found

    def _reason(self, done: Completed) -> str:
        return super()._reason(done).removeprefix("ERROR: ").replace(":; ", ": ")

    async def _entries(self) -> list[_apk.Entry]:
        found: list[_apk.Entry] = await self.host.blocking(lambda: list(_apk.entries(self._text(INSTALLED))))
        return found

    def _text(self, path: Path) -> str:
        return self.host.system_path(path).read_text(errors="replace")


def _commands(transaction: Transaction) -> list[list[str]]:
    """Return the arguments of apk for each command of a transaction."""
    if transaction.verb == "remove":
        return [["del", "--rdepends", *(["--purge"] if transaction.purge else []), *transaction.names]]
    if transaction.verb == "upgrade":
        return [["upgrade", *transaction.names]]
    wanted = [pkg.source or "=".join(filter(None, (pkg.name, pkg.version))) for pkg in transaction.pkgs]
    again = [pkg.name for pkg in transaction.pkgs if pkg.reinstall]
    return [["add", "--upgrade", *wanted], *([["fix", "--reinstall", *again]] if again else [])]

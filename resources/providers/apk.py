"""Packages by apk, Alpine's package manager.

apk keeps the list of wanted packages, `/etc/apk/world`: `install` and `remove` change it, and apk removes by itself
what no wanted package needs. A version that was installed by its number stays until another one is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from holdfast.resources.context import Completed
from holdfast.resources.errors import Permanent
from holdfast.resources.interfaces.provider import Confine
from holdfast.resources.interfaces.results import Pkg, PkgInfo
from holdfast.resources.providers._pkg_database import Changes, PackageDatabase, by_name
from holdfast.resources.providers.pkg_base import Fetched, Outcome, PkgProvider, Transaction

INSTALLED = Path("/lib/apk/db/installed")
REPOSITORIES = Path("/etc/apk/repositories")
CACHE = Path("/var/cache/apk")
APK = ("apk", "--no-progress", "--no-interactive")
ORDER: dict[str, Literal[-1, 0, 1]] = {"<": -1, "=": 0, ">": 1}
STEP = re.compile(r"^\(\d+/\d+\) (\w+) (\S+) \((?:(\S+) -> )?(\S+)\)$", re.MULTILINE)
"""A step of a transaction: `(1/2) Upgrading tiny (1.0-r0 -> 2.0-r0)`."""


class Apk(PkgProvider):
    """Alpine's packages. `remove` also removes the packages that need the removed ones.

    A package file must be signed with a key of `/etc/apk/keys`.
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
        done = await self._run(*APK, "policy", *names, looks=True)
        policies = re.findall(r"^(\S+) policy:\n((?:  .*\n?)*)", done.stdout, re.MULTILINE)
        return {name: list(reversed(list(_versions(text)))) for name, text in policies}

    async def _plan(self, transaction: Transaction) -> Changes:
        text = ""
        for command in _commands(transaction):
            done = await self._run(*APK, *command, "--simulate", to=transaction.title, looks=True)
            text += done.stdout
        steps = {name: (verb, old, new) for verb, name, old, new in STEP.findall(text)}
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
        text: str = await self.host.blocking(self._text, REPOSITORIES)
        configured = [line.split()[-1].rstrip("/") for line in text.splitlines() if line.strip() and line[0] != "#"]
        updated = set(re.findall(r"^fetch (\S+)/[^/]+/APKINDEX\.tar\.gz$", done.stdout, re.MULTILINE))
        why = dict(re.findall(r"^WARNING: updating and opening (\S+): (.*)$", done.stderr, re.MULTILINE))
        if done.retcode and not why:
            return Fetched(dict.fromkeys(configured, "failed"), self._reason(done))
        found: dict[str, Outcome] = {
            name: "failed" if name in why else "updated" if name in updated else "unchanged" for name in configured
        }
        return Fetched(found, "; ".join(f"{name}: {reason}" for name, reason in why.items()))

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
        found = (_description(entry) for entry in await self._entries())
        return {info.name: info for info in found if not names or info.name in names}

    def _reason(self, done: Completed) -> str:
        return super()._reason(done).removeprefix("ERROR: ").replace(":; ", ": ")

    async def _entries(self) -> list[dict[str, list[str]]]:
        found: list[dict[str, list[str]]] = await self.host.blocking(lambda: list(entries(self._text(INSTALLED))))
        return found

    def _text(self, path: Path) -> str:
        return self.host.system_path(path).read_text(errors="replace")


def entries(text: str) -> Iterator[dict[str, list[str]]]:
    """Yield letter -> values for each package of apk's database, with the installed paths as `paths`."""
    for block in text.split("\n\n"):
        entry: dict[str, list[str]] = {}
        directory = ""
        for line in block.splitlines():
            letter, _, value = line.partition(":")
            entry.setdefault(letter, []).append(value)
            if letter == "F":
                directory = f"/{value}" if value else ""
                entry.setdefault("paths", []).extend([directory] if value else [])
            elif letter == "R":
                entry.setdefault("paths", []).append(f"{directory}/{value}")
        if "P" in entry:
            yield entry


def _description(entry: dict[str, list[str]]) -> PkgInfo:
    one = {letter: values[0] for letter, values in entry.items()}
    return PkgInfo(
        name=one["P"],
        version=one["V"],
        arch=one.get("A"),
        summary=one.get("T"),
        license=one.get("L"),
        url=one.get("U"),
        size=int(one["I"]) if "I" in one else None,
        extra={"maintainer": one.get("m"), "origin": one.get("o")},
    )


def _versions(text: str) -> Iterator[str]:
    """Yield the versions of `apk policy` that a repository offers, the oldest first."""
    for version, sources in re.findall(r"^  (\S+):\n((?:    .*\n?)*)", text, re.MULTILINE):
        if set(sources.split()) - {str(INSTALLED).lstrip("/")}:
            yield version


def _commands(transaction: Transaction) -> list[list[str]]:
    """Return the arguments of apk for each command of a transaction."""
    if transaction.verb == "remove":
        return [["del", "--rdepends", *(["--purge"] if transaction.purge else []), *transaction.names]]
    if transaction.verb == "upgrade":
        return [["upgrade", *transaction.names]]
    wanted = [pkg.source or "=".join(filter(None, (pkg.name, pkg.version))) for pkg in transaction.pkgs]
    again = [pkg.name for pkg in transaction.pkgs if pkg.reinstall]
    return [["add", "--upgrade", *wanted], *([["fix", "--reinstall", *again]] if again else [])]

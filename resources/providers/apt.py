"""Packages by apt and dpkg.

apt's own defaults apply (recommended packages are installed). No package asks a question: changed configuration files
are kept. The provider waits for other programs that use the package database, and logs their names.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Literal

from holdfast.resources.context import Completed, Watch
from holdfast.resources.errors import HoldfastError, Permanent, Temporary
from holdfast.resources.interfaces.base import Options
from holdfast.resources.interfaces.host import ProviderHost
from holdfast.resources.interfaces.pkg import PkgInterface
from holdfast.resources.interfaces.provider import Confine, Provider
from holdfast.resources.interfaces.results import ChangeSet, Pkg, PkgSpec
from holdfast.resources.providers._claims import UCF
from holdfast.resources.providers._complaints import complaint, named, was_killed
from holdfast.resources.providers._dpkg import (
    ADMIN,
    LISTS,
    Dpkg,
    DpkgStatus,
    Files,
    differences,
    planned,
    policies,
)
from holdfast.resources.providers._locks import LOCKS, Others, lock_holder
from holdfast.resources.spelling import nearest

QUIET = {"DEBIAN_FRONTEND": "noninteractive", "APT_LISTCHANGES_FRONTEND": "none", "UCF_FORCE_CONFFOLD": "1"}
"""Environment in which no package asks a question."""
SIMULATE = ("--simulate", "--option=Dir::Log::Planner=/dev/null")
"""Switches for simulation; without the second switch, simulations of root write a log of the plan."""
KEEP = ("-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold")
LOCK_TIMEOUT = 600.0
"""Seconds to wait for other programs."""
LOCK_INTERVAL = 0.2
"""Seconds between two checks of a lock; the kernel does not report its release."""
FRESH = 3600.0
"""Seconds for which the lists of packages count as new."""
SWITCHES = {
    "skip_verify": "--allow-unauthenticated",
    "update_holds": "--allow-change-held-packages",
    "only_upgrade": "--only-upgrade",
}
"""Options of `install` -> switches of apt-get."""
UPDATED: Mapping[str, Literal["updated", "unchanged", "failed"]] = {
    "Get": "updated",
    "Hit": "unchanged",
    "Err": "failed",
}
MISSING = ("Unable to locate package", "has no installation candidate", "was not found", "Failed to fetch", "404")
"""Messages of apt if its lists are outdated."""


class Apt(Provider):
    """Debian's packages.

    Options of `install`: `fromrepo`, `skip_verify`, `update_holds`, `only_upgrade`, `install_recommends`.
    """

    implements = PkgInterface
    confine = Confine(
        grains={"os_family": ("Debian",)}, commands=("apt-get", "apt-cache", "apt-mark", "dpkg-query", "dpkg")
    )

    def __init__(self, host: ProviderHost) -> None:
        super().__init__(host)
        self._dpkg = Dpkg(host)
        self._files = Files(str(host.facts.get("osarch", "")), host.system_path(ADMIN))
        self._others = Others(self._dpkg, host, host.system_path(ADMIN), host.system_path(UCF))
        self._locks = [host.system_path(path) for path in LOCKS]
        self._refreshed = 0.0
        self._idle = asyncio.Event()
        """Set while no command of the agent changes packages."""
        self._idle.set()
        self._changing = 0
        """Number of commands that change packages."""
        self._transacting = asyncio.Lock()
        """One transaction at a time, so that each reports its own changes."""

    # -- querying ------------------------------------------------------------------------------------------------

    async def list_installed(self, names: Sequence[str] = ()) -> dict[str, list[Pkg]]:
        """Return the installed packages; a virtual name gives its providers."""
        database = await self._dpkg.read()
        if not names:
            return {name: found for name, found in database.installed.items() if ":" not in name}
        return {name: found for name in names if (found := database.find(name))}

    async def latest(self, names: Sequence[str], refresh: bool = False) -> dict[str, str | None]:
        """Return the candidates from the present package lists, or after a refresh."""
        if refresh:
            await self.refresh()
        return {name: candidate for name, (candidate, _) in (await self._policies(names)).items()}

    async def available(self, names: Sequence[str]) -> dict[str, list[str]]:
        """Return the versions in the lists, and the installed one."""
        return {name: versions for name, (_, versions) in (await self._policies(names)).items()}

    async def _policies(self, names: Sequence[str]) -> dict[str, tuple[str | None, list[str]]]:
        if not names:
            return {}
        done = await self._cache("policy", *names)
        if done.retcode and "E:" in done.stderr:
            raise Permanent(f"cannot ask apt for {', '.join(names)}: {complaint(done)}")
        found = {name: (candidate, versions) for name, candidate, versions in policies(done.stdout)}
        return {name: found.get(name, (None, [])) for name in names}

    async def upgrades(self, refresh: bool = True) -> dict[str, dict[str, str]]:
        """Return what a full upgrade would change to a newer version."""
        if refresh:
            await self.refresh()
        plan = planned((await self._apt("dist-upgrade", test=True, explain=True)).stdout)
        return {
            name: {"current": change["old"], "candidate": change["new"]}
            for name, change in plan.items()
            if all(change.values())
        }

    async def compare(self, a: str, b: str) -> Literal[-1, 0, 1]:
        """Compare two versions by dpkg's own rules."""
        if a == b:
            return 0
        for relation, order in (("lt", -1), ("gt", 1)):
            if (await self.host.run("dpkg", "--compare-versions", a, relation, b, check=False)).retcode == 0:
                return -1 if order < 0 else 1
        return 0

    async def holds(self) -> dict[str, str | None]:
        """Return the packages on hold."""
        database = await self._dpkg.read()
        versions = database.versions()
        return {name: versions.get(name) for name in sorted(database.held)}

    async def residual(self, names: Sequence[str]) -> list[str]:
        """Return the removed packages whose configuration files are still there."""
        left = (await self._dpkg.read()).residual
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

    async def watch(self, names: Sequence[str] = (), catalogue: bool = False) -> Watch:
        """Watch dpkg's status file and the lists, and report changes for these packages."""
        known: object = None
        async for event in self.host.watch_path(str(ADMIN / "status"), *([str(LISTS)] if catalogue else [])):
            arming = known is None
            if not arming:
                await self._idle.wait()
            self._others.at_work()  # another program may have made the change that is read next
            try:
                now: object = ((await self._dpkg.read()).known(names), self._fetched() if catalogue else 0.0)
            except HoldfastError:
                now = object()  # counts as a change: the next probe reports why the database cannot be read
            if arming or now != known:
                known = now
                yield event

    # -- changing ------------------------------------------------------------------------------------------------

    async def install(
        self, pkgs: Sequence[PkgSpec], refresh: bool | None = None, *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Install in one transaction; a declared version or file may be older than the installed one."""
        switches = _install_switches(options or {})
        if any(pkg.version or pkg.source for pkg in pkgs):
            switches.append("--allow-downgrades")
        halved = (await self._dpkg.read()).halved
        if any(pkg.reinstall or pkg.name in halved for pkg in pkgs):
            switches.append("--reinstall")
        if refresh and not test:
            await self.refresh(force=True)
        wanted = [pkg.source or (f"{pkg.name}={pkg.version}" if pkg.version else pkg.name) for pkg in pkgs]
        return await self._transaction("install", *switches, *wanted, test=test, again=refresh is None)

    async def remove(
        self, names: Sequence[str], purge: bool = False, *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Remove, or purge, in one transaction."""
        gone = await self.residual(names) if purge else []
        changes = await self._transaction("purge" if purge else "remove", *names, test=test)
        return changes.model_copy(
            update={"changes": {**{name: {"old": "configuration", "new": ""} for name in gone}, **changes.changes}}
        )

    async def upgrade(
        self, names: Sequence[str] = (), refresh: bool = True, *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Upgrade these packages, or all that need no removal of others, to their candidates."""
        if refresh and not test:
            await self.refresh()
        return await self._transaction(*(("install", "--only-upgrade", *names) if names else ("upgrade",)), test=test)

    async def refresh(self, force: bool = False) -> dict[str, Literal["updated", "unchanged", "failed"]]:
        """Fetch the lists. Raises `Temporary` if no repository could be reached."""
        if not force and time.time() - self._fetched() < FRESH:
            return {}
        done = await self._apt("update")
        result = _repositories(done.stdout)
        failed = [repository for repository, outcome in result.items() if outcome == "failed"]
        if len(failed) == len(result) and (failed or done.retcode):
            raise Temporary(f"cannot refresh the lists of packages: {complaint(done)}", delay=30.0)
        if failed or done.retcode:
            self.host.log.warning("some repositories cannot be reached", repositories=failed, why=complaint(done))
        self._refreshed = time.time()
        return result

    def _fetched(self) -> float:
        """Return the Unix time of the last refresh by any program; 0 for never.

        A refresh that found nothing new leaves no trace on disk.
        """
        try:
            return max(self._refreshed, (self.host.system_path(LISTS) / "partial").stat().st_mtime)
        except OSError:
            return 0.0

    async def hold(self, names: Sequence[str], *, test: bool = False, options: Options = None) -> ChangeSet:
        """Put packages on hold."""
        return await self._mark("hold", names, test=test)

    async def unhold(self, names: Sequence[str], *, test: bool = False, options: Options = None) -> ChangeSet:
        """Release packages from hold."""
        return await self._mark("unhold", names, test=test)

    async def _mark(self, verb: Literal["hold", "unhold"], names: Sequence[str], *, test: bool) -> ChangeSet:
        held = (await self._dpkg.read()).held
        wrong = [name for name in names if (name in held) != (verb == "hold")]
        if wrong and not test:
            with self._at_work():
                done = await self.host.run("apt-mark", verb, *wrong, env=QUIET, check=False)
            if done.retcode:
                raise Permanent(f"cannot {verb} {', '.join(wrong)}: {complaint(done)}")
        words = ("", "hold") if verb == "hold" else ("hold", "")
        return ChangeSet(changes={name: {"old": words[0], "new": words[1]} for name in wrong})

    # -- running apt ---------------------------------------------------------------------------------------------

    async def _transaction(self, *arguments: str, test: bool, again: bool = False) -> ChangeSet:
        """Run one apt-get and return what it changed.

        `again`: refresh and try once more if apt cannot find something.
        """
        if test:
            return ChangeSet(changes=planned((await self._apt(*arguments, test=True, explain=True)).stdout))
        async with self._transacting:
            await self._wait()
            before = await self._dpkg.read()
            if before.unfinished or self._dpkg.was_interrupted():
                await self._finish(before)
            try:
                await self._change(*arguments, again=again)
            except HoldfastError:
                if self._dpkg.was_interrupted():  # if the packages are as declared, no later run would finish it
                    await self._finish(await self._dpkg.read())
                raise
            return ChangeSet(changes=differences(before, await self._dpkg.read()))

    async def _change(self, *arguments: str, again: bool) -> None:
        try:
            await self._apt(*arguments, explain=True)
        except Permanent as error:
            if not again or not any(words in str(error) for words in MISSING):
                raise
            self.host.log.info("apt cannot find a package: fetching the lists of packages again", why=str(error))
            await self.refresh(force=True)
            await self._apt(*arguments, explain=True)

    async def _finish(self, database: DpkgStatus) -> None:
        """Finish an interrupted installation: apt refuses all work until then."""
        await self._wait()
        self.host.log.warning("an installation was interrupted: finishing it", packages=sorted(database.unfinished))
        with self._at_work():
            await self.host.run(
                "dpkg",
                "--force-confdef",
                "--force-confold",
                "--configure",
                "--pending",
                env=QUIET,
                check=False,
                shown=True,
            )

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """Mark that a command of the agent changes packages."""
        self._changing += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._changing -= 1
            if not self._changing:
                self._idle.set()

    async def _apt(self, *arguments: str, test: bool = False, explain: bool = False) -> Completed:
        """Run apt-get once no other program uses apt or dpkg.

        With `explain`, raises `Permanent` with apt's reason on failure, or `Temporary` if a process was killed.
        """
        deadline = time.monotonic() + LOCK_TIMEOUT
        while True:
            left = max(0.0, deadline - time.monotonic())
            if not test:
                await self._wait(left)
            mode = SIMULATE if test else (f"--option=DPkg::Lock::Timeout={left:.0f}",)
            with nullcontext() if test else self._at_work():
                done = await self.host.run(
                    "apt-get",
                    "--quiet",
                    "--assume-yes",
                    *mode,
                    *KEEP,
                    *arguments,
                    env=QUIET,
                    check=False,
                    limit=1 << 24,
                    shown=not test,
                )
            if not (done.retcode and "Could not get lock" in done.stderr):
                break
            if time.monotonic() > deadline:
                raise Temporary(f"cannot use apt: other programs took its lock first for {LOCK_TIMEOUT:.0f} s")
            await asyncio.sleep(LOCK_INTERVAL)
        if done.retcode and explain:
            text = f"cannot {arguments[0]} {', '.join(named(arguments))}: {complaint(done)}"
            if was_killed(done):
                raise Temporary(text)
            raise Permanent(text + await self._hint(done))
        return done

    async def _wait(self, seconds: float | None = None) -> None:
        """Wait until no other program uses apt or dpkg, and log the name of the program.

        Raises `Temporary` after this number of seconds, `LOCK_TIMEOUT` by default.
        """
        told = ""
        try:
            async with asyncio.timeout(LOCK_TIMEOUT if seconds is None else seconds):
                while holder := lock_holder(self._locks):
                    if holder != told:
                        self.host.log.info(f"waiting for apt's lock, which is held by {holder}")  # noqa: G004
                        told = holder
                    await asyncio.sleep(LOCK_INTERVAL)
        except TimeoutError:
            raise Temporary(
                f"cannot use apt: its lock has been held by {told or 'others'} for {LOCK_TIMEOUT:.0f} s"
            ) from None

    async def _hint(self, done: Completed) -> str:
        """Return a hint for an unknown package: the most similar name."""
        _, found, rest = done.stderr.partition("Unable to locate package ")
        unknown = rest.partition("\n")[0].strip()
        if not found:
            return ""
        names = (await self._cache("pkgnames", unknown[:2])).stdout.split()
        if near := await self.host.blocking(nearest, unknown, names):
            return f"; did you mean {near}?"
        return "" if self._fetched() else "; the lists of packages were never fetched: set `refresh: true`"

    async def _cache(self, *arguments: str) -> Completed:
        return await self.host.run("apt-cache", *arguments, check=False, limit=1 << 24)


def _repositories(text: str) -> dict[str, Literal["updated", "unchanged", "failed"]]:
    """Parse the output of `apt-get update`: repository -> result."""
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line[:3] in UPDATED]
    return {rest[0]: UPDATED[word[:3]] for word, *rest in lines if rest}


def _install_switches(options: Mapping[str, Any]) -> list[str]:
    """Return the switches of apt-get for the options of `install`."""
    switches = [switch for option, switch in SWITCHES.items() if options.get(option)]
    if options.get("fromrepo"):
        switches.append(f"--target-release={options['fromrepo']}")
    if options.get("install_recommends") is not None:
        switches.append("--install-recommends" if options["install_recommends"] else "--no-install-recommends")
    return switches

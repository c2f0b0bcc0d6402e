"""Functions that the base of the package providers derives from a core, with a tool in memory."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Literal

import pytest

from holdfast.agent.function_calls import CallRequest, FunctionCall
from holdfast.resources.context import Completed
from holdfast.resources.errors import Permanent, Temporary
from holdfast.resources.interfaces.binding import Bound
from holdfast.resources.interfaces.pkg import PkgInterface
from holdfast.resources.interfaces.provider import Confine, Offer
from holdfast.resources.interfaces.results import Pkg, PkgSpec
from holdfast.resources.providers import _shared_tool
from holdfast.resources.providers._pkg_database import Changes, PackageDatabase, by_name
from holdfast.resources.providers.pkg_base import Fetched, HoldingProvider, PkgProvider, Transaction


class Toy(HoldingProvider, abstract=True):
    """A package manager in memory; `abstract` keeps it out of the providers that hosts choose from."""

    tool = "toy"
    database = (Path("/toy/db"),)
    lists = (Path("/toy/lists"),)
    sources = (Path("/toy/repositories"),)
    missing = ("not in the lists",)
    busy = ("toy is locked",)

    installed: dict[str, str]
    offered: dict[str, list[str]]
    upstream: dict[str, list[str]]
    """Packages that a refresh adds to `offered`."""
    done: list[str]
    """Transactions and refreshes."""
    fetched_lists: Fetched = Fetched({"main": "updated"})
    on_hold: frozenset[str] = frozenset()

    async def _query(self) -> PackageDatabase:
        pkgs = [Pkg(name=name, version=version) for name, version in self.installed.items()]
        return PackageDatabase(by_name(pkgs), {"virtual": pkgs[:1]}, residual=frozenset({"gone"}))

    async def _offered(self, names: Sequence[str]) -> dict[str, list[str]]:
        return {name: self.offered[name] for name in names if name in self.offered}

    async def _plan(self, transaction: Transaction) -> Changes:
        if transaction.verb == "remove":
            return {name: {"old": self.installed[name], "new": ""} for name in transaction.names}
        names = transaction.names or self.installed
        newer = {name: versions[0] for name, versions in self.offered.items() if name in names}
        return {name: {"old": self.installed.get(name, ""), "new": version} for name, version in newer.items()}

    async def _transact(self, transaction: Transaction) -> None:
        self.done.append(transaction.title)
        for name in transaction.names:
            if transaction.verb == "remove":
                self.installed.pop(name, None)
            elif name not in self.offered:
                raise Permanent(f"cannot install {name}: {name} is not in the lists")
            else:
                self.installed[name] = self.offered[name][0]

    async def _fetch_lists(self) -> Fetched:
        self.done.append("refresh")
        self.offered |= self.upstream
        return self.fetched_lists

    async def compare(self, a: str, b: str) -> Literal[-1, 0, 1]:
        """Compare as texts."""
        return 0 if a == b else -1 if a < b else 1

    async def _held(self) -> frozenset[str]:
        return self.on_hold

    async def _set_held(self, names: Sequence[str], held: bool) -> None:
        self.on_hold = self.on_hold | set(names) if held else self.on_hold - set(names)


@pytest.fixture
def toy(host, tmp_path: Path) -> Toy:
    """Return the provider, on a host with lists that are two hours old."""
    host.root = tmp_path
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy/lists").touch()
    two_hours_ago = time.time() - 7200
    os.utime(tmp_path / "toy/lists", (two_hours_ago, two_hours_ago))
    toy = Toy(host)
    toy.installed, toy.offered, toy.upstream, toy.done = {"a": "1"}, {"a": ["2", "1"]}, {"b": ["1"]}, []
    return toy


def test_a_provider_without_a_whole_core_cannot_be_used(host):
    """The error names the missing methods."""

    class Half(PkgProvider, abstract=True):
        database = ()

    with pytest.raises(TypeError, match=r"_fetch_lists.*_offered.*_plan.*_query.*_transact.*compare"):
        Half(host)


async def test_queries_are_derived(toy):
    """Names of installed, provided and unknown packages are distinguished; the candidate is the newest version."""
    assert [pkg.version for pkg in (await toy.list_installed())["a"]] == ["1"]
    assert list(await toy.list_installed(["a", "virtual", "b"])) == ["a", "virtual"]
    assert await toy.available(["a", "b"]) == {"a": ["2", "1"], "b": []}
    assert await toy.latest(["a", "b"]) == {"a": "2", "b": None}
    assert toy.done == []
    assert await toy.latest(["b"], refresh=True) == {"b": "1"}
    assert await toy.upgrades(refresh=False) == {"a": {"current": "1", "candidate": "2"}}


async def test_changes_are_the_difference_of_the_database(toy):
    """Each function makes one transaction, and none with `test`."""
    spec = [PkgSpec(name="a")]

    assert (await toy.install(spec, test=True)).changes == {"a": {"old": "1", "new": "2"}}
    assert toy.installed == {"a": "1"}
    assert (await toy.install(spec)).changes == {"a": {"old": "1", "new": "2"}}
    assert (await toy.remove(["a"], test=True)).changes == {"a": {"old": "2", "new": ""}}
    assert (await toy.remove(["a"])).changes == {"a": {"old": "2", "new": ""}}
    assert toy.done == ["install a", "remove a"]


async def test_packages_that_are_not_installed_are_neither_removed_nor_upgraded(toy):
    """The tool is not run for them, because it might refuse them or install them."""
    assert not await toy.remove(["b", "gone"])
    assert not await toy.upgrade(["b"], refresh=False)
    assert toy.done == []
    assert (await toy.upgrade(["a", "b"], refresh=False)).changes == {"a": {"old": "1", "new": "2"}}
    assert (await toy.remove(["gone"], purge=True)).changes == {"gone": {"old": "configuration", "new": ""}}
    assert toy.done == ["upgrade a", "purge gone"]


@pytest.mark.parametrize(("refresh", "done"), [(None, ["install b", "refresh", "install b"]), (True, ["refresh"])])
async def test_lists_are_fetched_if_a_package_is_not_found(toy, refresh, done):
    """By default, they are fetched once, after the first attempt; with `refresh`, before it."""
    await toy.install([PkgSpec(name="b")], refresh)

    assert toy.installed["b"] == "1"
    assert toy.done[: len(done)] == done
    with pytest.raises(Permanent, match="cannot install c: c is not in the lists"):
        await toy.install([PkgSpec(name="c")], refresh=False)
    assert toy.done[-2:] == ["install b", "install c"]


async def test_an_error_has_the_changes_that_were_made_before_it(toy):
    """The first package was installed, the second one is unknown."""
    with pytest.raises(Permanent) as caught:
        await toy.install([PkgSpec(name="a"), PkgSpec(name="c")], refresh=False)
    assert caught.value.changes == {"a": {"old": "1", "new": "2"}}
    with pytest.raises(Permanent) as caught:
        await toy.install([PkgSpec(name="c")], refresh=False)
    assert caught.value.changes == {}


async def test_a_call_names_the_changes_that_were_made_before_it_failed(toy):
    """The error of the call names the changed packages."""
    bound = Bound(Offer(PkgInterface, "toy", Confine(), 0, 1, Toy), toy.host)
    bound.provider = toy
    bound.decide()
    host = SimpleNamespace(interfaces=SimpleNamespace(get=lambda *_: bound), blocking=None, plugins=None)

    request = CallRequest("pkg.install", ["a", "c"], {"refresh": False}, False, None)
    answer, _ = await FunctionCall(request, host, lambda _: nullcontext(), "").run()

    assert answer["error"] == "cannot install c: c is not in the lists; changed before: a"


async def test_fresh_lists_are_kept(toy, host):
    """Lists that any program has fetched within the hour are kept, if they still exist. `force` fetches them anyway."""
    assert await toy.refresh() == {"main": "updated"}
    assert await toy.refresh() == {}
    assert await toy.refresh(force=True) == {"main": "updated"}
    (host.root / "toy/lists").unlink()
    assert await toy.refresh() == {"main": "updated"}
    toy._refreshed = 0.0
    (host.root / "toy/lists").touch()
    assert await toy.refresh() == {}


async def test_lists_that_are_older_than_the_repositories_are_not_fresh(toy, host):
    """They lack a repository that was added since."""
    (host.root / "toy/lists").touch()
    assert await toy.refresh() == {}
    soon = time.time() + 60
    (host.root / "toy/repositories").touch()
    os.utime(host.root / "toy/repositories", (soon, soon))
    assert await toy.refresh() == {"main": "updated"}


async def test_one_broken_repository_is_a_warning_and_all_are_an_error(toy, host):
    """The result names the repository that failed, the log its reason."""
    toy.fetched_lists = Fetched({"main": "updated", "extra": "failed"}, "extra: no route")

    assert await toy.refresh(force=True) == {"main": "updated", "extra": "failed"}
    assert host.log.lines[-1][2] == {"repositories": ["extra"], "why": "extra: no route"}
    toy.fetched_lists = Fetched({"extra": "failed"}, "extra: no route")
    with pytest.raises(Temporary, match="cannot refresh the lists of packages: extra: no route"):
        await toy.refresh(force=True)


async def test_holds_change_only_what_is_wrong(toy):
    """With `test` nothing is changed; the version of a package that is not installed is None."""
    assert (await toy.hold(["a", "b"], test=True)).changes == {key: {"old": "", "new": "hold"} for key in "ab"}
    assert await toy.holds() == {}
    await toy.hold(["a", "b"])
    assert await toy.holds() == {"a": "1", "b": None}
    assert not await toy.hold(["a"])
    assert (await toy.unhold(["a", "c"])).changes == {"a": {"old": "hold", "new": ""}}
    assert await toy.holds() == {"b": None}


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        ((1, "", "no space\nno space\nleft\n"), Permanent, "cannot do it: no space; left$"),
        ((1, "only on stdout\n", ""), Permanent, "cannot do it: only on stdout$"),
        ((3, "", ""), Permanent, "cannot do it: toy ended with status 3$"),
        ((-9, "", ""), Temporary, "cannot do it: toy ended with status -9$"),
    ],
)
async def test_a_failed_command_is_an_error_in_the_words_of_the_tool(toy, host, answer, error, text):
    """The error is one line without repetitions. After a killed command, the error is temporary."""
    host.answers["toy"] = answer

    with pytest.raises(error, match=text):
        await toy._run("toy", to="do it")


async def test_a_command_is_repeated_while_another_program_has_the_lock(toy, host, monkeypatch):
    """The tool reports a lock that the check before has not found."""
    monkeypatch.setattr(_shared_tool, "LOCK_INTERVAL", 0.0)
    answers = iter([(1, "", "toy is locked by 7"), (1, "toy is locked", ""), (0, "fine", "")])

    async def run(*argv: str, **_: object) -> Completed:
        return Completed(argv, 1, *next(answers))

    monkeypatch.setattr(host, "run", run)

    assert (await toy._run("toy", to="do it")).stdout == "fine"


def test_a_package_of_several_architectures_is_found_by_each():
    """Its versions are reported together."""
    both = [Pkg(name="a", version=version, arch=arch) for version, arch in (("1", "amd64"), ("2", "i386"))]
    database = PackageDatabase(by_name(both))

    assert database.find("a") == both
    assert database.find("a:i386") == both[1:]
    assert database.find("a:arm64") == []
    assert database.versions() == {"a": "1,2"}

"""Packages that another package manager is changing are left alone, for a limited time, and health reports it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Any

from holdfast.agent.health import Health
from holdfast.agent.host.package_changes import CONDITION, FRESH, TIMEOUT, PackageChanges
from holdfast.resources.errors import Permanent
from holdfast.resources.interfaces.results import Pkg
from holdfast.resources.kinds.cmd.run import Run
from holdfast.resources.kinds.file.managed import Managed
from holdfast.resources.kinds.pkg import Installed
from holdfast.resources.kinds.service import Running


class Manager:
    """A package manager that another process may be using."""

    def __init__(self) -> None:
        self.who = ""
        self.names: set[str] = set()
        self.paths: set[str] = set()
        self.installed = {"toy", "tiny"}

    def others(self) -> str:
        """Return the process that uses the package manager."""
        return self.who

    async def in_other_hands(self, names: Collection[str], paths: Collection[str]) -> bool:
        """Return the names and paths that another process may be changing."""
        return not (self.names.isdisjoint(names) and self.paths.isdisjoint(paths))

    async def list_installed(self, names: Sequence[str] = ()) -> dict[str, list[Any]]:
        """Return the installed packages."""
        return {name: [Pkg(name=name, version="1")] for name in names if name in self.installed}

    async def latest(self, names: Sequence[str], refresh: bool = False) -> dict[str, str | None]:
        """Return nothing; these tests need no candidates."""
        return {}


class Counting(Manager):
    """A package manager that counts the questions for other processes."""

    asked = 0

    def others(self) -> str:
        """Return the process that uses the package manager."""
        self.asked += 1
        return super().others()


def conditions(health: Health) -> dict[str, str]:
    """Return the texts of all health conditions by code."""
    return {condition.code: condition.text for condition in health.conditions}


async def test_a_package_its_files_and_its_units_are_left_alone_until_the_other_process_ends(
    virtual_time: None,
) -> None:
    """Other resources are not affected."""
    pkg, health = Manager(), Health()
    package_changes = PackageChanges(lambda: pkg, health, held=lambda: True)
    task = asyncio.create_task(package_changes.run())
    mine = [Installed.declare("toy"), Managed.declare("/etc/toy.conf", contents="x"), Running.declare("toyd")]
    others = [
        Installed.declare("tiny"),
        Managed.declare("/etc/tiny.conf", contents="x"),
        Running.declare("tinyd"),
        Run.declare("true"),
    ]
    pkg.names, pkg.paths = {"toy"}, {"/etc/toy.conf", "/lib/systemd/system/toyd.service"}
    assert [await package_changes.obstacle(each) for each in mine] == [None, None, None]

    pkg.who = "process 7 (apt-get)"
    await asyncio.sleep(FRESH)
    found = [await package_changes.obstacle(each) for each in mine]
    assert [each and each.text for each in found] == ["process 7 (apt-get) is changing its package"] * 3
    assert [await package_changes.obstacle(each) for each in others] == [None] * 4
    await asyncio.sleep(10)
    assert conditions(health) == {
        CONDITION: "process 7 (apt-get) uses the package manager: packages that it may change are left alone meanwhile"
    }
    pkg.who = ""
    await found[0].over.wait()

    assert await package_changes.obstacle(mine[0]) is None
    assert conditions(health) == {}
    task.cancel()


async def test_after_ten_minutes_repairs_continue_and_health_reports_it(virtual_time: None) -> None:
    """The next process that uses the package manager gets ten minutes again."""
    pkg, health, loop = Manager(), Health(), asyncio.get_running_loop()
    package_changes = PackageChanges(lambda: pkg, health, held=lambda: True)
    task = asyncio.create_task(package_changes.run())
    toy = Installed.declare("toy")
    pkg.names, pkg.who = {"toy"}, "process 7 (apt-get)"
    found, began = await package_changes.obstacle(toy), loop.time()
    await found.over.wait()

    assert TIMEOUT <= loop.time() - began < TIMEOUT + 1
    assert await package_changes.obstacle(toy) is None
    assert conditions(health) == {
        CONDITION: "process 7 (apt-get) has used the package manager for 10 min: repairs continue anyway"
    }
    pkg.who = ""
    await asyncio.sleep(1)
    assert conditions(health) == {}
    pkg.who = "process 8 (dpkg)"
    assert (await package_changes.obstacle(toy)).until > loop.time() + TIMEOUT - 1
    task.cancel()


async def test_a_package_to_be_installed_waits_for_the_lock_without_a_worker(virtual_time: None) -> None:
    """The lock delays only packages that must be installed or removed, not those that are as declared."""
    pkg = Manager()
    package_changes = PackageChanges(lambda: pkg, Health(), held=lambda: True)
    pkg.who, pkg.installed = "process 7 (aptitude)", {"tiny"}

    found = await package_changes.obstacle(Installed.declare("toy"))
    assert found.text == "process 7 (aptitude) uses the package manager"
    assert await package_changes.obstacle(Installed.declare("tiny")) is None
    assert await package_changes.obstacle(Managed.declare("/etc/toy.conf", contents="x")) is None


async def test_without_a_package_manager_nothing_is_left_alone(virtual_time: None) -> None:
    """The package manager is looked up only once."""
    asked = []

    def interface() -> None:
        asked.append("pkg")
        raise Permanent("no provider")

    package_changes = PackageChanges(interface, Health(), held=lambda: True)
    for _ in range(2):
        assert await package_changes.obstacle(Installed.declare("toy")) is None
    assert asked == ["pkg"]


async def test_no_provider_is_loaded_while_no_lock_is_held(virtual_time: None) -> None:
    """An agent without packages loads no provider until a lock is held."""
    pkg, asked, held = Manager(), [], []
    pkg.who, pkg.names = "process 7 (apt-get)", {"toy"}

    def interface() -> Manager:
        asked.append("pkg")
        return pkg

    package_changes = PackageChanges(interface, Health(), held=lambda: bool(held))
    assert await package_changes.obstacle(Installed.declare("toy")) is None
    assert asked == []

    held.append(True)
    await asyncio.sleep(FRESH)
    found = await package_changes.obstacle(Installed.declare("toy"))
    assert found.text == "process 7 (apt-get) is changing its package"
    assert asked == ["pkg"]


async def test_the_locks_are_checked_once_for_runs_in_quick_succession(virtual_time: None) -> None:
    """Many runs in a row need one check; a lock that is taken meanwhile is noticed `FRESH` seconds later."""
    looks: list[float] = []
    pkg, held = Manager(), []
    pkg.who, pkg.names = "process 7 (apt-get)", {"toy"}

    def is_held() -> bool:
        looks.append(asyncio.get_running_loop().time())
        return bool(held)

    package_changes = PackageChanges(lambda: pkg, Health(), held=is_held)
    for _ in range(1000):
        assert await package_changes.obstacle(Installed.declare("toy")) is None
    assert len(looks) == 1

    held.append(True)
    await asyncio.sleep(FRESH)
    assert await package_changes.obstacle(Installed.declare("toy")) is not None
    assert len(looks) == 2


async def test_a_provider_is_asked_once_for_runs_in_quick_succession(virtual_time: None) -> None:
    """After another process has once used the package manager, many runs in a row still need one question."""
    pkg = Counting()
    package_changes = PackageChanges(lambda: pkg, Health(), held=lambda: True)
    assert await package_changes.obstacle(Installed.declare("toy")) is None
    before = pkg.asked
    for _ in range(1000):
        assert await package_changes.obstacle(Installed.declare("toy")) is None
    assert pkg.asked == before

    pkg.who, pkg.names = "process 7 (apt-get)", {"toy"}
    await asyncio.sleep(FRESH)
    assert await package_changes.obstacle(Installed.declare("toy")) is not None

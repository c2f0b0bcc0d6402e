"""`apply` waits while an administrator's apt changes the packages of its resources, as the agent does.

It repairs all other resources meanwhile.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import pytest

from deadline import DEADLINE
from holdfast.agent.cli.main import main
from holdfast.agent.host.host import LocalHost
from holdfast.resources import package_locks
from holdfast_process import Tree

HOLD = (
    "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print('held', flush=True); "
    "sys.stdin.read()"
)


class Apt:
    """An apt of another user, which holds a real lock and changes the package of one path.

    It calls `enough` on the fourth request for the holder of the lock.
    """

    def __init__(self, lock: Path, path: str) -> None:
        self.path, self.looks = path, 0
        self.enough: Callable[[], object] = self.end
        self._lock = lock
        self._process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._process.stdout.readline()

    def others(self) -> str:
        """Return the process that holds the lock."""
        self.looks += 1
        if self.looks == 4:
            self.enough()
        holder = package_locks.holder(self._lock)
        return package_locks.described(holder) if holder else ""

    async def in_other_hands(self, names: Collection[str], paths: Collection[str]) -> bool:
        """Return whether the path of this apt is among `paths`."""
        return self.path in paths

    def end(self) -> None:
        """End the process that holds the lock."""
        self._process.stdin.close()
        self._process.wait(DEADLINE)
        self._process.stdout.close()


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Two files; the first belongs to a package."""
    tree = Tree(tmp_path)
    tree.sls(
        "both", "HOST/theirs:\n  file.managed:\n    - contents: x\nHOST/other:\n  file.managed:\n    - contents: x\n"
    )
    return tree


@pytest.fixture
def apt(tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Apt]:
    """The host's apt, replaced by one that changes the package of the first file."""
    apt = Apt(tmp_path / "lock", f"{tree.host}/theirs")
    monkeypatch.setattr(package_locks, "PACKAGES", (tmp_path / "lock",))
    monkeypatch.setattr(LocalHost, "package_manager", lambda *_: apt)
    yield apt
    apt.end()


def run(tree: Tree, *words: str) -> int:
    """Run a verb in this process. Returns its exit code."""
    with pytest.raises(SystemExit) as done:
        main([*words, "--config", str(tree.config)])
    return int(done.value.code or 0)


def test_apply_repairs_a_file_once_apt_no_longer_changes_its_package(
    tree: Tree, apt: Apt, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line names the process for which `apply` waits. The file of no package is repaired before.

    The test takes the second that `apply` waits.
    """
    assert run(tree, "apply", "--detailed-exitcode") == 2
    told = capsys.readouterr()

    created = [line.split(" in ")[0] for line in told.out.splitlines() if line.startswith("created")]
    assert created == [f"created file.managed[{tree.host}/{name}]" for name in ("other", "theirs")]
    assert (tree.host / "theirs").read_text() == "x\n"
    waits, warning = told.err.splitlines()
    assert re.fullmatch(
        rf"waiting: file\.managed\[{tree.host}/theirs\]: left alone for now: process \d+ \([\w.]+\) is changing its "
        r"package",
        waits,
    )
    assert warning.endswith("uses the package manager: packages that it may change are left alone meanwhile")


def test_ctrl_c_ends_the_wait(tree: Tree, apt: Apt, capsys: pytest.CaptureFixture[str]) -> None:
    """`apply` ends with the exit code of an interruption.

    The waiting state was not started, so the message does not name it.
    """
    apt.enough = lambda: os.kill(os.getpid(), signal.SIGINT)
    assert run(tree, "apply") == 130

    assert capsys.readouterr().err.splitlines()[-1] == "interrupted: 1 of 2 states were checked"
    assert [path.name for path in tree.host.iterdir()] == ["other"]


def test_the_time_limit_of_a_run_ends_the_wait(tree: Tree, apt: Apt) -> None:
    """The time of waiting counts towards `--timeout`."""
    apt.enough = lambda: None
    assert run(tree, "apply", "--timeout", "0.5") == 4
    assert [path.name for path in tree.host.iterdir()] == ["other"]


def test_a_plan_does_not_wait_for_apt(tree: Tree, apt: Apt, capsys: pytest.CaptureFixture[str]) -> None:
    """A plan changes nothing, so it does not wait."""
    apt.enough = lambda: pytest.fail("plan has waited for apt")
    assert run(tree, "plan") == 2
    assert capsys.readouterr().err == ""

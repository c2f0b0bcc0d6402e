"""`apply` beside an administrator's apt waits for what that has in its hands, as the agent does.

Everything else is put right meanwhile.
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

from holdfast.agent.cli.main import main
from holdfast.agent.host.host import LocalHost
from holdfast.resources import package_locks
from holdfast_process import Tree

HOLD = (
    "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print('held', flush=True); "
    "sys.stdin.read()"
)


class Apt:
    """Somebody's apt, which holds a real lock and has one path in its hands.

    `enough` is called when it has been looked at a few times.
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
        """Who holds the lock."""
        self.looks += 1
        if self.looks == 4:
            self.enough()
        holder = package_locks.holder(self._lock)
        return package_locks.described(holder) if holder else ""

    async def in_other_hands(self, names: Collection[str], paths: Collection[str]) -> bool:
        """Whether the path is among them."""
        return self.path in paths

    def end(self) -> None:
        """It is done."""
        self._process.stdin.close()
        self._process.wait(10)
        self._process.stdout.close()


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Two files, of which the first belongs to a package."""
    tree = Tree(tmp_path)
    tree.sls(
        "both", "HOST/theirs:\n  file.managed:\n    - contents: x\nHOST/other:\n  file.managed:\n    - contents: x\n"
    )
    return tree


@pytest.fixture
def apt(tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Apt]:
    """An apt that has the first file in its hands; it stands for the host's."""
    apt = Apt(tmp_path / "lock", f"{tree.host}/theirs")
    monkeypatch.setattr(package_locks, "PACKAGES", (tmp_path / "lock",))
    monkeypatch.setattr(LocalHost, "interface", lambda *_: apt)
    yield apt
    apt.end()


def run(tree: Tree, *words: str) -> int:
    """Run a verb in this process; its exit code."""
    with pytest.raises(SystemExit) as done:
        main([*words, "--config", str(tree.config)])
    return int(done.value.code or 0)


def test_what_apt_has_in_its_hands_is_put_right_when_it_is_done(
    tree: Tree, apt: Apt, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line says for whom it waits; what does not belong to the package is put right before.

    Costs the second for which it waits.
    """
    assert run(tree, "apply", "--detailed-exitcode") == 2
    told = capsys.readouterr()

    created = [line.split(" in ")[0] for line in told.out.splitlines() if line.startswith("created")]
    assert created == [f"created file.managed[{tree.host}/{name}]" for name in ("other", "theirs")]
    assert (tree.host / "theirs").read_text() == "x\n"
    waits, warning = told.err.splitlines()
    assert re.fullmatch(
        rf"waiting: file\.managed\[{tree.host}/theirs\]: left alone for now: process \d+ \(\w+\) is changing its "
        r"package",
        waits,
    )
    assert warning.endswith("uses the package manager: packages that it may change are left alone meanwhile")


def test_ctrl_c_ends_the_wait(tree: Tree, apt: Apt, capsys: pytest.CaptureFixture[str]) -> None:
    """With the exit code of an interruption: what waits has not begun, and is not told as ended."""
    apt.enough = lambda: os.kill(os.getpid(), signal.SIGINT)
    assert run(tree, "apply") == 130

    assert capsys.readouterr().err.splitlines()[-1] == "interrupted: 1 of 2 states were checked"
    assert [path.name for path in tree.host.iterdir()] == ["other"]


def test_the_limit_of_a_run_ends_the_wait(tree: Tree, apt: Apt) -> None:
    """`--timeout` counts the wait, too."""
    apt.enough = lambda: None
    assert run(tree, "apply", "--timeout", "0.5") == 4
    assert [path.name for path in tree.host.iterdir()] == ["other"]


def test_a_plan_waits_for_nobody(tree: Tree, apt: Apt, capsys: pytest.CaptureFixture[str]) -> None:
    """It changes nothing."""
    apt.enough = lambda: pytest.fail("it has waited")
    assert run(tree, "plan") == 2
    assert capsys.readouterr().err == ""

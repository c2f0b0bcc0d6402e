"""A flood of events by a user delays and loses only events in directories that the user may write."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from holdfast.agent.host import path_watcher
from holdfast.agent.host.path_tree import PathTree
from holdfast.agent.host.path_watcher import PathWatcher
from watch_backends import BACKENDS, Listener

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
USER = 12345
QUEUE = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())


@pytest.fixture(params=BACKENDS)
async def watcher(request: pytest.FixtureRequest) -> AsyncIterator[PathWatcher]:
    """Yield a watcher with each backend."""
    watcher = PathWatcher(backend=request.param)
    yield watcher
    watcher.close()


@pytest.fixture
def own() -> Iterator[Path]:
    """Yield a file below directories that no other user can write."""
    with tempfile.TemporaryDirectory(dir=Path.home()) as directory:
        file = Path(directory, "f")
        file.write_text("root's")
        yield file


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a directory that the user owns."""
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, USER, USER)
    return home


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the paths that the watcher has checked again, for example after an overflow of their queue."""
    found: list[str] = []
    look = PathTree.look
    monkeypatch.setattr(
        PathTree, "look", lambda tree, node, **how: (found.append(node.path), look(tree, node, **how))[1]
    )
    return found


def flood(home: Path) -> None:
    """Cause more events than the queue of the kernel holds, each with another name, so that they cannot be merged."""
    for number in range(QUEUE // 2 + 100):
        os.close(os.open(home / f"{number}", os.O_CREAT | os.O_WRONLY))
        (home / f"{number}").unlink()


@pytest.mark.parametrize("recursive", [False, True])
async def test_a_flood_pushes_out_no_event_of_other_directories(
    watcher: PathWatcher, own: Path, home: Path, recursive: bool, looked: list[str]
) -> None:
    """The event after the flood is reported as itself, and directories of root are not checked again.

    What the user may write is checked as a whole. Takes a second, for tens of thousands of files.
    """
    mine, theirs = Listener(watcher, own), Listener(watcher, home if recursive else home / "f", recursive=recursive)
    looked.clear()
    flood(home)
    (home / "f").write_text("pushed out")
    own.write_text("changed")

    assert await mine.heard()
    assert await theirs.heard()
    await mine.settle()
    await theirs.settle()
    assert mine.count == 1
    assert not {"/", str(own.parent)} & {*looked}
    own.write_text("changed again")
    assert await mine.heard()


@pytest.mark.parametrize("recursive", [False, True])
async def test_a_directory_that_users_may_write_from_now_on_pushes_out_no_event_of_others(
    watcher: PathWatcher, own: Path, tmp_path: Path, recursive: bool, looked: list[str]
) -> None:
    """An administrator gives away the directory while it is watched. Tens of thousands of files take a second."""
    given = tmp_path / "given"
    given.mkdir(mode=0o755)
    mine = Listener(watcher, own)
    theirs = Listener(watcher, given if recursive else given / "f", recursive=recursive)
    given.chmod(0o777)
    assert await theirs.heard()
    await theirs.settle()
    looked.clear()
    flood(given)
    (given / "f").write_text("pushed out")
    own.write_text("changed")

    assert await mine.heard()
    assert await theirs.heard()
    await mine.settle()
    assert mine.count == 1
    assert not {"/", str(own.parent)} & {*looked}


async def test_no_rest_after_events_of_a_user_delays_other_directories(
    watcher: PathWatcher, own: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A check of what the user has changed took long, so the watcher rests. Another file is replaced meanwhile."""
    mine, theirs = Listener(watcher, own), Listener(watcher, home / "f")
    monkeypatch.setattr(path_watcher, "BUSY", -1.0)
    monkeypatch.setattr(path_watcher, "REST", 1e9)
    (home / "f").write_text("new")
    assert await theirs.heard()
    monkeypatch.undo()
    (home / "f").unlink()
    for _ in range(3):
        own.with_name("new").write_text("replaced")
        own.with_name("new").rename(own)
        assert await mine.heard()

    assert await theirs.quiet()


async def test_a_watch_that_ends_during_a_rest_leaves_nothing_behind(
    watcher: PathWatcher, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watch ends before its file is checked at the end of the rest."""
    listener = Listener(watcher, home / "f")
    monkeypatch.setattr(path_watcher, "BUSY", -1.0)
    monkeypatch.setattr(path_watcher, "REST", 1e9)
    (home / "f").write_text("new")
    assert await listener.heard()
    (home / "f").unlink()
    assert await listener.quiet()
    listener.subscription.close()

    assert watcher.kernel_watches == 0

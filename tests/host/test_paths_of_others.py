"""Path watching where untrusted users can write: their links, trees and file systems affect no other watches."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from deadline import DEADLINE
from holdfast.agent.health import Health
from holdfast.agent.host import backends, path_tree, watch_bounds
from holdfast.agent.host.path_watcher import PathWatcher
from holdfast.resources.paths import mounts
from watch_backends import BACKENDS, Listener

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
USER = 12345


@pytest.fixture
def health() -> Health:
    """Return the health conditions of the watcher."""
    return Health()


@pytest.fixture(params=BACKENDS)
async def watcher(health: Health, request: pytest.FixtureRequest) -> AsyncIterator[PathWatcher]:
    """Return a watcher with short retry intervals."""
    watcher = PathWatcher(health, period=0.005, backend=request.param)
    yield watcher
    watcher.close()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a directory that the user owns."""
    return given(tmp_path / "home")


def given(directory: Path) -> Path:
    """Create a directory that the user owns."""
    directory.mkdir()
    os.chown(directory, USER, USER)
    return directory


def link(place: Path, target: str | Path, uid: int = USER) -> Path:
    """Replace a path by a link that this user owns."""
    made = place.with_name("new")
    made.symlink_to(target)
    os.lchown(made, uid, uid)
    return made.rename(place)


# -- links -----------------------------------------------------------------------------------------------------


async def test_the_target_of_a_users_link_is_not_watched(watcher, tmp_path, home):
    """A link of the user to a directory of root is watched, but its target is not.

    A link that replaces it and is safe is followed.
    """
    secret = tmp_path / "secret"
    secret.mkdir()
    own = given(home / "own")
    listener = Listener(watcher, link(home / "conf", secret) / "f")

    assert watcher.kernel_watches == len(home.parts)
    (secret / "f").write_text("x")
    assert not await listener.heard(0.06)
    link(home / "conf", "own")
    assert await listener.heard()
    await listener.settle()
    (own / "f").write_text("x")
    assert await listener.heard()
    await listener.settle()
    link(home / "conf", secret)
    assert await listener.heard()
    await listener.settle()
    (secret / "f").write_text("y")
    (own / "f").write_text("y")
    assert not await listener.heard(0.06)


async def test_the_target_of_a_users_file_link_is_not_watched(watcher, tmp_path, home):
    """The same holds for a link at the end of the path, also with a recursive watch."""
    for name in ("file", "tree"):
        (tmp_path / name).mkdir()
    (tmp_path / "file" / "f").write_text("x")
    (tmp_path / "tree" / "d").mkdir()
    link(home / "f", tmp_path / "file" / "f")
    link(home / "d", tmp_path / "tree")
    listener, deep = Listener(watcher, home / "f"), Listener(watcher, home / "d", recursive=True)

    assert watcher.kernel_watches == len(home.parts)
    (tmp_path / "file" / "f").write_text("y")
    (tmp_path / "tree" / "d" / "f").write_text("y")
    assert not await listener.heard(0.06)
    assert not await deep.heard(0.06)


async def test_a_link_of_root_to_a_users_link(watcher, tmp_path, home):
    """A link of root is followed up to the unsafe link of the user, whose replacement is reported."""
    (tmp_path / "secret").mkdir()
    given(home / "own")
    link(home / "conf", tmp_path / "secret")
    listener = Listener(watcher, link(tmp_path / "app", "home/conf", uid=0) / "f")

    (tmp_path / "secret" / "f").write_text("x")
    assert not await listener.heard(0.06)
    link(home / "conf", "own")
    assert await listener.heard()
    await listener.settle()
    (home / "own" / "f").write_text("x")
    assert await listener.heard()


async def test_a_users_link_with_dot_dot_is_not_followed(watcher, tmp_path, home):
    """Behind a link, `a/../..` is another directory than its text suggests; neither is watched."""
    given(home / "a")
    given(home / "a" / "b")
    given(home / "outside")
    (tmp_path / "outside").mkdir()
    link(home / "d", "a/b")
    listener = Listener(watcher, link(home / "conf", "d/../../../outside") / "f")

    (tmp_path / "outside" / "f").write_text("x")
    assert not await listener.heard(0.06)
    assert watcher.kernel_watches == len(home.parts)


# -- bounds ----------------------------------------------------------------------------------------------------


def bounded(health: Health) -> str:
    """Return the text of the condition; empty if it does not hold."""
    return "".join(each.text for each in health.conditions if each.code == "watch-bounded")


async def unbounded(health: Health) -> None:
    """Wait until the condition no longer holds."""
    changed = asyncio.Event()
    health.listen = changed.set
    async with asyncio.timeout(DEADLINE):
        while bounded(health):
            changed.clear()
            await changed.wait()


async def test_the_number_of_a_users_directories_is_limited(watcher, health, home, monkeypatch):
    """Only some of too many directories are watched, including new ones. Health says so until there are fewer."""
    monkeypatch.setattr(watch_bounds, "WATCHES", 20)
    for n in range(15):
        (given(home / f"d{n}") / "inside").mkdir()
    listener = Listener(watcher, home, recursive=True)

    text = bounded(health)
    assert f"everything below {home}" in text
    assert "more than 20 directories" in text
    assert watcher.kernel_watches == len(home.parts) + 20
    for n in range(15, 60):
        given(home / f"d{n}")
    assert await listener.heard()
    await listener.settle()
    assert watcher.kernel_watches == len(home.parts) + 20

    for n in range(5, 60):
        shutil.rmtree(home / f"d{n}")
    await unbounded(health)
    await listener.settle()
    for n in range(5):
        (home / f"d{n}" / "inside" / "f").write_text("x")
        assert await listener.heard()
        await listener.settle()
    listener.subscription.close()
    assert watcher.kernel_watches == 0


async def test_the_condition_ends_with_the_watch(watcher, health, home, monkeypatch):
    """A closed watch is no longer reported by health."""
    monkeypatch.setattr(watch_bounds, "WATCHES", 3)
    for n in range(5):
        given(home / f"d{n}")
    listener = Listener(watcher, home, recursive=True)
    assert bounded(health)

    listener.subscription.close()

    assert health.conditions == ()


async def test_directories_of_root_are_not_limited(watcher, health, tmp_path, monkeypatch):
    """Where only root can create directories, all of them are watched, whatever other directories exist."""
    monkeypatch.setattr(watch_bounds, "WATCHES", 3)
    monkeypatch.setattr(watch_bounds, "ENTRIES", 3)
    for n in range(10):
        (tmp_path / "top" / f"d{n}" / "e").mkdir(parents=True)
    given(tmp_path / "top" / "d0" / "home")
    Listener(watcher, tmp_path / "top", recursive=True)

    assert watcher.kernel_watches == len(tmp_path.parts) + 22
    assert health.conditions == ()


async def test_the_number_of_searched_entries_is_limited(watcher, health, home, monkeypatch):
    """Searching a tree of a user ends after this number of entries, also while the tree is polled."""
    for n in range(50):
        given(home / f"d{n}")
    monkeypatch.setattr(watch_bounds, "ENTRIES", 10)

    Listener(watcher, home, recursive=True)

    assert "more than 10 entries" in bounded(health)
    assert watcher.kernel_watches <= len(home.parts) + 10


async def test_the_number_of_polled_entries_is_limited(watcher, health, home, monkeypatch):
    """Where the kernel refuses watches, only this number of entries of a user's tree is compared."""
    monkeypatch.setattr(watch_bounds, "WATCHES", 30)
    real, seen = backends.Backends.attach, []

    def attach(kernel: backends.Backends, node: Any, **options: bool) -> None:
        if node.path.startswith(str(home)):
            kernel.detach(node)
            raise OSError(errno.ENOSPC, "No space left on device")
        real(kernel, node, **options)

    def signature(path: str) -> tuple[int, ...]:
        seen.append(path)
        return ()

    monkeypatch.setattr(backends.Backends, "attach", attach)
    monkeypatch.setattr(path_tree, "signature", signature)
    for n in range(10):
        directory = given(home / f"d{n}")
        for m in range(20):
            (directory / f"f{m}").touch()

    Listener(watcher, home, recursive=True)

    assert "more than 30 entries to compare" in bounded(health)
    assert len(seen) <= 30 + 10  # entries that are watched directories are always compared


async def test_trees_deeper_than_the_longest_path(watcher, health, home):
    """A tree that is deeper than any path is watched as far as its paths are short, at a constant cost."""
    depth, here = 0, os.open(home, os.O_RDONLY)
    while depth < 30:
        os.mkdir("d" * 200, dir_fd=here)
        os.chown("d" * 200, USER, USER, dir_fd=here)
        inner = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here, depth = inner, depth + 1
    os.close(here)
    try:
        listener = Listener(watcher, home, recursive=True)

        assert f"more than {watch_bounds.LONGEST} characters" in bounded(health)
        assert [each.code for each in health.conditions] == ["watch-bounded"]
        assert watcher.kernel_watches <= len(home.parts) + watch_bounds.LONGEST // 201  # names of 200 characters
        (home / ("d" * 200) / "f").write_text("x")
        assert await listener.heard()
    finally:
        shutil.rmtree(home / ("d" * 200))


async def test_names_that_are_not_utf8(watcher, health, home, monkeypatch):
    """Directories with such names are watched like others, and health shows the names with escapes."""
    monkeypatch.setattr(watch_bounds, "WATCHES", 1)
    odd = given(home / os.fsdecode(b"\xff\x1b[31m\n"))
    given(odd / "a")
    given(odd / "b")
    listener = Listener(watcher, odd, recursive=True)

    text = bounded(health)
    assert text.isprintable()
    assert r"\udcff\x1b[31m\n" in text
    (odd / os.fsdecode(b"\xfe")).write_text("x")
    assert await listener.heard()


async def test_a_flood_of_renames_causes_one_search(watcher, home, monkeypatch):
    """An entry that is replaced again and again is searched once for all events that arrive together."""
    looks = []
    real = path_tree.PathTree.look
    given(home / "top")
    listener = Listener(watcher, home, recursive=True)
    monkeypatch.setattr(
        path_tree.PathTree, "look", lambda tree, node, **how: (looks.append(node.path), real(tree, node, **how))[1]
    )

    for _ in range(300):
        (home / "top").rename(home / "away")
        (home / "away").rename(home / "top")
    assert await listener.heard()
    await listener.settle()

    assert 1 <= len(looks) <= 20


# -- file systems of users -------------------------------------------------------------------------------------


@pytest.fixture
def touched(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """Record the paths that the system was asked about."""
    asked: set[str] = set()
    for name in ("lstat", "stat", "scandir", "listdir", "readlink"):
        real = getattr(os, name)

        def call(path: Any = ".", *args: Any, real: Any = real, **options: Any) -> Any:
            asked.add(str(path))
            return real(path, *args, **options)

        monkeypatch.setattr(os, name, call)
    real_attach = backends.Backends.attach

    def attach(kernel: backends.Backends, node: Any, **options: bool) -> None:
        asked.add(node.path)
        real_attach(kernel, node, **options)

    monkeypatch.setattr(backends.Backends, "attach", attach)
    yield asked
    monkeypatch.undo()


async def test_a_users_file_system_is_not_accessed(watcher, tmp_path, home, monkeypatch, touched):
    """Nothing at or below a mount point of a user is accessed: directly, through a link, or by a recursive watch."""
    mount = given(home / "mount")
    given(mount / "d")
    link(tmp_path / "link", "home", uid=0)
    monkeypatch.setattr(mounts, "foreign", lambda: {str(mount): USER})

    Listener(watcher, mount / "d" / "f", tmp_path / "link" / "mount" / "d" / "f")
    Listener(watcher, home, recursive=True)
    Listener(watcher, mount / "d", recursive=True)

    assert [path for path in touched if "/mount" in path] == []


async def test_a_file_system_of_root_is_accessed(watcher, home, monkeypatch):
    """A file system that root has mounted is watched as usual."""
    mount = given(home / "mount")
    monkeypatch.setattr(mounts, "foreign", lambda: {str(mount): os.geteuid()})
    listener = Listener(watcher, mount / "f")

    (mount / "f").write_text("x")

    assert await listener.heard()


HUNG = """
    import asyncio, ctypes, os, sys
    from pathlib import Path
    from holdfast.agent.host.path_watcher import PathWatcher

    libc = ctypes.CDLL(None, use_errno=True)
    top = Path(sys.argv[1])
    mount, link = top / "home" / "mount", top / "link"

    def mount_hung():
        server = os.open("/dev/fuse", os.O_RDWR)  # it never answers
        options = f"fd={server},rootmode=40000,user_id=12345,group_id=12345,allow_other".encode()
        if libc.mount(b"x", bytes(mount), b"fuse", 6, options):
            sys.exit("cannot mount")

    async def main():
        watcher, heard = PathWatcher(period=0.05), [asyncio.Event() for _ in range(4)]

        async def all_heard():
            async with asyncio.timeout(60):
                for each in heard:
                    await each.wait()
                    each.clear()

        async def settle():
            for each in heard:
                while True:
                    try:
                        await asyncio.wait_for(each.wait(), 0.06)
                    except TimeoutError:
                        break
                    each.clear()

        held = [
            watcher.subscribe([str(mount / "f")], heard[0].set),
            watcher.subscribe([str(top / "home")], heard[1].set, recursive=True),
            watcher.subscribe([str(link / "mount" / "f")], heard[2].set),
        ]
        beneath = os.open(mount, os.O_RDONLY)
        mount_hung()
        os.unlink("f", dir_fd=beneath)  # its event comes before the loop knows of the mount
        os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=beneath))
        held.append(watcher.subscribe([str(mount / "d" / "f")], heard[3].set))
        heard[3].set()
        await all_heard()
        await settle()
        os.close(beneath)
        libc.umount2(bytes(mount), 2)
        await all_heard()
        await settle()
        (mount / "f").write_text("new")
        (mount / "d" / "f").write_text("new")
        await all_heard()
        for each in held:
            each.close()
        assert watcher.kernel_watches == 0
        watcher.close()

    asyncio.run(main())
    print("alive")
"""


def test_a_file_system_that_hangs(tmp_path, home):
    """A FUSE server that never answers delays nothing.

    Mounting and unmounting it are events; then everything is watched again.
    """
    if subprocess.run(["unshare", "-m", "test", "-c", "/dev/fuse"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no FUSE or no mount namespaces here")
    given(home / "mount")
    given(home / "mount" / "d")
    (home / "mount" / "f").write_text("old")
    link(tmp_path / "link", "home", uid=0)

    done = subprocess.run(
        ["unshare", "-m", sys.executable, "-c", textwrap.dedent(HUNG), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE,
    )

    if "cannot mount" in done.stderr:
        pytest.skip("FUSE cannot be mounted here")
    assert (done.stdout.strip(), done.stderr) == ("alive", "")

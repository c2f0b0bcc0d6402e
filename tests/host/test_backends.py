"""The backends inotify and fanotify watch the same paths; each can replace the other, and both report mounts."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from deadline import DEADLINE
from foreign_shell import REFUSED
from holdfast.agent.health import Health
from holdfast.agent.host import fanotify_watches, path_watcher
from holdfast.agent.host.fanotify import FanotifyGroup, key_of, opened
from holdfast.agent.host.inotify import InotifyWatches
from holdfast.agent.host.kernel_watches import DELETE, FULL, ISDIR
from holdfast.agent.host.path_watcher import PathWatcher
from strangers import open_directory
from watch_backends import BACKENDS, FANOTIFY, Listener, mounted

pytestmark = pytest.mark.skipif(bool(REFUSED), reason=REFUSED)


@pytest.fixture
def health() -> Health:
    """Return what the watcher reports of itself."""
    return Health()


@pytest.fixture(params=BACKENDS)
async def watcher(health: Health, request: pytest.FixtureRequest) -> AsyncIterator[PathWatcher]:
    """Yield a watcher with each backend."""
    watcher = PathWatcher(health, backend=request.param, period=0.02)
    yield watcher
    watcher.close()


only_fanotify = pytest.mark.parametrize("watcher", [FANOTIFY], indirect=True)


def backend_of(watcher: PathWatcher, path: Path) -> str:
    """Return the backend that watches a directory; empty if none does."""
    node = watcher._tree.root
    for name in path.parts[1:]:
        node = node.children[name]
    return type(node.kernel.backend).__name__.removesuffix("Watches") if node.kernel else ""


def marks() -> int:
    """Return the number of marks of this process's fanotify groups."""
    infos = [entry.read_text() for entry in Path("/proc/self/fdinfo").iterdir() if entry.exists()]
    return sum(line.startswith("fanotify ino:") for info in infos for line in info.splitlines())


# -- one event -------------------------------------------------------------------------------------------------


def test_the_key_of_a_directory_is_that_of_its_events(tmp_path: Path) -> None:
    """The key is correct through a link and on another file system; a missing directory has none."""
    for top in (tmp_path, Path("/dev/shm")):
        directory = top / f"key-{os.getpid()}"
        (directory / "d").mkdir(parents=True)
        (tmp_path / top.name).symlink_to(directory)
        group = FanotifyGroup(processes=False)
        with opened(str(tmp_path / top.name), follow=True) as place:
            key = key_of(place)
            group.mark(place, FULL)
        (directory / "d").rmdir()
        assert [event[:4] for event in group.read()] == [(key, b"d", DELETE | ISDIR, os.getpid())]
        group.close()
        directory.rmdir()
    with pytest.raises(FileNotFoundError), opened(str(tmp_path / "missing"), follow=True):
        pass


async def test_the_wanted_backend_watches(watcher: PathWatcher, tmp_path: Path, request: Any) -> None:
    """The backend watches each directory on the way, and a directory at the end of a path."""
    (tmp_path / "d").mkdir()
    Listener(watcher, tmp_path / "d")
    name = "Fanotify" if "fanotify" in request.node.name else "Inotify"
    assert {backend_of(watcher, tmp_path), backend_of(watcher, tmp_path / "d")} == {name}
    assert watcher.kernel_watches == len((tmp_path / "d").parts)


async def test_renames_within_a_directory_and_across(watcher: PathWatcher, tmp_path: Path) -> None:
    """The old and the new name are reported, in both directions."""
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    (here / "a").write_text("x")
    a, b, c = Listener(watcher, here / "a"), Listener(watcher, here / "b"), Listener(watcher, there / "c")

    (here / "a").rename(here / "b")
    assert await a.heard()
    assert await b.heard()
    assert await c.quiet()
    (here / "b").rename(there / "c")
    assert await b.heard()
    assert await c.heard()
    (there / "c").write_text("y")
    assert await c.heard()


async def test_the_attributes_of_a_directory(watcher: PathWatcher, tmp_path: Path) -> None:
    """A change of its mode is reported; changes of its entries are not."""
    directory = tmp_path / "d"
    directory.mkdir()
    listener = Listener(watcher, directory)
    (directory / "f").write_text("x")
    (directory / "f").chmod(0o600)
    assert await listener.quiet()
    directory.chmod(0o700)
    assert await listener.heard()


# -- mounts ----------------------------------------------------------------------------------------------------


async def test_a_file_system_is_mounted_over_a_directory_and_unmounted(watcher: PathWatcher, tmp_path: Path) -> None:
    """Both are events, and so is every change of the files that are then visible."""
    top, file = tmp_path / "top", tmp_path / "top" / "d" / "f"
    file.parent.mkdir(parents=True)
    file.write_text("below")
    listener = Listener(watcher, file)
    with mounted(top, "-t", "tmpfs", "none"):
        assert await listener.heard()
        await listener.settle()
        file.parent.mkdir()
        file.write_text("above")
        assert await listener.heard()
        await listener.settle()
        file.write_text("again")
        assert await listener.heard()
        await listener.settle()
    assert await listener.heard()
    await listener.settle()
    file.write_text("changed")
    assert await listener.heard()


@pytest.mark.skipif(shutil.which("mkfs.ext4") is None, reason="there is no mkfs.ext4")
async def test_the_same_file_system_is_unmounted_and_mounted_again(watcher: PathWatcher, tmp_path: Path) -> None:
    """Its directories have the old handles but no marks; the mount table is unchanged."""
    image, top = tmp_path / "image", tmp_path / "top"
    top.mkdir()
    image.touch()
    os.truncate(image, 4 << 20)
    await asyncio.to_thread(subprocess.run, ["mkfs.ext4", "-qF", image], check=True)
    listener = Listener(watcher, top / "f")
    for content in ("first", "second"):
        with mounted(top, "-o", "loop", str(image)):
            assert await listener.heard()
            await listener.settle()
            (top / "f").write_text(content)
            assert await listener.heard()
            await listener.settle()
        assert await listener.heard()
        await listener.settle()


async def test_the_attributes_of_a_mount_point(watcher: PathWatcher, tmp_path: Path) -> None:
    """The directory above does not report them."""
    place = tmp_path / "place"
    place.mkdir()
    with mounted(place, "-t", "tmpfs", "none"):
        listener = Listener(watcher, place)
        place.chmod(0o700)
        assert await listener.heard()
    await listener.settle()
    place.chmod(0o711)
    assert await listener.heard()


async def test_mounts_that_follow_each_other(
    watcher: PathWatcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each mount is reported at once; a table that takes long to read is read less often."""
    place = tmp_path / "place"
    place.mkdir()
    listener = Listener(watcher, place / "f")
    soon = []
    for _ in range(5):  # other programs may delay some of them, but not all
        with mounted(place, "-t", "tmpfs", "none"):
            assert await listener.heard()
        soon.append(await listener.heard(0.1))
        await listener.settle()
    assert True in soon
    monkeypatch.setattr(path_watcher, "MOUNTS_REST", 1e6)
    with mounted(place, "-t", "tmpfs", "none"):
        assert await listener.heard()
        await listener.settle()
        with mounted(place, "-t", "tmpfs", "none"):
            assert await listener.quiet()


@only_fanotify
async def test_inotify_watches_on_an_overlay(watcher: PathWatcher, tmp_path: Path) -> None:
    """On an overlay, the handle of a directory changes when the directory is first written to."""
    for name in ("lower/d", "upper", "work", "top"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "lower/d/f").write_text("old")
    options = ",".join(f"{name}dir={tmp_path / name}" for name in ("lower", "upper", "work"))
    with mounted(tmp_path / "top", "-t", "overlay", "overlay", "-o", options):
        file = tmp_path / "top/d/f"
        listener = Listener(watcher, file)
        assert (backend_of(watcher, tmp_path), backend_of(watcher, file.parent)) == ("Fanotify", "Inotify")
        for content in ("new", "newer"):
            file.write_text(content)
            assert await listener.heard()
            await listener.settle()
        listener.subscription.close()
        assert watcher.kernel_watches == 0


@only_fanotify
async def test_a_device_number_that_is_used_again_says_nothing_of_the_file_system(
    watcher: PathWatcher, tmp_path: Path
) -> None:
    """The kernel gives the number of an unmounted file system to the next one."""
    place, devices = tmp_path / "place", []
    place.mkdir()
    for kind, backend in (("ramfs", "Inotify"), ("tmpfs", "Fanotify")):
        with mounted(place, "-t", kind, "none"):
            listener = Listener(watcher, place / "f")
            devices.append(place.stat().st_dev)
            assert backend_of(watcher, place) == backend, devices
            listener.subscription.close()


# -- refusals --------------------------------------------------------------------------------------------------


@only_fanotify
async def test_inotify_watches_a_directory_that_cannot_be_marked(
    watcher: PathWatcher, health: Health, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The inotify backend watches only this directory, and only while the mark is refused."""
    real, refused = FanotifyGroup.mark, tmp_path / "refused"
    number = refused.mkdir() or refused.stat().st_ino

    def mark(group: FanotifyGroup, directory: int, mask: int) -> None:
        if os.fstat(directory).st_ino == number:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(group, directory, mask)

    monkeypatch.setattr(FanotifyGroup, "mark", mark)
    listener = Listener(watcher, refused / "f", tmp_path / "g")
    assert (backend_of(watcher, tmp_path), backend_of(watcher, refused)) == ("Fanotify", "Inotify")
    for file in (refused / "f", tmp_path / "g", refused / "f"):
        file.write_text("x")
        assert await listener.heard()
        await listener.settle()
    assert not health.conditions
    monkeypatch.undo()
    again = Listener(watcher, refused / "f" / "below")
    refused.rename(tmp_path / "away")
    (tmp_path / "away").rename(refused)
    await again.settle()
    assert backend_of(watcher, refused) == "Fanotify"
    refused.rmdir() if not (refused / "f").exists() else shutil.rmtree(refused)
    assert await again.heard()


async def test_a_directory_that_both_refuse_is_polled(
    watcher: PathWatcher, health: Health, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Health gives the reason of inotify, whose limit can be raised. A directory that ends a path is compared, too."""
    directory = tmp_path / "d"
    directory.mkdir()

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(FanotifyGroup, "mark", refuse)
    monkeypatch.setattr(InotifyWatches, "add", refuse)
    file, end = Listener(watcher, tmp_path / "f"), Listener(watcher, directory)
    assert "max_user_watches" in health.conditions[0].text
    (tmp_path / "f").write_text("x")
    assert await file.heard()
    directory.chmod(0o700)
    assert await end.heard()
    monkeypatch.undo()
    async with asyncio.timeout(DEADLINE):
        while health.conditions:
            await asyncio.sleep(0)
    await end.settle()
    directory.chmod(0o711)
    assert await end.heard()


TOLD = """
    import asyncio, ctypes, os, sys
    from holdfast.agent.health import Health
    from holdfast.agent.host.path_watcher import PathWatcher

    async def main():
        health, rung = Health(), asyncio.Event()
        watcher = PathWatcher(health, backend=sys.argv[2], period=3600)
        watcher.subscribe([sys.argv[1] + "/f"], rung.set)
        print(os.getpid(), [each.code for each in health.conditions], flush=True)
        await rung.wait()
        backends = {type(node.kernel.backend).__name__ for node in watcher._tree.nodes() if node.kernel}
        print(*backends, flush=True)
        watcher.close()

    EXTRA
    asyncio.run(main())
"""
EXHAUST = """
    libc = ctypes.CDLL(None)
    while libc.inotify_init1(0) >= 0:
        pass
"""


async def told(directory: Path, backend: str, *argv: str, extra: str = "") -> tuple[str, str]:
    """Have another process watch a directory and change it; return what the process says before and after that."""
    program = textwrap.dedent(TOLD).replace("EXTRA", textwrap.dedent(extra))
    process = await asyncio.create_subprocess_exec(
        *(*argv, sys.executable, "-c", program, str(directory), backend), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    async with asyncio.timeout(DEADLINE):
        before = await process.stdout.readline()
        (directory / "f").write_text("x")
        after = await process.stdout.readline()
        await process.wait()
    return before.decode().strip(), after.decode().strip()


USER = ("setpriv", "--reuid", "54321", "--regid", "54321", "--clear-groups")
RIGHTS = ("--inh-caps", "+sys_admin,+dac_read_search", "--ambient-caps", "+sys_admin,+dac_read_search")


async def test_fanotify_watches_when_the_limit_of_inotify_is_reached() -> None:
    """Nothing is polled, so health has no condition. The limit is that of a user without other programs."""
    with open_directory() as directory:
        before, after = await told(directory, "auto", *USER, *RIGHTS, extra=EXHAUST)
    assert (before.partition(" ")[2], after) == ("[]", "FanotifyWatches")


async def test_inotify_watches_without_the_capability() -> None:
    """The inotify backend is used even if the settings want fanotify."""
    with open_directory() as directory:
        before, after = await told(directory, "fanotify", *USER)
    assert (before.partition(" ")[2], after) == ("[]", "InotifyWatches")


async def test_a_process_outside_of_the_container_is_reported(tmp_path: Path) -> None:
    """The number of the process is unknown in the container."""
    before, after = await told(tmp_path, "fanotify", "unshare", "--pid", "--fork")
    assert (before, after) == ("1 []", "FanotifyWatches")


# -- keys and marks --------------------------------------------------------------------------------------------


@only_fanotify
async def test_a_directory_is_replaced_between_its_key_and_its_mark(
    watcher: PathWatcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mark is that of the directory with this key; the event of the directory above leads to the new one."""
    directory, away = tmp_path / "d", tmp_path / "away"
    directory.mkdir()
    number = directory.stat().st_ino

    def slow(place: int) -> bytes:
        key = key_of(place)
        if os.fstat(place).st_ino == number and not away.exists():
            directory.rename(away)
            directory.mkdir()
        return key

    monkeypatch.setattr(fanotify_watches, "key_of", slow)
    listener = Listener(watcher, directory / "f")
    assert away.exists()
    assert await listener.heard()
    await listener.settle()
    (directory / "f").write_text("x")
    assert await listener.heard()
    (away / "f").write_text("unseen")
    await listener.settle()
    (away / "f").write_text("unseen")
    assert await listener.quiet()


@only_fanotify
async def test_the_marks_follow_the_watches(watcher: PathWatcher, tmp_path: Path) -> None:
    """Each watched directory has one mark; one that is no longer watched, or was removed, has none."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert marks() == 0
    listener, other = Listener(watcher, tmp_path, recursive=True), Listener(watcher, tmp_path / "a" / "f")
    assert marks() == watcher.kernel_watches == len(tmp_path.parts) + 2
    (tmp_path / "a" / "b").rmdir()
    await listener.settle()
    assert marks() == watcher.kernel_watches == len(tmp_path.parts) + 1
    listener.subscription.close()
    assert marks() == watcher.kernel_watches == len(tmp_path.parts) + 1
    other.subscription.close()
    assert marks() == watcher.kernel_watches == 0


@only_fanotify
async def test_marks_of_directories_that_are_out_of_sight_are_bounded(
    watcher: PathWatcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They cannot be removed one by one. Nothing is missed while all marks are made anew."""
    monkeypatch.setattr(fanotify_watches, "STALE", 5)
    top, away = tmp_path / "top", tmp_path / "away"
    top.mkdir()
    away.mkdir()
    listener = Listener(watcher, top, recursive=True)
    for number in range(20):
        (top / str(number)).mkdir()
        assert await listener.heard()
        (top / str(number)).rename(away / str(number))
        assert await listener.heard()
    await listener.settle()
    (top / "f").write_text("x")
    assert await listener.heard()
    await listener.settle()
    assert marks() <= watcher.kernel_watches + 6
    assert watcher.kernel_watches == len(top.parts)
    (away / "0").rename(top / "back")
    await listener.settle()
    (top / "back" / "f").write_text("x")
    assert await listener.heard()

"""A directory does not report content changes of a file that is a mount point, such as /etc/hosts in a container."""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.agent.health import Health
from holdfast.agent.host.inotify import InotifyWatches
from holdfast.agent.host.kernel_watches import FILE
from holdfast.agent.host.path_watcher import PathWatcher
from watch_backends import BACKENDS, Listener, mounted

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount files")


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


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Return the file that is mounted."""
    file = tmp_path / "container/hosts"
    file.parent.mkdir()
    file.write_text("source")
    return file


@pytest.fixture
def hosts(tmp_path: Path) -> Path:
    """Return the mount point."""
    file = tmp_path / "etc/hosts"
    file.parent.mkdir()
    file.write_text("below")
    return file


async def test_every_change_of_a_mounted_file_is_an_event(watcher: PathWatcher, source: Path, hosts: Path) -> None:
    """A change of content by either path, or of the mode, is an event."""
    with mounted(hosts, "--bind", str(source)):
        listener = Listener(watcher, hosts)
        for change in (
            lambda: hosts.write_text("here"), lambda: source.write_text("there"), lambda: hosts.chmod(0o600)
        ):  # fmt: skip
            change()
            assert await listener.heard()
            await listener.settle()
        listener.subscription.close()
        assert watcher.kernel_watches == 0


async def test_a_file_is_mounted_and_unmounted_while_it_is_watched(
    watcher: PathWatcher, source: Path, hosts: Path
) -> None:
    """Both are events, and the file that is visible is watched."""
    listener = Listener(watcher, hosts)
    with mounted(hosts, "--bind", str(source)):
        assert await listener.heard()
        await listener.settle()
        hosts.write_text("above")
        assert await listener.heard()
        await listener.settle()
    assert await listener.heard()
    await listener.settle()
    source.write_text("unseen")
    assert await listener.quiet()
    hosts.write_text("below again")
    assert await listener.heard()


async def test_mounted_files_below_a_recursively_watched_directory(
    watcher: PathWatcher, source: Path, hosts: Path
) -> None:
    """One file is mounted at the start; another one is mounted later, which changes the visible content."""
    other = hosts.with_name("resolv.conf")
    other.touch()
    with mounted(hosts, "--bind", str(source)):
        listener = Listener(watcher, hosts.parent, recursive=True)
        hosts.write_text("changed")
        assert await listener.heard()
        await listener.settle()
        with mounted(other, "--bind", str(source)):
            assert await listener.heard()
            await listener.settle()
            source.chmod(0o600)
            assert await listener.heard()
            await listener.settle()
        assert await listener.heard()
        listener.subscription.close()
        assert watcher.kernel_watches == 0


async def test_a_mounted_file_that_the_kernel_refuses_to_watch_is_polled(
    watcher: PathWatcher, health: Health, source: Path, hosts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Polling ends when the kernel accepts the watch; health reports it until then."""
    add = InotifyWatches.add

    def refuse(self: InotifyWatches, path: str, mask: int, *, follow: bool) -> object:
        if mask == FILE:
            raise OSError(errno.ENOSPC, "the limit is reached", path)
        return add(self, path, mask, follow=follow)

    monkeypatch.setattr(InotifyWatches, "add", refuse)
    with mounted(hosts, "--bind", str(source)):
        listener = Listener(watcher, hosts)
        assert [each.code for each in health.conditions] == ["watch-polling"]
        for content in ("changed", "changed again"):
            hosts.write_text(content)
            assert await listener.heard()
            await listener.settle()
        monkeypatch.undo()
        hosts.write_text("changed once more")
        assert await listener.heard()
        assert not health.conditions

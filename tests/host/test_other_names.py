"""A change through another hard link or a memory map causes no event for the path, but is found."""

from __future__ import annotations

import asyncio
import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from deadline import DEADLINE
from holdfast.agent.host import sweep as sweep_module
from holdfast.agent.host.path_nodes import NOTHING, PathNode, seal
from holdfast.agent.host.path_watcher import PathWatcher
from holdfast.agent.host.sweep import SLICES, Sweep
from holdfast.resources.kinds.file.append import Append
from holdfast.resources.kinds.file.managed import Managed
from holdfast.resources.testing import FakeContext
from watch_backends import BACKENDS

ROUND = 0.02
"""Seconds in which the watcher of these tests compares all files."""


class Heard:
    """Records the events of one path."""

    def __init__(self, watcher: PathWatcher, path: Path, *, recursive: bool = False) -> None:
        self._rung, self._sweep = asyncio.Event(), watcher._sweep
        self.subscription = watcher.subscribe([str(path)], self._rung.set, recursive=recursive)

    async def at_all(self) -> None:
        """Wait for an event."""
        async with asyncio.timeout(DEADLINE):
            await self._rung.wait()
        self._rung.clear()

    async def quiet(self) -> bool:
        """Return whether no event comes in the next three whole rounds."""
        slices, looked, nodes = 0, asyncio.Event(), self._sweep._nodes

        def counted() -> Iterator[PathNode] | None:
            nonlocal slices
            slices += 1
            if slices > 3 * SLICES:
                looked.set()
            return nodes()

        self._sweep._nodes = counted
        async with asyncio.timeout(DEADLINE):
            await looked.wait()
        self._sweep._nodes = nodes
        return not self._rung.is_set()

    async def once(self) -> None:
        """Wait for an event, and check that no second one follows in the next rounds."""
        await self.at_all()
        assert await self.quiet()


@pytest.fixture(params=BACKENDS)
async def watcher(request):
    """Yield a watcher with short rounds."""
    watcher = PathWatcher(sweep=ROUND, backend=request.param)
    yield watcher
    watcher.close()


@pytest.fixture
def names(tmp_path: Path) -> tuple[Path, Path]:
    """Return two names of one file, in different directories."""
    here, there = tmp_path / "here" / "f", tmp_path / "there" / "g"
    for name in (here, there):
        name.parent.mkdir()
    here.write_text("old")
    there.hardlink_to(here)
    return here, there


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda g: g.write_text("new"), id="written"),
        pytest.param(lambda g: g.chmod(0o600), id="mode"),
        pytest.param(lambda g: (g.write_text("new"), g.unlink()), id="written, and the link removed"),
        pytest.param(
            lambda g: (s := g.stat(), g.write_text("new"), os.utime(g, ns=(s.st_atime_ns, s.st_mtime_ns))),
            id="times set back",
        ),
    ],
)
async def test_a_change_through_another_hard_link_is_reported(watcher, names, change):
    """A change of content or metadata is reported once.

    This includes files with only one name left, and changes that keep size and modification time.
    """
    here, there = names
    heard = Heard(watcher, here)

    change(there)

    await heard.once()


@pytest.mark.parametrize(
    ("watched", "change"),
    [
        pytest.param("here", lambda g: g.write_text("new"), id="written"),
        pytest.param("here", lambda g: (g.write_text("new"), g.unlink()), id="written, and the link removed"),
        pytest.param("way", lambda g: g.write_text("new"), id="written, watched through a symbolic link"),
        pytest.param("above", lambda g: g.chmod(0o600), id="mode, watched from above"),
    ],
)
async def test_a_change_through_another_hard_link_is_reported_by_a_recursive_watch(
    watcher, names, tmp_path, watched, change
):
    """The first file with several links is reported once, then each of its changes."""
    here, there = names
    (tmp_path / "way").symlink_to(here.parent)
    (tmp_path / "above").mkdir()
    if watched == "above":
        here.parent.rename(tmp_path / "above" / "here")
    heard = Heard(watcher, tmp_path / watched, recursive=True)
    await heard.once()

    change(there)

    await heard.once()


async def test_files_with_one_link_cost_a_recursive_watch_nothing(watcher, names):
    """Files with one link are not recorded, and cause no events."""
    here, there = names
    there.unlink()
    heard = Heard(watcher, here.parent, recursive=True)

    assert await heard.quiet()
    assert not any(watcher._sweep._linked)


async def test_a_new_hard_link_of_a_file_in_a_recursive_watch_is_found(watcher, names):
    """A hard link that is made elsewhere, without an event, is found."""
    here, there = names
    there.unlink()
    heard = Heard(watcher, here.parent, recursive=True)
    there.hardlink_to(here)
    await heard.once()

    there.write_text("new")

    await heard.once()


async def test_a_removed_directory_is_forgotten(watcher, names):
    """The watcher keeps nothing of a removed directory."""
    here, _ = names
    heard = Heard(watcher, here.parent.parent, recursive=True)
    await heard.at_all()
    assert any(watcher._sweep._linked)

    here.unlink()
    here.parent.rmdir()
    (here.parent.parent / "there" / "g").unlink()
    async with asyncio.timeout(DEADLINE):
        while any(watcher._sweep._linked):
            await asyncio.sleep(ROUND)


async def test_a_later_subscription_does_not_hide_a_change_from_others(watcher, names):
    """A change between two subscriptions is reported to the first subscriber."""
    here, there = names
    first = Heard(watcher, here)
    there.write_text("new")
    Heard(watcher, here)

    await first.once()


async def test_a_change_that_the_kernel_reports_is_reported_once(watcher, names):
    """A write or a replacement causes one event, although the status differs afterwards."""
    here, _ = names
    heard = Heard(watcher, here)

    here.chmod(0o600)
    await heard.once()

    new = here.with_name("new")
    new.write_text("new")
    new.rename(here)
    await heard.once()


async def test_no_files_are_compared_without_watches(watcher, names):
    """The task of the comparison ends with the last watch, and starts again with the next one."""
    here, there = names
    heard = Heard(watcher, here)
    heard.subscription.close()
    task = next(task for task in asyncio.all_tasks() if task.get_name() == "path-sweep")
    async with asyncio.timeout(DEADLINE):
        await task

    again = Heard(watcher, here)
    there.write_text("new")
    await again.once()


async def test_each_of_many_files_is_compared(watcher, tmp_path):
    """The first, the last and all other files are compared, also if they need several slices."""
    (tmp_path / "links").mkdir()
    files = [tmp_path / f"f{number}" for number in range(250)]
    for file in files:
        file.write_text("old")
        (tmp_path / "links" / file.name).hardlink_to(file)
    heard = [Heard(watcher, file) for file in files]

    for file in files:
        (tmp_path / "links" / file.name).write_text("new")

    for each in heard:
        await each.at_all()


async def test_a_new_file_is_compared_within_one_round(tmp_path):
    """A file that is created after the round has begun is compared, too."""
    file, changed, calls = PathNode("f", None), asyncio.Event(), 0
    file.path, file.seal = str(tmp_path), 1

    def nodes() -> list[PathNode]:
        nonlocal calls
        calls += 1
        return iter([file] if calls > 1 else [])

    sweep = Sweep(nodes, lambda files, _: changed.set() if files else None, ROUND)
    sweep.begin()
    async with asyncio.timeout(DEADLINE):
        await changed.wait()
    sweep.close()

    assert calls <= 1 + SLICES


def test_which_entries_have_a_fingerprint(tmp_path):
    """Missing entries and directories have none; the kernel reports the changes of directories."""
    file = tmp_path / "f"
    file.write_text("x")

    assert seal(NOTHING) == seal(tmp_path.stat()) == 0
    assert seal(file.stat()) == seal(file.stat()) != 0


def untold(path: Path, text: bytes) -> None:
    """Write through a memory map and restore the times, like a file system that does not update them."""
    before = path.stat()
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        memory[: len(text)] = text
        memory.flush()
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("kind", [Managed, Append])
async def test_a_recheck_compares_content(tmp_path, kind):
    """A recheck finds a write through a memory map, although size and modification time are unchanged."""
    path = tmp_path / "f"
    given = {"contents": "right"} if kind is Managed else {"text": "right"}
    resource = kind.declare(str(path), **given)
    ctx = FakeContext(tmp_path / "var")
    await resource.check_apply(ctx, apply=True)
    assert await resource.check_apply(ctx, apply=False)

    untold(path, b"wrong")

    assert not await resource.check_apply(ctx, apply=False)


async def test_the_choice_of_files_lets_other_tasks_run(monkeypatch):
    """A slice of a round examines all nodes of the tree, but only a limited number before another task runs."""
    monkeypatch.setattr(sweep_module, "STEP", 100)
    root = PathNode("", None)
    for number in range(1000):
        root.grow(str(number)).seal = 1
    turns = 0

    async def others():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    due = [await sweep_module._due(root.walk(), turn) for turn in range(SLICES)]
    beside.cancel()

    assert turns >= SLICES * 10
    assert sorted(int(node.name) for nodes in due for node in nodes) == list(range(1000))

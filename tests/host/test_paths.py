"""Path watching with the real kernel: every change of a path or of its parents is reported."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deadline import DEADLINE
from effort import effort
from holdfast.agent.health import Health
from holdfast.agent.host import path_tree
from holdfast.agent.host.namer import Namer
from holdfast.agent.host.path_tree import AT_ONCE, HOPS
from holdfast.agent.host.path_watcher import PathWatcher
from watch_backends import BACKENDS, Listener


@pytest.fixture(params=["auto", *BACKENDS])
async def watcher(request):
    """Return a watcher with each backend; that of the agent has a namer as well."""
    watcher = PathWatcher(None, Namer() if request.param == "auto" else None, backend=request.param, sweep=3600)
    yield watcher
    watcher.close()


async def test_the_first_item_says_armed_and_later_items_report_events(watcher, tmp_path):
    """Many events at once are one item."""
    target = tmp_path / "f"
    watch = watcher.watch(str(target))
    await asyncio.wait_for(anext(watch), DEADLINE)

    for n in range(100):
        target.write_text(str(n))
    await asyncio.wait_for(anext(watch), DEADLINE)

    await watch.aclose()
    assert watcher.kernel_watches == 0


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda f: f.write_text("new"), id="written"),
        pytest.param(lambda f: os.truncate(f, 0), id="truncated"),
        pytest.param(lambda f: f.chmod(0o600), id="mode"),
        pytest.param(lambda f: os.chown(f, os.getuid(), os.getgid()), id="owner"),
        pytest.param(lambda f: os.setxattr(f, "user.x", b"y"), id="xattr"),
        pytest.param(lambda f: f.unlink(), id="deleted"),
        pytest.param(lambda f: f.rename(f.with_name("g")), id="moved away"),
        pytest.param(lambda f: (f.with_name("g").write_text("x"), f.with_name("g").rename(f)), id="replaced"),
        pytest.param(lambda f: (f.unlink(), f.mkdir()), id="becomes a directory"),
    ],
)
async def test_each_change_of_a_file_is_reported(watcher, tmp_path, change):
    """Changes of content and metadata, removal and replacement of a file are events."""
    target = tmp_path / "f"
    target.write_text("old")
    listener = Listener(watcher, target)

    try:
        change(target)
    except OSError as error:
        pytest.skip(f"not on this file system: {error}")

    assert await listener.heard()


async def test_a_writer_that_does_not_close_is_reported(watcher, tmp_path):
    """A write through a descriptor that stays open is reported after a moment."""
    target = tmp_path / "f"
    target.write_text("old")
    listener = Listener(watcher, target)

    with target.open("a") as writer:
        writer.write("more")
        writer.flush()

        assert await listener.heard()


async def test_other_files_in_the_directory_are_not_reported(watcher, tmp_path):
    """Only watched names cause events, even in a busy directory."""
    target = tmp_path / "f"
    target.write_text("old")
    listener = Listener(watcher, target)

    (tmp_path / "g").write_text("x")
    (tmp_path / "g").unlink()

    assert await listener.quiet()


async def test_missing_parents_are_watched_for(watcher, tmp_path):
    """A path below missing directories is reported when they appear, also all at once."""
    target = tmp_path / "a" / "b" / "c" / "f"
    listener = Listener(watcher, target)

    target.parent.mkdir(parents=True)
    target.write_text("x")
    assert await listener.heard()
    await listener.settle()
    target.write_text("y")
    assert await listener.heard()


async def test_a_parent_that_is_moved_away_and_back(watcher, tmp_path):
    """Moving a parent away is an event, and the new directory in its place is watched instead of the old one."""
    target = tmp_path / "a" / "b" / "f"
    target.parent.mkdir(parents=True)
    target.write_text("x")
    listener = Listener(watcher, target)

    (tmp_path / "a").rename(tmp_path / "away")
    assert await listener.heard()
    (tmp_path / "away" / "b" / "f").write_text("unseen")
    assert await listener.quiet()
    target.parent.mkdir(parents=True)
    assert await listener.heard()
    await listener.settle()
    target.write_text("seen")
    assert await listener.heard()


async def test_a_removed_directory_that_is_still_in_use(watcher, tmp_path):
    """A removed directory that is a process's working directory still exists in the kernel.

    Its successor is watched anyway.
    """
    target = tmp_path / "a" / "f"
    target.parent.mkdir()
    holder = os.open(target.parent, os.O_RDONLY)
    listener = Listener(watcher, target)

    target.parent.rmdir()
    await listener.heard(0.1)
    target.parent.mkdir()
    await listener.settle()
    target.write_text("x")

    assert await listener.heard()
    os.close(holder)


async def test_a_parent_that_is_a_link(watcher, tmp_path):
    """Events of the target of the link, and changes of the link itself, are reported."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to("one")
    listener = Listener(watcher, tmp_path / "link" / "f")

    (tmp_path / "one" / "f").write_text("x")
    assert await listener.heard()
    await listener.settle()
    (tmp_path / "turned").symlink_to("two")
    (tmp_path / "turned").rename(tmp_path / "link")
    assert await listener.heard()
    await listener.settle()
    (tmp_path / "one" / "f").write_text("unseen")
    assert await listener.quiet()
    (tmp_path / "two" / "f").write_text("seen")
    assert await listener.heard()


async def test_the_target_of_a_linked_parent_is_replaced(watcher, tmp_path):
    """The directory to which a link leads may be moved away and created again."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    listener = Listener(watcher, tmp_path / "link" / "f")

    (tmp_path / "real").rename(tmp_path / "old")
    assert await listener.heard()
    (tmp_path / "real").mkdir()
    assert await listener.heard()
    await listener.settle()
    (tmp_path / "real" / "f").write_text("x")
    assert await listener.heard()


async def test_a_chain_of_links_to_a_file(watcher, tmp_path):
    """A change of the file, or of a link in the middle, is reported."""
    (tmp_path / "file").write_text("x")
    (tmp_path / "middle").symlink_to("file")
    (tmp_path / "link").symlink_to("middle")
    listener = Listener(watcher, tmp_path / "link")

    (tmp_path / "file").write_text("y")
    assert await listener.heard()
    await listener.settle()
    (tmp_path / "middle").unlink()
    assert await listener.heard()
    (tmp_path / "middle").symlink_to("other")
    assert await listener.heard()
    await listener.settle()
    (tmp_path / "other").write_text("z")
    assert await listener.heard()


async def test_link_loops_do_not_hang(watcher, tmp_path):
    """A loop of links neither hangs the watcher nor leaves watches behind; its removal is reported."""
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    (tmp_path / "self").symlink_to("self")
    (tmp_path / "here").symlink_to(".")
    for n in range(HOPS + 5):
        (tmp_path / f"n{n}").symlink_to(f"n{n + 1}")
    listener = Listener(watcher, *(tmp_path / name for name in ("a/f", "self/f", "here/here/here/f", "n0")))

    (tmp_path / "b").unlink()
    assert await listener.heard()
    listener.subscription.close()
    assert watcher.kernel_watches == 0


async def test_a_recursive_watch(watcher, tmp_path):
    """Everything below the directory is reported, also in new directories, and no kernel watch is left at the end."""
    top = tmp_path / "top"
    (top / "a").mkdir(parents=True)
    listener = Listener(watcher, top, recursive=True)

    (top / "a" / "f").write_text("x")
    assert await listener.heard()
    (top / "b" / "c").mkdir(parents=True)
    await listener.settle()
    (top / "b" / "c" / "f").write_text("x")
    assert await listener.heard()
    await listener.settle()
    (top / "b").rename(top / "d")
    await listener.settle()
    (top / "d" / "c" / "f").chmod(0o600)
    assert await listener.heard()
    shutil.rmtree(top)
    await listener.settle()
    (top / "e").mkdir(parents=True)
    assert await listener.heard()
    await listener.settle()
    (top / "e" / "f").write_text("x")
    assert await listener.heard()

    listener.subscription.close()
    assert watcher.kernel_watches == 0


@pytest.fixture
def large(tmp_path):
    """Return a recursively watched directory, and a tree of many directories that may be moved there."""
    (tmp_path / "top").mkdir()
    for number in range(6 * AT_ONCE):
        (tmp_path / f"tree/{number % 7}/{number}").mkdir(parents=True)
    return tmp_path / "top", tmp_path / "tree"


async def test_a_large_tree_that_appears_is_armed_in_parts(watcher, large):
    """The event loop does not wait for all of it, and a change of what is not yet armed is reported."""
    top, tree = large
    listener = Listener(watcher, top, recursive=True)
    before, counts = watcher.kernel_watches, []
    tree.rename(top / "tree")

    while watcher.kernel_watches < before + 6 * AT_ONCE + 8:
        counts.append(watcher.kernel_watches)
        await asyncio.sleep(0)
    steps = [after - earlier for earlier, after in itertools.pairwise(counts)]
    assert 1 < max(steps) <= 2 * AT_ONCE + 1
    assert len([step for step in steps if step]) > 2
    assert await listener.heard()
    await listener.settle()
    (top / f"tree/{(6 * AT_ONCE - 1) % 7}/{6 * AT_ONCE - 1}/f").write_text("x")
    assert await listener.heard()


async def test_what_is_not_yet_armed_is_forgotten_with_its_watch(watcher, large):
    """A watch that ends while a large tree is armed leaves nothing behind."""
    top, tree = large
    listener = Listener(watcher, top, recursive=True)
    before = watcher.kernel_watches
    tree.rename(top / "tree")
    while watcher.kernel_watches < before + AT_ONCE:
        await asyncio.sleep(0)
    assert watcher.kernel_watches < before + 3 * AT_ONCE
    listener.subscription.close()
    assert watcher.kernel_watches == 0
    assert watcher._tree.nodes() is None
    assert not watcher._tree.postponed


async def test_entries_count_only_when_recursive(watcher, tmp_path):
    """A plain watch of a directory reports changes of the directory, not of its entries."""
    listener = Listener(watcher, tmp_path)

    (tmp_path / "f").write_text("x")
    assert await listener.quiet()
    tmp_path.chmod(0o750)
    assert await listener.heard()


async def test_files_of_one_directory_share_a_kernel_watch(watcher, tmp_path):
    """The kernel watch ends with the last of these files."""
    directories = len(tmp_path.parts)
    listeners = [Listener(watcher, tmp_path / f"f{n}") for n in range(50)]
    assert watcher.kernel_watches == directories

    for listener in listeners[1:]:
        listener.subscription.close()
    assert watcher.kernel_watches == directories
    listeners[0].subscription.close()
    listeners[0].subscription.close()
    assert watcher.kernel_watches == 0


async def test_cancelling_the_task_ends_the_watch(watcher, tmp_path):
    """Cancelling a task that waits for events closes its watch."""

    async def follow() -> None:
        async for _ in watcher.watch(str(tmp_path / "f")):
            armed.set()

    armed = asyncio.Event()
    task = asyncio.create_task(follow())
    await armed.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert watcher.kernel_watches == 0


async def test_a_queue_overflow_is_reported_to_every_watch(watcher, tmp_path):
    """When the kernel's queue overflows, even a watch whose event was lost gets one."""
    queue = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    quiet, busy = tmp_path / "quiet", tmp_path / "busy"
    quiet.mkdir()
    busy.mkdir()
    listener, _flood = Listener(watcher, quiet / "f"), Listener(watcher, busy / "f")

    for n in range(queue + 10):  # another name each time, so that the kernel cannot merge the events
        os.close(os.open(busy / f"{n}", os.O_CREAT | os.O_WRONLY))
        (busy / f"{n}").unlink()
    assert listener.count == 0

    assert await listener.heard()


async def test_relative_paths_are_refused(watcher):
    """The meaning of a relative path would change with the working directory, so it is refused."""
    with pytest.raises(ValueError, match="not an absolute path"):
        watcher.subscribe(["etc/motd"], lambda: None)


async def test_arming_watches_in_a_thousand_directories_is_fast(watcher, tmp_path):
    """10 000 files in 1 000 directories are armed in well under a second (0.13 s on an idle machine)."""
    made = itertools.count()

    def arm() -> None:
        top = tmp_path / str(next(made))
        for n in range(1000):
            (top / f"d{n}").mkdir(parents=True)
            for m in range(10):
                watcher.subscribe([f"{top}/d{n}/f{m}"], lambda: None)

    assert effort(arm, 30) < 30
    assert watcher.kernel_watches == len(tmp_path.parts) + next(made) * 1001


EXHAUSTED = """
    import asyncio, os, resource, sys
    from pathlib import Path
    from holdfast.agent.health import Health
    from holdfast.agent.host.path_watcher import PathWatcher

    async def main(top):
        {limit}
        health, heard = Health(), asyncio.Event()
        watcher = PathWatcher(health, period=0.05)
        paths = [str(top / f"d{{n}}" / "f") for n in range(20)]
        subscriptions = [watcher.subscribe([path], lambda: None) for path in paths[:-1]]
        subscriptions.append(watcher.subscribe([paths[-1]], heard.set))
        condition, = health.conditions
        assert condition.code == "watch-polling" and "cannot watch" in condition.text, condition
        for content in ("one", "two"):
            Path(paths[-1]).write_text(content)
            await asyncio.wait_for(heard.wait(), 60)
            heard.clear()
        {release}
        while health.conditions:
            await asyncio.sleep(0.02)
        assert watcher.kernel_watches >= 20
        heard.clear()
        Path(paths[-1]).write_text("three")
        await asyncio.wait_for(heard.wait(), 60)
        for each in subscriptions:
            each.close()
        assert watcher.kernel_watches == 0
        watcher.close()

    top = Path(sys.argv[1])
    for n in range(20):
        (top / f"d{{n}}").mkdir()
    asyncio.run(asyncio.wait_for(main(top), 60))
    print("recovered")
"""


@pytest.mark.parametrize("limit", ["watches", "instances"])
def test_paths_are_polled_while_the_limits_are_used_up(tmp_path, limit):
    """While the kernel refuses watches, paths are polled and health says so; both end when watches are available."""
    knob = f"/proc/sys/user/max_inotify_{limit}"
    if (
        subprocess.run(["unshare", "-Ur", "sh", "-c", f"echo 5 > {knob}"], capture_output=True, check=False).returncode
        != 0
    ):
        pytest.skip("no user namespaces here")
    low = {"watches": 8, "instances": 0}[limit]
    script = textwrap.dedent(
        EXHAUSTED.format(limit=f"Path('{knob}').write_text('{low}')", release=f"Path('{knob}').write_text('999')")
    )

    done = subprocess.run(
        ["unshare", "-Ur", sys.executable, "-c", script, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE,
    )

    assert (done.stdout.strip(), done.stderr) == ("recovered", "")


async def test_an_unreadable_parent_is_polled():
    """A directory that can be searched but not read is polled; health names it with the reason."""
    top = Path(tempfile.mkdtemp(dir="/tmp"))
    (top / "f").write_text("old")
    top.chmod(0o311)
    health = Health()
    watcher = PathWatcher(health, period=0.05)
    real = os.geteuid()
    if real == 0:
        os.seteuid(65534)
    try:
        listener = Listener(watcher, top / "f")
    finally:
        os.seteuid(real)

    (condition,) = health.conditions
    (top / "f").write_text("new content")

    assert f"{top}: Permission denied" in condition.text
    assert await listener.heard()
    watcher.close()
    top.chmod(0o700)
    shutil.rmtree(top)


CHOICES = ("inotify", "fanotify")
PLACES = ("a", "a/b", "a/b/f", "x", "x/b", "x/b/f", "l")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["write", "mkdir", "remove", "rename", "link", "chmod", "yield"]),
        st.sampled_from(PLACES),
        st.sampled_from(PLACES),
    ),
    min_size=1,
    max_size=14,
)


def act(top: Path, verb: str, one: Path, two: Path, content: str) -> None:
    """Make one change of the tree; do nothing if it is not possible."""
    with contextlib.suppress(OSError):
        if verb == "write":
            one.write_text(content)
        elif verb == "mkdir":
            one.mkdir()
        elif verb == "remove":
            shutil.rmtree(one) if one.is_dir() and not one.is_symlink() else one.unlink()
        elif verb == "rename":
            one.rename(two)
        elif verb == "link":
            one.symlink_to(two if len(content) % 2 else os.path.relpath(two, one.parent))
        elif verb == "chmod":
            one.chmod(0o755 if one.stat().st_mode & 1 == 0 else 0o750)


def look(path: Path) -> object:
    """Return what is visible at a path."""
    try:
        return path.read_text(), path.stat().st_ino
    except OSError as error:
        return error.errno


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS, recursive=st.booleans(), how=st.tuples(st.sampled_from(CHOICES), st.sampled_from([1, AT_ONCE])))
def test_the_last_change_is_always_reported(tmp_path_factory, monkeypatch, steps, recursive, how):
    """After any sequence of changes of a path and its parents, a check after each event has seen the final state."""
    backend, at_once = how
    monkeypatch.setattr(path_tree, "AT_ONCE", at_once)
    top = tmp_path_factory.mktemp("any", numbered=True)

    async def run() -> None:
        watcher, target, seen, rung = PathWatcher(backend=backend), top / "a" / "b" / "f", [], asyncio.Event()

        def event() -> None:
            seen.append(look(target))
            rung.set()

        subscription = watcher.subscribe([str(top / "a") if recursive else str(target)], event, recursive=recursive)
        seen.append(look(target))
        for number, (verb, one, two) in enumerate(steps):
            if verb == "yield":
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            act(top, verb, top / one, top / two, "x" * number)
        async with asyncio.timeout(DEADLINE):
            while seen[-1] != look(target):
                await rung.wait()
                rung.clear()
        subscription.close()
        assert watcher.kernel_watches == 0
        watcher.close()

    asyncio.run(run())
    shutil.rmtree(top)

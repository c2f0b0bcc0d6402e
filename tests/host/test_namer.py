"""The watcher names the process that changes a path; the processes and the kernel are real."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from deadline import DEADLINE
from foreign_shell import REFUSED, Stranger
from holdfast.agent.host import author_reader
from holdfast.agent.host import namer as namers
from holdfast.agent.host.authors import Process, Processes
from holdfast.agent.host.namer import Namer
from holdfast.agent.host.path_nodes import Subscription
from holdfast.agent.host.path_watcher import PathWatcher
from holdfast.resources.author import Author
from strangers import open_directory

pytestmark = pytest.mark.skipif(bool(REFUSED), reason=REFUSED)


class Watch:
    """A subscription with its events, and the time since which questions are asked."""

    def __init__(self, watcher: PathWatcher, *paths: Path, recursive: bool = False) -> None:
        self.rung = asyncio.Event()
        self.began = time.monotonic() + namers.SLACK
        self.subscription: Subscription = watcher.subscribe(map(str, paths), self.rung.set, recursive=recursive)

    async def who(self, *pids: int, anybody: bool = False) -> Author | None:
        """Return the process that caused the next event. On a busy machine, wait until it is one of these, or any."""
        async with asyncio.timeout(DEADLINE):
            await self.rung.wait()
            self.rung.clear()
            while True:
                author = await self.subscription.changed_by(self.began)
                if not (pids or anybody) or (author is not None and (anybody or author.pid in pids)):
                    return author
                await asyncio.sleep(0)


@pytest.fixture
async def watcher() -> AsyncIterator[PathWatcher]:
    """Yield a watcher that names processes."""
    watcher = PathWatcher(None, Namer())
    yield watcher
    watcher.close()


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[Stranger]:
    """Yield a shell that does not belong to the agent."""
    with Stranger(tmp_path / "pipes") as stranger:
        yield stranger


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a file to watch."""
    (tmp_path / "d").mkdir()
    path = tmp_path / "d" / "f"
    path.write_text("declared\n")
    return path


async def test_a_process_that_writes_is_named(watcher: PathWatcher, stranger: Stranger, file: Path) -> None:
    """The name has command line, number and user, because the process still exists."""
    watch = Watch(watcher, file)
    await stranger.did(f"echo x > {file}")
    author = await watch.who(stranger.pid)
    assert author is not None
    assert (author.pid, author.name, author.uid, author.user) == (stranger.pid, "sh", 0, "root")
    assert author.command.startswith("sh -c printf")


@pytest.mark.parametrize(
    "line",
    [
        "chmod 600 {0}",
        "rm {0}",
        "mv {0} {0}2",
        "cp {0} {0}2; mv {0}2 {0}",
        "mv {1} {1}2",
        "rm -r {1}",
        "ln -sf x {0}",
    ],
)
async def test_every_kind_of_change_is_named(watcher: PathWatcher, stranger: Stranger, file: Path, line: str) -> None:
    """Changes of a directory above the file count, too. A program that has ended at once is shown by its number."""
    watch = Watch(watcher, file)
    await stranger.did(line.format(file, file.parent))
    author = await watch.who(anybody=True)
    assert author is not None
    assert author.pid > stranger.pid


async def test_the_target_of_a_link_counts(watcher: PathWatcher, stranger: Stranger, file: Path) -> None:
    """A process that changes the target of a watched link changes the path."""
    link = file.parent.parent / "link"
    link.symlink_to(file)
    watch = Watch(watcher, link)
    await stranger.did(f"echo x > {file}")
    assert await watch.who(stranger.pid) is not None


async def test_a_change_deep_in_a_recursive_watch_is_named(
    watcher: PathWatcher, stranger: Stranger, file: Path
) -> None:
    """The event names the directory in which it happened; a watch of another directory is not concerned."""
    (file.parent / "a" / "b").mkdir(parents=True)
    (file.parent.parent / "other").mkdir()
    watch = Watch(watcher, file.parent, recursive=True)
    other = Watch(watcher, file.parent.parent / "other", recursive=True)
    await stranger.did(f"echo x > {file.parent}/a/b/new")
    assert await watch.who(stranger.pid) is not None
    assert await other.subscription.changed_by(other.began - namers.SLACK) is None


async def test_a_change_before_the_question_is_not_named(watcher: PathWatcher, stranger: Stranger, file: Path) -> None:
    """Only changes since the first event of a run have caused it."""
    watch = Watch(watcher, file)
    await stranger.did(f"echo x > {file}")
    assert await watch.who(stranger.pid) is not None
    assert await watch.subscription.changed_by(time.monotonic() + 2 * namers.SLACK) is None


async def test_the_last_of_several_processes_is_named(
    watcher: PathWatcher, stranger: Stranger, file: Path, tmp_path: Path
) -> None:
    """The repair finds the content that the last process wrote."""
    watch = Watch(watcher, file)
    with Stranger(tmp_path / "more") as second:
        await stranger.did(f"echo x > {file}")
        assert await watch.who(stranger.pid) is not None
        await second.did(f"echo y > {file}")
        assert await watch.who(second.pid) is not None


async def test_the_agent_and_its_children_are_not_named(watcher: PathWatcher, stranger: Stranger, file: Path) -> None:
    """Their changes are repairs: after a repair, the stranger who caused it is still the last one."""
    watch = Watch(watcher, file)
    file.write_text("x")
    assert await watch.who() is None
    line = f"(echo x > {file}; read end); :"
    child = await asyncio.create_subprocess_exec("sh", "-c", line, stdin=asyncio.subprocess.PIPE)
    assert await watch.who() is None
    await child.communicate(b"\n")
    await stranger.did(f"echo x > {file}")
    file.write_text("declared\n")
    assert await watch.who(stranger.pid) is not None


async def test_the_command_line_of_an_untrusted_user_is_not_read(watcher: PathWatcher) -> None:
    """The user can make that memory unreadable for ever. Name and user of the process come from the kernel."""
    nobody = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
    with open_directory() as directory, Stranger(directory / "pipes", *nobody) as stranger:
        file = directory / "f"
        file.touch()
        file.chmod(0o666)
        watch = Watch(watcher, file)
        await stranger.did(f"echo x > {file}")
        author = await watch.who(stranger.pid)
        assert author == Author(stranger.pid, "sh", "", 65534, "nobody")


async def test_the_user_of_the_login_is_named(watcher: PathWatcher, file: Path, tmp_path: Path) -> None:
    """The login user stays the same through sudo."""
    watch = Watch(watcher, file)
    login = ("sh", "-c", 'echo 1 > /proc/self/loginuid; exec "$@"', "login")
    with Stranger(tmp_path / "pipes", *login) as stranger:
        await stranger.did(f"echo x > {file}")
        author = await watch.who(stranger.pid)
        assert author is not None
        assert (author.user, author.login) == ("root", "daemon")
        assert str(author).endswith(f"pid {stranger.pid}, login user daemon")


def test_a_process_that_has_ended_is_told_by_its_number() -> None:
    """The watcher guesses nothing, even if another process has the number now."""
    with subprocess.Popen(["true"]) as child:
        ended = os.pidfd_open(child.pid)
    try:
        assert Processes().read(os.getppid(), ended) == Process(Author(os.getppid()))
    finally:
        os.close(ended)
    assert Processes().read(child.pid, -1) == Process(Author(child.pid))
    assert str(Processes().read(0, -1).author) == "unknown: a process outside of this container"


async def test_later_events_of_a_process_that_has_ended_are_its_own(
    watcher: PathWatcher, stranger: Stranger, file: Path
) -> None:
    """The process was read when it created a temporary file; when it replaced the file, it was gone."""
    watch = Watch(watcher, file)
    line = f"sh -c 'echo x > {file}.new; read go < {file.parent}/go; exec mv {file}.new {file}'"
    os.mkfifo(file.parent / "go")
    running = asyncio.create_task(stranger.did(line))
    while not (file.parent / "f.new").exists():
        await asyncio.sleep(0)
    await asyncio.to_thread((file.parent / "go").write_text, "now\n")
    await running
    author = await watch.who(anybody=True)
    assert author is not None
    assert author.name in ("sh", "mv")


async def test_without_the_capability_nobody_is_named_and_everything_is_reported() -> None:
    """The inotify backend watches the path, and the author of the change is unknown."""
    program = """
        import asyncio, sys
        from holdfast.agent.host.namer import Namer
        from holdfast.agent.host.path_watcher import PathWatcher

        async def main():
            watcher, rung = PathWatcher(None, Namer()), asyncio.Event()
            watch = watcher.subscribe([sys.argv[1] + "/f"], rung.set)
            open(sys.argv[1] + "/f", "w").close()
            await rung.wait()
            print(await watch.changed_by(0.0))
            watcher.close()

        asyncio.run(main())
    """
    argv = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", sys.executable, "-c"]
    with open_directory() as directory:
        directory.chmod(0o777)
        argv += [textwrap.dedent(program), str(directory)]
        done = await asyncio.to_thread(subprocess.run, argv, capture_output=True, text=True, check=False)
    assert (done.stdout.splitlines()[-1], done.stderr) == ("None", "")


async def test_a_thread_that_hangs_delays_no_event(watcher: PathWatcher, stranger: Stranger, file: Path) -> None:
    """When the thread continues, it names processes again, also for earlier changes."""
    watch, free = Watch(watcher, file), threading.Event()
    reader = watcher._namer._reader  # type: ignore[union-attr]
    hangs = threading.Event()
    reader.ask(lambda: (hangs.set(), free.wait()))
    try:
        await asyncio.to_thread(hangs.wait)
        for _ in range(2):
            await stranger.did(f"echo x > {file}")
            assert await watch.who() is None
    finally:
        free.set()
    async with asyncio.timeout(DEADLINE):
        while (author := await watch.subscription.changed_by(watch.began)) is None:
            await asyncio.sleep(0)
    assert author.pid == stranger.pid


async def test_the_marks_follow_the_watches(watcher: PathWatcher, file: Path) -> None:
    """Each watched directory has one mark, and a directory that is no longer watched has none."""
    assert _marks() == 0
    first, second = Watch(watcher, file), Watch(watcher, file.parent / "g")
    assert _marks() == watcher.kernel_watches == len(file.parts) - 1
    first.subscription.close()
    assert _marks() == watcher.kernel_watches
    second.subscription.close()
    assert _marks() == watcher.kernel_watches == 0


async def test_a_link_that_changes_its_target_keeps_the_marks_of_others(
    watcher: PathWatcher, stranger: Stranger, file: Path, tmp_path: Path
) -> None:
    """The link leads to a directory that another subscription watches in full."""
    (tmp_path / "old").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "old")
    through, direct = Watch(watcher, link / "x" / "y"), Watch(watcher, file)
    await stranger.did(f"ln -sfn {file.parent} {link}")
    assert await through.who(anybody=True) is not None
    await stranger.did(f"echo x > {file}")
    assert await direct.who(stranger.pid) is not None


async def test_close_ends_the_thread_and_frees_its_descriptors(file: Path) -> None:
    """The watcher may be used again afterwards."""
    before, others, watcher = _descriptors(), set(threading.enumerate()), PathWatcher(None, Namer())
    for _ in range(2):
        watcher.subscribe([str(file)], lambda: None)
        (thread,) = set(threading.enumerate()) - others
        assert thread.name == "holdfast-namer"
        watcher.close()
        assert not thread.is_alive()
    assert _descriptors() == before


async def test_events_leave_no_descriptor_behind(watcher: PathWatcher, stranger: Stranger, file: Path) -> None:
    """Each event brings a descriptor of its process."""
    watch = Watch(watcher, file)
    await stranger.did(f"echo x > {file}")
    assert await watch.who(stranger.pid) is not None
    before = _descriptors()
    await stranger.did(f"for i in 1 2 3 4 5 6 7 8 9; do echo x > {file}; touch {file}; done")
    assert await watch.who(anybody=True) is not None
    assert _descriptors() == before


async def test_what_is_remembered_is_bounded(
    watcher: PathWatcher, stranger: Stranger, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watcher keeps the entries that were changed last."""
    monkeypatch.setattr(author_reader, "KEPT", 10)
    watch = Watch(watcher, file.parent, recursive=True)
    await stranger.did(f"for i in $(seq 100); do echo x > {file}$i; done")
    assert await watch.who(stranger.pid) is not None
    reader = watcher._namer._reader  # type: ignore[union-attr]
    async with asyncio.timeout(DEADLINE):
        while b"f100" not in (names := [name for _, name in reader._seen.copy()]):
            await asyncio.sleep(0)
    assert len(names) <= 10
    assert b"f1" not in names


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _marks() -> int:
    """Return the number of marks of this process's fanotify groups."""
    return sum(
        line.startswith("fanotify ino:")
        for entry in Path("/proc/self/fdinfo").iterdir()
        if entry.exists()
        for line in entry.read_text().splitlines()
    )

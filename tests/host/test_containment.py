"""A command that is ended takes all its descendants with it, whatever they have called.

A command that exits by itself leaves them running.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import resource
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from deadline import DEADLINE
from holdfast.agent.engine.watch.backgrounds import SharedTask
from holdfast.agent.host import cgroups, containment, processes
from holdfast.agent.host.blocking import Blocking
from holdfast.agent.host.host import LocalHost
from holdfast.agent.host.run import _all, kill_all, run
from holdfast.agent.host.starting import CommandSpec
from holdfast.resources.errors import Overdue, Permanent, Temporary
from loop_time import callbacks

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may make control groups")

DAEMON = "( setsid sh -c 'trap \"\" TERM HUP; echo $$ >>$OUT; while :; do sleep 30; done' & ); "
"""Starts a process that leaves the session and its parent, and ignores SIGTERM and SIGHUP."""
FAMILY = f"{DAEMON} setsid sleep 31 & {DAEMON} while [ $(wc -l <$OUT) -lt 2 ]; do :; done; "
"""Two such processes, and one that leaves only the session."""


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until the condition is true."""
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline
        os.sched_yield()


@pytest.fixture(params=["cgroup", "cgroup before 5.14", "subreaper"])
def hold(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Run the test with each way to contain a command, on each kind of host."""
    if request.param == "subreaper":
        monkeypatch.setattr(containment, "new", containment.Subreaper)
    else:
        groups = cgroups.Cgroups(request.getfixturevalue("directory"))
        monkeypatch.setattr(containment, "new", lambda: containment.Cgroup(groups))
        if request.param == "cgroup before 5.14":
            switch = cgroups._set
            monkeypatch.setattr(
                cgroups, "_set", lambda path, name: switch(path, {"cgroup.kill": "none"}.get(name, name))
            )
    yield request.param
    monkeypatch.undo()


@pytest.fixture
def out() -> Iterator[Path]:
    """Return a file for process IDs that every user can write."""
    with tempfile.NamedTemporaryFile() as file:
        path = Path(file.name)
        path.chmod(0o666)
        yield path
        for pid in having(str(path)):
            os.kill(pid, signal.SIGKILL)


async def sh(script: str, out: Path, **options):
    """Run a shell script."""
    return await run(CommandSpec(("/bin/sh", "-c", script), env={"OUT": str(out)}, **options), Blocking())


def left(out: Path) -> list[int]:
    """Return which of the recorded processes still run."""
    return sorted({int(pid) for pid in out.read_text(encoding="ascii").split()} & set(having(str(out))))


def having(mark: str) -> list[int]:
    """Return the live processes that have this text in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (path / "environ").read_bytes():
                found.append(int(path.name))
        except OSError:
            continue
    return found


async def started(out: Path, number: int) -> None:
    """Wait until `count` processes have recorded their IDs."""
    async with asyncio.timeout(DEADLINE):
        while len(out.read_text(encoding="ascii").split()) < number:
            await asyncio.sleep(0.01)


async def test_timeout_ends_all_descendants(hold, out):
    """A timeout also ends descendants that left the session and their parent, and that ignore SIGTERM.

    The test takes as long as the timeout of the command.
    """
    with pytest.raises(Overdue):
        await sh(f"{FAMILY} sleep 32", out, timeout=1.5, user="daemon")

    assert len(out.read_text(encoding="ascii").split()) == 2
    wait_for(lambda: not left(out))


async def test_ending_a_command_takes_little_cpu_time_of_the_event_loop(hold, out):
    """Hundreds of processes on the host, and hundreds more below the command, cost little.

    The test takes a second to start them.
    """
    many = "for i in $(seq 300); do sleep 60 & done; echo $$ >>$OUT; "
    try:
        await sh(many, out)
        task = asyncio.create_task(sh(f"{many} wait", out))
        await started(out, 2)
        with callbacks() as taken:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert max(taken) < 0.005
        assert len(having(str(out))) == 300
    finally:
        for pid in having(str(out)):
            os.kill(pid, signal.SIGKILL)


async def test_cancellation_ends_all_descendants(hold, out):
    """Cancellation ends all descendants; no descriptor and no zombie is left."""
    await sh("true", out)  # the first command opens descriptors that stay open
    before, children = len(list(Path("/proc/self/fd").iterdir())), psutil.Process().children()
    pids = []
    task = asyncio.create_task(sh(f"{FAMILY} sleep 32", out, on_start=pids.append))
    await started(out, 2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert not Path(f"/proc/{pids[0]}").exists()
    wait_for(lambda: not left(out))
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert psutil.Process().children() == children


async def test_a_command_that_is_cancelled_before_it_starts_never_starts(hold, out):
    """The starter does not execute a command that was cancelled after its process had been created."""
    for _ in range(10):
        task = asyncio.create_task(sh("echo $$ >>$OUT; sleep 36", out))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        wait_for(lambda: not having(str(out)))


async def test_descendants_end_when_no_descriptor_is_left(hold, out):
    """An agent that has used up its descriptors still ends all descendants: it closes those of the command."""
    task = asyncio.create_task(sh(f"{FAMILY} sleep 32", out))
    await started(out, 2)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(path.name) for path in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 5, limits[1]))
    taken = []
    try:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.dup(0))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)

    wait_for(lambda: not left(out))


async def test_the_command_of_a_background_task_ends_with_it(hold, out, tmp_path):
    """A command that a background task of a kind runs is contained like any other."""

    class Kind:
        @classmethod
        async def background(cls, services):
            yield "ready"
            await services.run("/bin/sh", "-c", f"{FAMILY} sleep 37", env={"OUT": str(out)})

    async with LocalHost(states=tmp_path, var_dir=tmp_path) as host:
        shared = SharedTask(Kind, "x.y", host.context("background[x.y]"), print)
        await started(out, 2)
        shared.task.cancel()
        await asyncio.wait([shared.task])

    wait_for(lambda: not left(out))


async def test_kill_all_ends_all_descendants_at_once(hold, out):
    """`kill_all`, which the third stop signal calls, ends all descendants at once."""
    task = asyncio.create_task(sh(f"{FAMILY} sleep 32", out))
    await started(out, 2)
    kill_all()
    wait_for(lambda: not left(out))
    done = await asyncio.gather(task, return_exceptions=True)

    assert isinstance(done[0], Permanent)
    assert "SIGKILL" in str(done[0])


async def test_kill_all_ignores_commands_that_have_exited(hold, out):
    """While the last output is still read, the process ID may already belong to another process."""
    task = asyncio.create_task(sh(DAEMON + "while ! [ -s $OUT ]; do :; done", out))
    while not any(running.status == 0 for running in _all):
        await asyncio.sleep(0)
    kill_all()

    assert (await task).retcode == 0
    assert len(left(out)) == 1


async def test_a_fork_bomb_is_ended(hold, out):
    """Descendants that ignore SIGTERM and replace themselves, each in a session of its own, cannot escape."""
    chain = (
        "import os, signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nend, born = time.monotonic() + 60, 0\n"
        "while time.monotonic() < end:\n    if os.fork(): os._exit(0)\n    os.setsid()\n    born += 1\n"
        '    if born == 20: print(born, file=open(os.environ["OUT"], "a"))\n'
        'print("escaped", file=open(os.environ["OUT"], "a"))\n'
    )
    task = asyncio.create_task(sh(f"python3 -c '{chain}' & sleep 32", out))
    await started(out, 1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    wait_for(lambda: not having(str(out)))
    assert "escaped" not in out.read_text(encoding="ascii")


async def test_processes_that_were_found_are_killed_even_if_no_more_can_be(out, monkeypatch):
    """A scan that fails, because too many files are open, must not leave stopped processes behind."""
    task = asyncio.create_task(sh("echo $$ >>$OUT; sleep 33", out))
    await started(out, 1)
    pids = [int(out.read_text(encoding="ascii"))]

    def fail(pid):
        raise OSError(errno.EMFILE, "")

    with monkeypatch.context() as patched:
        patched.setattr(processes, "children", fail)
        with pytest.raises(OSError, match=r"\[Errno 24\]"):
            processes.end(lambda: pids)
    with pytest.raises(Permanent, match="SIGKILL"):
        await task


async def test_a_command_that_exits_leaves_its_descendants_running(hold, out):
    """Daemons that a command has started keep running, as in Salt."""
    await sh(FAMILY, out)

    assert len(left(out)) == 2


async def test_status_signal_pid_and_output_are_those_of_the_command(hold, out):
    """Status, signal, process ID and output are those of the command, not of a process that starts it."""
    pids = []
    done = await sh("echo $$; echo err >&2; ulimit -n; exit 7", out, check=False, on_start=pids.append)
    assert (done.retcode, done.stdout.split()[0], done.stderr) == (7, str(done.pid), "err\n")
    assert pids == [done.pid]
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV):
        assert (await sh(f"kill -{number.value} $$", out, check=False)).retcode == -number


@pytest.mark.parametrize("user", [None, "daemon"])
async def test_a_command_that_cannot_be_started_reports_the_reason(hold, out, user):
    """The reason is passed on by the starter."""
    for command, told in (
        (
            CommandSpec(("no-such-command-here",), user=user),
            "cannot run no-such-command-here: No such file or directory; is it installed?",
        ),
        (
            CommandSpec(("true",), cwd="/no/such/dir", user=user),
            "cannot run true: /no/such/dir: No such file or directory",
        ),
        (CommandSpec(("true", "x" * (1 << 18)), user=user), "cannot run true: Argument list too long"),
    ):
        with pytest.raises(Permanent) as caught:
            await run(command, Blocking())
        assert str(caught.value) == told


async def test_descendants_have_time_to_end_after_sigterm(hold, out):
    """Descendants may clean up as well, not only the command."""
    loop = 'trap "sleep 0.1; echo 1 >$OUT; exit" TERM; echo $$ >>$OUT; while :; do sleep 0.01; done'
    tidy = f"setsid sh -c '{loop}' & sleep 32"
    task = asyncio.create_task(sh(tidy, out))
    await started(out, 1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert out.read_text(encoding="ascii") == "1\n"


async def test_empty_control_groups_are_removed(directory, monkeypatch, out):
    """A group is removed when its command ends, or when its last process does: thousands of commands leave none."""
    groups = cgroups.Cgroups(directory)
    monkeypatch.setattr(containment, "new", lambda: containment.Cgroup(groups))
    for _ in range(20):
        await sh("true", out)
    assert [path for path in directory.iterdir() if path.is_dir()] == []

    await sh(DAEMON + "while ! [ -s $OUT ]; do :; done", out)
    assert len([path for path in directory.iterdir() if path.is_dir()]) == 1
    assert len(left(out)) == 1
    for each in having(str(out)):
        os.kill(each, signal.SIGKILL)
    wait_for(lambda: not cgroups.members(directory))
    await sh("true", out)
    assert [path for path in directory.iterdir() if path.is_dir()] == []


async def test_a_new_agent_removes_groups_of_a_dead_one(directory):
    """Empty groups are removed at once, with those that commands created in them; others as soon as they are empty."""
    (directory / "command-1" / "inner").mkdir(parents=True)
    (directory / "command-2").mkdir()
    process = await asyncio.create_subprocess_exec("sleep", "33")
    (directory / "command-2" / "cgroup.procs").write_text(str(process.pid))
    groups = cgroups.Cgroups(directory)
    groups.adopt()
    assert [path.name for path in directory.iterdir() if path.is_dir()] == ["command-2"]

    made = [groups.make(), groups.make()]  # without the existing group
    process.kill()
    await process.wait()
    for path in made:
        groups.release(path)
    assert [path for path in directory.iterdir() if path.is_dir()] == []


async def test_a_subreaper_replaces_a_control_group_that_cannot_be_created(directory, monkeypatch, out):
    """A command runs even if its control group cannot be created."""
    groups = cgroups.Cgroups(directory / "gone")
    monkeypatch.setattr(containment, "_groups", lambda: groups)
    assert isinstance(containment.new(), containment.Subreaper)
    assert (await sh("echo fine", out)).stdout == "fine\n"


async def test_the_subreaper_keeps_no_descriptor(monkeypatch, tmp_path):
    """An open directory that a user can exchange would keep its file system from being unmounted."""
    monkeypatch.setattr(containment, "new", containment.Subreaper)
    os.chown(tmp_path, 65534, -1)
    empty = 'for i in $(seq 500); do [ -n "$(ls /proc/$PPID/fd)" ] || exit 0; done; ls -l /proc/$PPID/fd; exit 1'

    done = await run(CommandSpec(("sh", "-c", empty), cwd=str(tmp_path), check=False), Blocking(1))
    assert (done.retcode, done.stdout) == (0, "")


async def test_without_a_subreaper_the_process_group_is_ended(monkeypatch, out):
    """Without a subreaper, processes that leave the process group escape, as documented."""
    monkeypatch.setattr(containment, "new", containment.ProcessGroup)
    task = asyncio.create_task(sh(f"sleep 34 & echo $! >>$OUT; {DAEMON} sleep 35", out))
    await started(out, 2)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    wait_for(lambda: len(left(out)) == 1)
    (escaped,) = left(out)
    assert processes.group_of(escaped) == escaped


async def test_a_removed_group_is_a_temporary_error(directory, monkeypatch, out):
    """If the control group is removed between its creation and the start, the error is temporary."""
    groups = cgroups.Cgroups(directory)

    def new() -> containment.Containment:
        hold = containment.Cgroup(groups)
        descriptor = hold.entrance()
        monkeypatch.setattr(hold, "entrance", lambda: descriptor)
        (directory / "command-1").rmdir()
        return hold

    monkeypatch.setattr(containment, "new", new)
    with pytest.raises(Temporary, match="cannot run /bin/sh: it cannot enter its control group: No such device"):
        await sh("true", out)


def test_special_process_ids_are_never_signalled(monkeypatch):
    """0 and -1 mean several processes, and 1 is never a command."""
    sent = []
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append(pid))
    monkeypatch.setattr(os, "killpg", lambda group, number: sent.append(group))
    for number in (-1, 0, 1):
        processes.send(number, signal.SIGKILL)
        processes.send_group(number, signal.SIGKILL)
    assert sent == []
    processes.send(2, 0)
    assert sent == [2]


def test_no_group_is_created_without_delegation():
    """Where systemd has delegated no group, none is created, and this process stays in its own."""
    before = Path("/proc/self/cgroup").read_text(encoding="utf-8")
    assert cgroups.delegated() is None
    assert Path("/proc/self/cgroup").read_text(encoding="utf-8") == before

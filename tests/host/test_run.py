"""Real commands have output and limits, and leave no process behind."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from deadline import DEADLINE
from holdfast.agent.host.blocking import Blocking
from holdfast.agent.host.outputs import EVENTS
from holdfast.agent.host.run import run
from holdfast.agent.host.starting import CommandSpec
from holdfast.resources.errors import Overdue, Permanent, Temporary
from loop_time import callbacks


async def sh(script: str, **options):
    """Run a shell script."""
    return await run(CommandSpec(("/bin/sh", "-c", script), **options), Blocking())


@pytest.fixture(autouse=True)
async def _fork_server():
    """Start the fork server before the test, so that its socket does not count as a leaked descriptor."""
    await sh("true")


def alive(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # the second one if it ends while it is read
        return False


async def gone(pid: int) -> bool:
    """Wait until a process has ended; return whether it has."""
    deadline = time.monotonic() + DEADLINE
    while alive(pid) and time.monotonic() < deadline:
        await asyncio.sleep(0.01)
    return not alive(pid)


async def test_output_and_status():
    """Both outputs and the status are returned; a checked status raises an error with the last line of the output."""
    done = await sh("echo out; echo err >&2; exit 3", check=False)
    assert (done.stdout, done.stderr, done.retcode, done.truncated) == ("out\n", "err\n", 3, False)
    with pytest.raises(Permanent, match=r"/bin/sh ended with status 3: no luck"):
        await sh("echo trying; echo no luck >&2; exit 3")


async def test_a_signal_is_reported_by_name():
    """A command that a signal ends is reported with the name of the signal."""
    with pytest.raises(Permanent, match="was killed by SIGKILL"):
        await sh("kill -9 $$")


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (
            CommandSpec(("no-such-command-here",)),
            "cannot run no-such-command-here: No such file or directory; is it installed?",
        ),
        (
            CommandSpec(("/no/such/nft",)),
            "cannot run /no/such/nft: No such file or directory; install it with pkg.installed: nftables",
        ),
        (CommandSpec(("true",), cwd="/no/such/dir"), "cannot run true: /no/such/dir: No such file or directory"),
        (CommandSpec(("/etc/passwd",)), "cannot run /etc/passwd: Permission denied"),
        (CommandSpec(("true", "a\0b")), "cannot run true: embedded null byte"),
        (CommandSpec(("true",), user="no-such-user"), "cannot run true as no-such-user: there is no such user"),
        (
            CommandSpec(("true",), group="no-such-group"),
            "cannot run true as group no-such-group: there is no such group",
        ),
        (CommandSpec(("true", "x" * (1 << 18))), "cannot run true: Argument list too long"),
    ],
)
async def test_a_command_that_cannot_be_started_reports_the_reason(command, told):
    """The error is one line, with the command and the reason."""
    with pytest.raises(Permanent) as caught:
        await run(command, Blocking())
    assert str(caught.value) == told


async def test_a_lack_of_descriptors_is_temporary():
    """A shortage ends by itself, so the resource must not stay failed until the next recheck."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    blocking = Blocking()
    await blocking(int)  # the first command starts a thread and opens descriptors that stay open
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
    try:
        with pytest.raises(Temporary, match="Too many open files"):
            await run(CommandSpec(("true",)), blocking)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


async def test_the_environment_is_minimal(monkeypatch):
    """Nothing of the agent's environment is inherited; LANG is C.UTF-8, and the given variables are added."""
    monkeypatch.setenv("AGENT_SECRET", "x")

    done = await sh("env", env={"MINE": "1"})

    names = {line.split("=")[0] for line in done.stdout.splitlines()}
    assert {"PATH", "HOME", "LANG", "MINE"} <= names
    assert "AGENT_SECRET" not in names
    assert "LANG=C.UTF-8" in done.stdout


async def test_cwd_stdin_and_umask(tmp_path):
    """Directory, input (also a large one that is not read) and umask are those that were given."""
    done = await sh("pwd; cat; umask", cwd=str(tmp_path), stdin="fed\n", umask=0o027)
    assert done.stdout == f"{tmp_path}\nfed\n0027\n"
    assert (await sh("true", stdin="x" * (1 << 22))).retcode == 0
    assert (await sh("cat")).stdout == ""


async def test_exact_output_can_be_passed_on():
    """Bytes that are not UTF-8 are replaced, unless the output is to be exact; then the input has them again."""
    assert (await sh("printf 'a\\377'")).stdout == "a\ufffd"
    said = (await sh("printf 'a\\377'", exact=True)).stdout
    assert (await sh("od -An -tx1", stdin=said)).stdout.split() == ["61", "ff"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
async def test_another_user():
    """A command as another user has that user's uid, groups, HOME and name, and none of the agent's."""
    done = await sh("id -un; id -Gn; echo $HOME $USER", user="daemon")
    assert done.stdout.splitlines() == ["daemon", "daemon", "/usr/sbin daemon"]
    assert (await sh("id -gn", user="daemon", group="bin")).stdout == "bin\n"


async def test_output_is_limited():
    """A flood of output is read to its end, kept up to the limit, and marked as truncated."""
    done = await sh("head -c 3000000 /dev/zero | tr '\\0' x", limit=1000)
    assert (len(done.stdout), done.truncated, done.retcode) == (1000, True, 0)


@pytest.mark.parametrize("script", ["yes", "yes >&2", "tr '\\0' x </dev/zero"])
async def test_a_flood_of_lines_that_are_events(script):
    """A command whose lines are events is blocked, because the agent reads at a fixed pace: events and memory are few.

    The test takes one second, the timeout of the command.
    """
    events = []
    with callbacks() as taken, pytest.raises(Overdue):
        await sh(f"exec {script}", timeout=1.0, limit=4096, on_line=lambda: events.append(1))

    assert len(events) <= 1.0 / EVENTS + 1
    assert bool(events) == (script == "yes")
    assert sum(taken) < 0.1


async def test_the_first_line_is_an_event_at_once():
    """The pace limits only the lines after it; the last one is reported, too."""
    loop, told = asyncio.get_running_loop(), []
    reader, writer = os.pipe()
    task = asyncio.create_task(
        sh(f"exec cat < /proc/{os.getpid()}/fd/{reader}", on_line=lambda: told.append(loop.time()))
    )
    for number in (1, 2):
        os.write(writer, b"line\n")
        while len(told) < number:
            await asyncio.sleep(0.001)
    os.close(writer)
    os.close(reader)
    await task

    assert EVENTS * 0.9 < told[1] - told[0] < 10 * EVENTS


async def test_a_dropped_flood_leaves_the_loop_free():
    """Draining the output of a command that writes without end takes little time of the event loop.

    The test takes one second, the timeout of the command.
    """
    with callbacks() as taken, pytest.raises(Overdue):
        await sh("exec yes", timeout=1.0)

    assert sum(taken) < 0.4


async def test_output_that_is_not_utf8():
    """Bytes that are not UTF-8 are replaced."""
    assert (await sh(r"printf 'a\377b'")).stdout == "a\ufffdb"


async def test_all_output_before_the_exit_is_read():
    """Output that fills the pipe just before the exit is not lost."""
    assert len((await sh("head -c 400000 /dev/zero", limit=1 << 20)).stdout) == 400000


async def test_timeout_kills_the_whole_group():
    """A timeout ends the command and all processes that it has started."""
    pids = []
    with pytest.raises(Temporary, match=r"exceeded its timeout of 0.3 s and was killed"):
        await sh("sleep 99 & sleep 98", timeout=0.3, on_start=pids.append)
    assert await gone(pids[0])
    assert all([await gone(pid) for pid in group_members(pids[0])])


def group_members(group: int) -> list[int]:
    """Return the live processes of a process group."""
    members = []
    for name in (path.name for path in Path("/proc").iterdir()):
        if name.isdigit() and alive(int(name)):
            try:
                if os.getpgid(int(name)) == group:
                    members.append(int(name))
            except ProcessLookupError:
                continue
    return members


async def test_a_command_that_ignores_sigterm_is_killed():
    """SIGKILL follows SIGTERM after a short time."""
    pids = []
    began = time.monotonic()
    with pytest.raises(Temporary):
        await sh("trap '' TERM; while :; do sleep 1; done", timeout=0.3, on_start=pids.append)
    assert time.monotonic() - began < DEADLINE
    assert all([await gone(pid) for pid in group_members(pids[0])])


async def test_cancellation_kills_the_whole_group():
    """Cancelling the wait ends the command and its children, and leaves no zombie."""
    started = asyncio.Event()
    pids = []

    def on_start(pid: int) -> None:
        pids.append(pid)
        started.set()

    task = asyncio.create_task(sh("sleep 99 & sleep 98", on_start=on_start))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert all([await gone(pid) for pid in group_members(pids[0])])
    with pytest.raises(ChildProcessError):
        os.waitpid(pids[0], os.WNOHANG)  # noqa: ASYNC222 - WNOHANG


async def test_a_second_cancellation_leaves_no_descriptor():
    """A second cancellation while the command is being killed leaks nothing."""
    before, started = descriptors(), asyncio.Event()
    task = asyncio.create_task(sh("trap '' TERM; while :; do sleep 1; done", on_start=lambda _: started.set()))
    await started.wait()
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task

    assert descriptors() == before


async def test_a_child_that_keeps_the_pipe_open_delays_nothing():
    """A command that leaves a daemon with its output open has ended when it exits, and the daemon lives on."""
    began = time.monotonic()
    done = await sh("sleep 97 & echo $!; echo started")
    child = int(done.stdout.split()[0])

    assert done.stdout.endswith("started\n")
    assert time.monotonic() - began < DEADLINE
    assert alive(child)
    os.kill(child, signal.SIGKILL)


def descriptors() -> int:
    """Count the open descriptors of this process, without those of earlier tests that await garbage collection."""
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_no_threads_and_no_descriptors_are_left():
    """Commands use no threads, and close every descriptor."""
    before, threads = descriptors(), set(threading.enumerate())
    await asyncio.gather(*(sh("true") for _ in range(10)))
    assert set(threading.enumerate()) <= threads
    assert descriptors() == before


async def test_the_loop_stays_free_while_a_command_runs():
    """Other tasks run while a command runs."""
    ticks = 0
    task = asyncio.create_task(sh("sleep 0.2"))
    while not task.done():
        await asyncio.sleep(0.01)
        ticks += 1
    assert ticks > 5


async def test_arguments_are_passed_unchanged():
    """Arguments with spaces and quotes reach the command unchanged."""
    done = await run(CommandSpec((sys.executable, "-c", "import sys; print(sys.argv[1:])", "a b", "'\"$x")), Blocking())
    assert done.stdout == "['a b', '\\'\"$x']\n"


async def test_a_process_that_cannot_be_watched_is_killed(monkeypatch):
    """Without a descriptor for its pidfd, a process could not be reaped: it is killed, and the error is temporary."""
    started = []

    def full(pid):
        started.append(pid)
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "pidfd_open", full)
    before = descriptors()
    with pytest.raises(Temporary, match=r"cannot watch /bin/sh, so it was killed: Too many open files"):
        await sh("sleep 99")

    assert await gone(started[0])
    assert descriptors() == before


async def test_a_command_runs_in_the_home_directory(monkeypatch, tmp_path):
    """The directory is not the agent's; it is / for a user without a home."""
    monkeypatch.chdir(tmp_path)
    assert (await sh("pwd; echo $HOME")).stdout.split() == [os.environ["HOME"]] * 2
    assert (await sh("pwd", cwd=str(tmp_path))).stdout.strip() == str(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "none"))
    assert (await sh("pwd")).stdout.strip() == "/"


async def test_a_command_that_takes_too_long_is_killed_although_no_thread_can_be_started(tmp_path, monkeypatch):
    """The limit of processes is reached: the event loop itself ends the command."""

    def refused(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    with pytest.raises(Overdue):
        await sh(f"echo $$ > {tmp_path}/pid; exec sleep 60", timeout=0.5)
    assert await gone(int((tmp_path / "pid").read_text()))

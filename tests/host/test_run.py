"""Commands, for real: their output, their limits, and that none of them outlives what it was run for."""

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
    """Start the fork server before the test, as for any command but the first: its socket does not count as leaked."""
    await sh("true")


def alive(pid: int) -> bool:
    """Whether a process runs: a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def gone(pid: int) -> bool:
    """Whether a process ends within two seconds."""
    deadline = time.monotonic() + 2
    while alive(pid) and time.monotonic() < deadline:
        await asyncio.sleep(0.01)
    return not alive(pid)


async def test_output_and_status():
    """Both outputs and the status come back; a status that is checked is an error with the last line said."""
    done = await sh("echo out; echo err >&2; exit 3", check=False)
    assert (done.stdout, done.stderr, done.retcode, done.truncated) == ("out\n", "err\n", 3, False)
    with pytest.raises(Permanent, match=r"/bin/sh ended with status 3: no luck"):
        await sh("echo trying; echo no luck >&2; exit 3")


async def test_killed_by_a_signal_is_said_by_name():
    """A command that a signal ends is reported so."""
    with pytest.raises(Permanent, match="was killed by SIGKILL"):
        await sh("kill -9 $$")


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (
            CommandSpec(("no-such-command-here",)),
            "cannot run no-such-command-here: No such file or directory; is it installed?",
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
async def test_what_cannot_be_started_says_why(command, told):
    """One line: the command, and the reason."""
    with pytest.raises(Permanent) as caught:
        await run(command, Blocking())
    assert str(caught.value) == told


async def test_what_lacks_descriptors_is_tried_again():
    """A shortage goes away by itself: it must not leave a resource failed until the next look at everything."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    blocking = Blocking()
    await blocking(int)  # its thread and what else it needs is there
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
    try:
        with pytest.raises(Temporary, match="Too many open files"):
            await run(CommandSpec(("true",)), blocking)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


async def test_environment_is_minimal_and_added_to(monkeypatch):
    """Nothing of the agent's own environment leaks; LANG is C.UTF-8; what is given is added."""
    monkeypatch.setenv("AGENT_SECRET", "x")

    done = await sh("env", env={"MINE": "1"})

    names = {line.split("=")[0] for line in done.stdout.splitlines()}
    assert {"PATH", "HOME", "LANG", "MINE"} <= names
    assert "AGENT_SECRET" not in names
    assert "LANG=C.UTF-8" in done.stdout


async def test_cwd_stdin_and_umask(tmp_path):
    """Directory, input (also a large one that is not read) and umask are as told."""
    done = await sh("pwd; cat; umask", cwd=str(tmp_path), stdin="fed\n", umask=0o027)
    assert done.stdout == f"{tmp_path}\nfed\n0027\n"
    assert (await sh("true", stdin="x" * (1 << 22))).retcode == 0
    assert (await sh("cat")).stdout == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
async def test_another_user():
    """A command as another user has that user's uid, groups, HOME and name, and none of ours."""
    done = await sh("id -un; id -Gn; echo $HOME $USER", user="daemon")
    assert done.stdout.splitlines() == ["daemon", "daemon", "/usr/sbin daemon"]
    assert (await sh("id -gn", user="daemon", group="bin")).stdout == "bin\n"


async def test_output_is_bounded():
    """A flood is read to its end, kept up to the limit, and marked as cut."""
    done = await sh("head -c 3000000 /dev/zero | tr '\\0' x", limit=1000)
    assert (len(done.stdout), done.truncated, done.retcode) == (1000, True, 0)


@pytest.mark.parametrize("script", ["yes", "yes >&2", "tr '\\0' x </dev/zero"])
async def test_flood_of_a_command_whose_lines_are_events(script):
    """It waits for the agent, which reads at a fixed pace: the events are few, and so is what is kept.

    It takes the second that the command has.
    """
    events = []
    with callbacks() as taken, pytest.raises(Overdue):
        await sh(f"exec {script}", timeout=1.0, limit=4096, on_line=lambda: events.append(1))

    assert len(events) <= 1.0 / EVENTS + 1
    assert bool(events) == (script == "yes")
    assert sum(taken) < 0.1


async def test_first_line_is_an_event_at_once():
    """The pace holds for those that follow; the last one is told, too."""
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


async def test_flood_that_is_dropped_leaves_the_loop_free():
    """A command that writes without end has its output drained, without keeping the agent busy.

    It takes the second that the command has.
    """
    with callbacks() as taken, pytest.raises(Overdue):
        await sh("exec yes", timeout=1.0)

    assert sum(taken) < 0.4


async def test_output_that_is_not_text():
    """Bytes that are not UTF-8 are replaced."""
    assert (await sh(r"printf 'a\377b'")).stdout == "a\ufffdb"


async def test_everything_written_before_the_end_is_read():
    """Output that fills the pipe just before the end is not lost."""
    assert len((await sh("head -c 400000 /dev/zero", limit=1 << 20)).stdout) == 400000


async def test_timeout_kills_the_whole_group():
    """On timeout the command and all it has started are gone."""
    pids = []
    with pytest.raises(Temporary, match=r"still ran after 0.3 s and was killed"):
        await sh("sleep 99 & sleep 98", timeout=0.3, on_start=pids.append)
    assert await gone(pids[0])
    assert all([await gone(pid) for pid in group_members(pids[0])])


def group_members(group: int) -> list[int]:
    """Live processes of a process group."""
    members = []
    for name in (path.name for path in Path("/proc").iterdir()):
        if name.isdigit() and alive(int(name)):
            try:
                if os.getpgid(int(name)) == group:
                    members.append(int(name))
            except ProcessLookupError:
                continue
    return members


async def test_a_command_that_ignores_being_asked_is_killed():
    """SIGTERM is only asking; SIGKILL follows shortly."""
    pids = []
    began = time.monotonic()
    with pytest.raises(Temporary):
        await sh("trap '' TERM; while :; do sleep 1; done", timeout=0.3, on_start=pids.append)
    assert time.monotonic() - began < 20
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


async def test_cancelled_twice_leaves_no_descriptor():
    """Whoever is in a hurry, and cancels again while the command is being killed, leaks nothing."""
    before, started = descriptors(), asyncio.Event()
    task = asyncio.create_task(sh("trap '' TERM; while :; do sleep 1; done", on_start=lambda _: started.set()))
    await started.wait()
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task

    assert descriptors() == before


async def test_a_child_that_keeps_the_pipe_does_not_hold_us_up():
    """A command that leaves a daemon with its output open is over when it itself is, and the daemon lives."""
    began = time.monotonic()
    done = await sh("sleep 97 & echo $!; echo started")
    child = int(done.stdout.split()[0])

    assert done.stdout.endswith("started\n")
    assert time.monotonic() - began < 20
    assert alive(child)
    os.kill(child, signal.SIGKILL)


def descriptors() -> int:
    """How many this process has open, but for those of earlier tests that only wait to be collected."""
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_no_threads_and_no_descriptors_are_left():
    """Commands cost no thread, and every descriptor is given back."""
    before, threads = descriptors(), set(threading.enumerate())
    await asyncio.gather(*(sh("true") for _ in range(10)))
    assert set(threading.enumerate()) <= threads
    assert descriptors() == before


async def test_the_loop_stays_free_while_a_command_runs():
    """Others run meanwhile."""
    ticks = 0
    task = asyncio.create_task(sh("sleep 0.2"))
    while not task.done():
        await asyncio.sleep(0.01)
        ticks += 1
    assert ticks > 5


async def test_python_as_a_command():
    """Any argument list will do, with spaces and quotes untouched."""
    done = await run(CommandSpec((sys.executable, "-c", "import sys; print(sys.argv[1:])", "a b", "'\"$x")), Blocking())
    assert done.stdout == "['a b', '\\'\"$x']\n"


async def test_process_that_cannot_be_watched_is_killed(monkeypatch):
    """Without a descriptor left for its pidfd a process would be left behind: it is not, and trying again may help."""
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


async def test_a_command_runs_at_home(monkeypatch, tmp_path):
    """Not where the agent happens to have been started; and in / for a user whose home there is not."""
    monkeypatch.chdir(tmp_path)
    assert (await sh("pwd; echo $HOME")).stdout.split() == [os.environ["HOME"]] * 2
    assert (await sh("pwd", cwd=str(tmp_path))).stdout.strip() == str(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "none"))
    assert (await sh("pwd")).stdout.strip() == "/"

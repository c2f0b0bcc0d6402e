"""A small process beside the agent starts the commands.

A start costs the event loop almost no time, and no user can delay other starts.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from deadline import DEADLINE
from holdfast.agent.host import cgroups, containment, forkserver
from holdfast.agent.host.blocking import Blocking
from holdfast.agent.host.forkserver import server
from holdfast.agent.host.run import _all, kill_all, run
from holdfast.agent.host.starting import CommandSpec
from holdfast.resources.errors import Overdue, Temporary
from loop_time import callbacks

MEMORY = 64 << 20
"""The number of bytes that the agent of this test allocates."""
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")


async def sh(script: str, **options):
    """Run a shell script."""
    return await run(CommandSpec(("/bin/sh", "-c", script), **options), Blocking())


@pytest.fixture(autouse=True)
def _own_server() -> Iterator[None]:
    """Give each test a fork server of its own, and stop it at the end."""
    server.stop()
    yield
    server.stop()


def pid_of_server() -> int:
    """Return the process ID of the fork server."""
    assert server._process is not None
    return server._process.pid


def ended(pid: int) -> bool:
    """Wait until a process has ended; return whether it has."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], DEADLINE)[0])
    finally:
        os.close(descriptor)


@as_root
@pytest.mark.parametrize("hold", ["cgroup", "subreaper", "group"])
@pytest.mark.parametrize(
    "options", [{}, {"cwd": "/usr"}, {"user": "root"}, {"user": "daemon"}, {"user": "daemon", "cwd": "/usr"}]
)
async def test_a_start_takes_little_cpu_time_of_the_event_loop(request, monkeypatch, hold, options):
    """A start is cheap in an agent of usual size.

    Forking the agent itself would copy its page tables, which takes milliseconds.
    """
    groups = cgroups.Cgroups(request.getfixturevalue("directory")) if hold == "cgroup" else None
    new = {"subreaper": containment.Subreaper, "group": containment.ProcessGroup}.get(
        hold, lambda: containment.Cgroup(groups)
    )
    monkeypatch.setattr(containment, "new", new)
    ballast = bytearray(b"x") * MEMORY
    await sh("true", **options)
    with callbacks() as taken:
        longest = []
        for _ in range(10):
            taken.clear()
            await sh("true", **options)
            longest.append(max(taken))
    del ballast

    assert min(longest) < 0.001


@pytest.mark.parametrize("hold", [containment.Subreaper, containment.ProcessGroup])
async def test_a_program_that_cannot_be_executed_yet_delays_nothing(monkeypatch, tmp_path, hold):
    """A lease on the program, or a file system that hangs, delays only that command, with and without a subreaper."""
    monkeypatch.setattr(containment, "new", hold)
    program, asked = tmp_path / "program", asyncio.Event()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    asyncio.get_running_loop().add_signal_handler(signal.SIGIO, asked.set)
    with program.open("rb+") as file:
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        task = asyncio.create_task(run(CommandSpec((str(program),), timeout=0.3), Blocking()))
        await asked.wait()
        with pytest.raises(Overdue):
            await task
    asyncio.get_running_loop().remove_signal_handler(signal.SIGIO)


async def test_many_commands_at_once():
    """More commands than workers are all started."""
    done = await asyncio.gather(*(sh(f"echo {number}") for number in range(150)))
    assert [each.stdout for each in done] == [f"{number}\n" for number in range(150)]


async def test_a_fork_server_that_was_killed_is_replaced():
    """If something kills the fork server, another one starts the next command, and running commands continue."""
    started = asyncio.Event()
    with tempfile.TemporaryDirectory() as name:
        os.mkfifo(Path(name, "go"))
        running = asyncio.create_task(
            sh(f"read word < {name}/go; echo $word; exit 3", check=False, on_start=lambda _: started.set())
        )
        await started.wait()
        first = pid_of_server()
        os.kill(first, signal.SIGKILL)
        assert ended(first)
        assert (await sh(f"echo fine > {name}/go; echo next")).stdout == "next\n"
        done = await running

    assert pid_of_server() != first
    assert (done.stdout, done.retcode) == ("fine\n", 3)


async def test_a_cancelled_command_never_starts_when_a_stopped_fork_server_continues(tmp_path):
    """The agent gives up a fork server that does not answer for a second."""
    await sh("true")
    stopped = pid_of_server()
    os.kill(stopped, signal.SIGSTOP)
    task = asyncio.create_task(sh(f"touch {tmp_path}/ran", timeout=0.01))
    with pytest.raises(Overdue):
        await task

    assert ended(stopped)
    assert (await sh("echo next")).stdout == "next\n"
    assert not (tmp_path / "ran").exists()


async def test_an_idle_fork_server_ends(monkeypatch):
    """An agent that runs no commands has no fork server."""
    monkeypatch.setattr(forkserver, "IDLE", 0.2)
    await sh("true")
    first = pid_of_server()
    loop = asyncio.get_running_loop()
    gone, descriptor = asyncio.Event(), os.pidfd_open(first)
    loop.add_reader(descriptor, gone.set)
    async with asyncio.timeout(DEADLINE):
        await gone.wait()
    loop.remove_reader(descriptor)
    os.close(descriptor)

    assert (await sh("echo again")).stdout == "again\n"


def test_the_fork_server_ends_with_the_agent():
    """The fork server ends also when the agent is killed with SIGKILL while a command runs."""
    agent = """
import asyncio, os, signal
from holdfast.agent.host.blocking import Blocking
from holdfast.agent.host.forkserver import server
from holdfast.agent.host.run import _all, kill_all, run
from holdfast.agent.host.starting import CommandSpec
def begun(pid):
    print(server._process.pid, pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(run(CommandSpec(("sleep", "60"), on_start=begun), Blocking()))
"""
    done = subprocess.run([sys.executable, "-c", agent], stdout=subprocess.PIPE, check=False, timeout=DEADLINE)
    first, command = map(int, done.stdout.split())
    os.kill(command, signal.SIGKILL)

    assert done.returncode == -signal.SIGKILL
    assert ended(first)


async def test_the_fork_server_is_small_and_knows_no_secret():
    """The fork server loads only the standard library, and keeps no environment and no data of commands."""
    word = "hidden-in-a-command"
    await sh("true", env={"WORD": word}, stdin=word)
    process = Path(f"/proc/{pid_of_server()}")
    status = dict(line.split(":", 1) for line in (process / "status").read_text(encoding="utf-8").splitlines())

    assert int(status["VmRSS"].split()[0]) < 16 << 10
    assert "site-packages" not in (process / "maps").read_text(encoding="utf-8")
    assert (process / "environ").read_bytes() == b""
    assert not [path for path in (process / "fd").iterdir() if path.name not in {"0", "1", "2", str(_socket(process))}]
    assert word.encode() not in memory(process)


def _socket(process: Path) -> str:
    """Return the descriptor of the fork server's socket."""
    return (process / "cmdline").read_bytes().rstrip(b"\0").rpartition(b"\0")[2].decode()


def memory(process: Path) -> bytes:
    """Return the writable memory of a process."""
    content = b""
    with (process / "mem").open("rb", buffering=0) as file:
        for line in (process / "maps").read_text(encoding="utf-8").splitlines():
            area, rights = line.split()[:2]
            if rights.startswith("rw") and "[v" not in line:
                start, end = (int(number, 16) for number in area.split("-"))
                file.seek(start)
                content += file.read(end - start)
    return content


async def test_kill_all_cancels_queued_commands(tmp_path):
    """The third stop signal ends running commands, and those that the fork server has not yet started."""
    await sh("true")
    stopped = pid_of_server()
    os.kill(stopped, signal.SIGSTOP)
    task = asyncio.create_task(sh(f"touch {tmp_path}/ran"))
    while not _all:
        await asyncio.sleep(0)
    kill_all()

    with pytest.raises(Temporary, match="the fork server ended before it was started"):
        await task
    assert ended(stopped)
    assert not (tmp_path / "ran").exists()

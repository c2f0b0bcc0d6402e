"""The real kernel reports the programs that processes begin to execute."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from deadline import DEADLINE
from foreign_shell import REFUSED, Stranger
from holdfast.agent.host import author_reader
from holdfast.agent.host.executions import Executions
from holdfast.agent.host.namer import Namer
from holdfast.agent.host.path_watcher import PathWatcher

try:
    Executions().close()
except OSError as error:
    REFUSED = REFUSED or f"the kernel refuses its process connector: {error}"
pytestmark = pytest.mark.skipif(bool(REFUSED), reason=REFUSED)


@pytest.fixture
def executions() -> Iterator[Executions]:
    """Yield the reports from now on."""
    executions = Executions()
    yield executions
    executions.close()


def reported(executions: Executions) -> Iterator[int]:
    """Yield the processes of all pending reports."""
    while pid := executions.read():
        yield pid


def test_each_program_is_reported_and_no_fork(executions: Executions) -> None:
    """A process that executes two programs is reported twice; a subshell that executes none is not."""
    script = "echo $$; (sh -c 'echo $PPID' > /dev/null; :); ( : ); exec true"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)

    pids = list(reported(executions))
    assert pids.count(int(done.stdout)) == 2
    assert os.getpid() not in pids


def test_reports_that_were_lost_are_followed_by_new_ones(executions: Executions) -> None:
    """The queue of the kernel is limited; here it is too small for five reports."""
    executions._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    subprocess.run(["sh", "-c", "/bin/true; /bin/true; /bin/true; /bin/true; /bin/true"], check=True)
    first = list(reported(executions))
    with subprocess.Popen(["true"]) as child:
        pass

    assert len(first) < 6
    assert child.pid in list(reported(executions))


@pytest.fixture
async def watcher() -> AsyncIterator[PathWatcher]:
    """Yield a watcher that follows all programs."""
    watcher = PathWatcher(None, Namer(programs=True))
    yield watcher
    watcher.close()


async def test_a_program_that_ends_at_once_is_named(watcher: PathWatcher, tmp_path: Path) -> None:
    """The process is read at its start. That may be too late on a busy machine, so the test tries several times."""
    rung, file = asyncio.Event(), tmp_path / "f"
    file.touch()
    with Stranger(tmp_path / "pipes") as stranger:
        watch = watcher.subscribe([str(file)], rung.set)
        async with asyncio.timeout(DEADLINE):
            while not (author := await watch.changed_by(0.0)) or author.command != f"chmod 600 {file}":
                await stranger.did(f"chmod 600 {file}")
                await rung.wait()
                rung.clear()


async def test_a_flood_of_programs_ends_no_reader(
    watcher: PathWatcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After more programs than can be read, names are reported as before."""
    monkeypatch.setattr(author_reader, "PROGRAMS", 1.0)
    monkeypatch.setattr(author_reader, "BURST_OF_PROGRAMS", 5.0)
    rung, file = asyncio.Event(), tmp_path / "f"
    with Stranger(tmp_path / "pipes") as stranger:
        watch = watcher.subscribe([str(file)], rung.set)
        await stranger.did("i=0; while [ $i -lt 50 ]; do /bin/true; i=$((i+1)); done")
        async with asyncio.timeout(DEADLINE):
            while not (author := await watch.changed_by(0.0)) or author.pid != stranger.pid:
                await stranger.did(f"echo x > {file}")
                await rung.wait()
                rung.clear()


async def test_where_the_kernel_refuses_the_log_says_so_and_names_are_told(tmp_path: Path) -> None:
    """The kernel reports programs only in the first network namespace. A live process is named after its change."""
    program = """
        import asyncio, os, sys
        from holdfast.agent.host.namer import Namer
        from holdfast.agent.host.path_watcher import PathWatcher

        async def main():
            watcher, rung = PathWatcher(None, Namer(programs=True)), asyncio.Event()
            watch = watcher.subscribe([sys.argv[1] + "/f"], rung.set)
            print("armed", flush=True)
            while not (author := await watch.changed_by(0.0)):
                await rung.wait()
                rung.clear()
                await asyncio.sleep(0)
            print(author.pid)
            watcher.close()

        asyncio.run(main())
    """
    with Stranger(tmp_path / "pipes") as stranger:
        agent = await asyncio.create_subprocess_exec(
            *("unshare", "--net", sys.executable, "-c", textwrap.dedent(program), str(tmp_path)),
            stdout=asyncio.subprocess.PIPE,
        )
        assert agent.stdout is not None
        said = [await agent.stdout.readline() for _ in range(2)]
        while agent.returncode is None:
            await stranger.did(f"echo x > {tmp_path}/f")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(agent.wait(), 0.1)
        assert b"watch.programs" in said[0]
        assert int(await agent.stdout.read()) == stranger.pid

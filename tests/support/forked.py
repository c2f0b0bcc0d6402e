"""Agents as forks of one process that has imported them. A fork starts in a fifth of the time of an interpreter.

Only a fresh interpreter shows that an agent imports everything that it uses, and reads the settings in its environment.
Tests of these start one (`Agent(tree, fresh=True)`). Otherwise, a fork is like an agent: its signals, threads, files
and environment are its own. Only its parent, and its command line in `ps`, are those of this process.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO

LARGEST = 1 << 18
"""Bytes of a request: words and environment."""


class Forked:
    """A process that was forked, with the methods of `subprocess.Popen` that tests use."""

    def __init__(self, pid: int, status: int) -> None:
        self.pid, self._status = pid, status
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, or None if the process runs."""
        return self.returncode if self.returncode is not None else self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end; return the exit code."""
        if self.returncode is None and self._ended(timeout) is None:
            raise subprocess.TimeoutExpired("an agent", timeout or 0)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def _ended(self, timeout: float | None) -> int | None:
        """Wait for the exit code."""
        if select.select([self._status], [], [], timeout)[0]:
            said = os.read(self._status, 16)
            os.close(self._status)
            assert said, "the process that forks agents has ended"
            self.returncode = os.waitstatus_to_exitcode(int(said))
        return self.returncode


def fork(words: Sequence[str], output: IO[bytes], environment: Mapping[str, str]) -> Forked:
    """Start `holdfast WORDS...` in this environment and the current directory; both streams are written to `output`."""
    status, written = os.pipe()
    try:
        request = json.dumps({"words": [*words], "environment": {**environment}, "directory": str(Path.cwd())})
        server = _server(environment["PYTHONPATH"])
        socket.send_fds(server, [request.encode()], [output.fileno(), written])
        return Forked(int(server.recv(16)), status)
    finally:
        os.close(written)


@cache
def _server(path: str) -> socket.socket:
    """Start the process that forks, which ends with this one; return the connection to it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process = subprocess.Popen(
        [sys.executable, "-W", "error", __file__, str(theirs.fileno())],
        pass_fds=[theirs.fileno()],
        stdin=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": path},
    )
    theirs.close()

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def serve(asked: socket.socket) -> None:
    """Fork an agent for each request, and report its exit code, until the other end is closed."""
    running: dict[int, tuple[int, int]] = {}  # descriptor of a process -> its PID, and the pipe for its exit status
    while True:
        ready, _, _ = select.select([asked.fileno(), *running], [], [])
        for descriptor in running.keys() & ready:
            pid, status = running.pop(descriptor)
            os.write(status, str(os.waitpid(pid, 0)[1]).encode())
            os.close(status)
            os.close(descriptor)
        if asked.fileno() in ready:
            request, given, _, _ = socket.recv_fds(asked, LARGEST, 2)
            if not request:
                return
            output, status = given
            if (pid := os.fork()) == 0:
                become(output, **json.loads(request))
            os.close(output)
            running[os.pidfd_open(pid)] = (pid, status)
            asked.send(str(pid).encode())


def become(output: int, words: list[str], environment: dict[str, str], directory: str) -> None:
    """Run a verb in this process, a fork whose open descriptors are those of an agent that was started."""
    from holdfast.agent.cli.main import main

    os.dup2(output, 1)
    os.dup2(output, 2)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["holdfast", *words]
    main()


def load() -> None:
    """Import what each agent imports at its start, and nothing else."""
    import holdfast.agent.daemon
    import holdfast.agent.verbs.run  # noqa: F401 - to be there
    from holdfast.agent import loggers
    from holdfast.agent.control import decoding
    from holdfast.resources import registry

    decoding.requests()
    loggers.load_structlog()
    registry.find("file.managed")
    registry.find("cmd.run")
    sys.path[0] = str(Path.cwd())  # as for `python -m`, instead of the folder of this file
    gc.collect()
    gc.freeze()  # the forks share all memory that they do not write


if __name__ == "__main__":
    load()
    serve(socket.socket(fileno=int(sys.argv[1])))

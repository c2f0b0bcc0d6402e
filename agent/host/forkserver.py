"""The agent's end of the fork server, which starts the commands (`become`).

A fork copies the page tables of the process. In the agent that takes milliseconds, during which the event loop and all
of Python stand still. The fork server is a fresh interpreter without other libraries, a tenth of the size. It is
started for the first command and ended after some time without one. It cannot outlive the agent: its work comes from a
socket that closes when the agent ends.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import marshal
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

from holdfast.agent.host import become, processes

IDLE = 60.0
"""Seconds without a command after which the fork server is ended."""
GONE = (BrokenPipeError, ConnectionResetError)
LOADER = """
import sys
def load(name, text):
    module = sys.modules[name] = type(sys)(name)
    exec(compile(text, name, "exec"), module.__dict__)
    return module
for name in ("holdfast", "holdfast.agent", "holdfast.agent.host"):
    load(name, "")
"""
"""Creates the modules that the program needs without importing their packages, which would import more."""


def program(*modules: ModuleType, start: str) -> bytes:
    """Return a program of these modules, of which `start` calls the last one.

    They are read when the agent starts: an update of the files must not mix two versions.
    """
    texts = [(module.__name__, Path(str(module.__file__)).read_text(encoding="utf-8")) for module in modules]
    return "".join([LOADER, *(f"module = load({name!r}, {text!r})\n" for name, text in texts), f"{start}\n"]).encode()


PROGRAM = program(processes, become, start="module.serve(int(sys.argv[1]))")


class ForkServer:
    """At most one running fork server, for this process."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, child: become.Child, descriptors: Sequence[int]) -> None:
        """Start a process.

        It reports to the first descriptor and uses the next three as standard streams (see `become.PASSED`).

        Raises `OSError`. Errors of later steps are reported through the first descriptor; a report without a line means
        that the fork server was killed.
        """
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(IDLE, self.stop)
        with in_memory("command", marshal.dumps(tuple(child))) as request:
            try:
                self._send([request, *descriptors])
            except GONE:
                self.stop()
                self._send([request, *descriptors])

    def _send(self, descriptors: list[int]) -> None:
        """Send a request; start a fork server first if none runs. Raises `OSError`."""
        if self._socket is None:
            self._socket = self._start()
        socket.send_fds(self._socket, [b"+"], descriptors)

    def _start(self) -> socket.socket:
        """Start the fork server. Raises `OSError`."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, contextlib.ExitStack() as undo:
            undo.callback(ours.close)
            ours.setblocking(False)
            with in_memory("forkserver", PROGRAM) as program:
                number = theirs.fileno()
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", "-E", "-", str(number)],
                    stdin=program,
                    stdout=subprocess.DEVNULL,
                    cwd="/",
                    env={},
                    pass_fds=[number],
                    start_new_session=True,
                )
            undo.pop_all()
        return ours

    def stop(self) -> None:
        """End the fork server at once; requests that it has not started yet are dropped."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@contextlib.contextmanager
def in_memory(name: str, content: bytes) -> Iterator[int]:
    """Yield a descriptor to read `content` from.

    Unlike a message its size is not limited, and unlike a pipe it needs no writer.
    """
    descriptor = os.memfd_create(name)
    try:
        with os.fdopen(descriptor, "wb", buffering=0, closefd=False) as file:
            file.write(content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)


server = ForkServer()
"""The fork server of this process."""
atexit.register(server.stop)

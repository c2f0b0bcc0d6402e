"""A socket beside the database, by which other processes wake the agent after a commit, so it need not poll.

It is a socket and no named pipe, because a program that reads all files of the directory would wait for a pipe.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from holdfast.agent.sqlite_files import beside, clear


class CommitNotifier:
    """The socket. It is only a hint: without it, a commit is noticed at the next poll."""

    def __init__(self, path: Path) -> None:
        self._file = beside(path, ".bell")
        self._socket: socket.socket | None = None

    def listen(self, on_commit: Callable[[], None]) -> None:
        """Create the socket, and call `on_commit` in the event loop whenever another process has committed."""
        with suppress(OSError):  # such as a full or read-only disk
            clear(self._file)
            self._socket = _datagrams()
            os.fchmod(self._socket.fileno(), 0o600)  # the file has this mode from the start
            self._at(self._socket.bind)
            asyncio.get_running_loop().add_reader(self._socket, self._received, on_commit)

    def notify(self) -> None:
        """Wake the agent, if there is one."""
        with suppress(OSError), _datagrams() as sender:  # if its queue is full, the agent is about to wake
            self._at(lambda address: sender.sendto(b"\0", address))

    def close(self) -> None:
        """Stop listening, and remove the socket."""
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._socket = None
            with suppress(OSError):
                if self._file.is_socket():
                    self._file.unlink()

    def _received(self, on_commit: Callable[[], None]) -> None:
        if self._socket is not None:
            with suppress(OSError):
                self._socket.recv(1)
            on_commit()

    def _at(self, use: Callable[[str], object]) -> None:
        """Use the address of the socket. Its path may be too long for one: a descriptor stands for its directory."""
        directory = os.open(self._file.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            use(f"/proc/self/fd/{directory}/{self._file.name}")
        finally:
            os.close(directory)


def _datagrams() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)

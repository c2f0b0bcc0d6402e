"""Writes lines of the log and of progress; the event loop never waits for a reader.

The reader may be a terminal held with Ctrl-S, a pipe that no process reads, or a busy journald. Lines are queued up to
a limit and written when the reader is ready. Lines beyond the limit are dropped, and the log says how many.
"""

from __future__ import annotations

import array
import asyncio
import errno
import fcntl
import os
import select
import socket
import time
from abc import ABC, abstractmethod
from collections import deque

LIMIT = 4 << 20
"""Bytes queued for a reader that does not read."""
CHUNK = 4096
"""Bytes that a ready pipe takes in one write (PIPE_BUF)."""
JOURNAL = "/run/systemd/journal/socket"


class NonblockingOutput(ABC):
    """A descriptor that takes messages; writing never blocks while an event loop runs."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._queue: deque[bytes] = deque()
        self._queued = 0
        self._dropped = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    @abstractmethod
    def _send(self, data: bytes) -> bytes:
        """Send as much as possible without waiting; return the rest.

        Raises `OSError` if the reader has closed its end.
        """

    @abstractmethod
    def _lost(self, count: int) -> bytes:
        """Return the message that says how many lines were dropped."""

    def write(self, data: bytes) -> None:
        """Send one message, now or later, in order. Errors of the reader are ignored."""
        if not self._queue:
            try:
                data = self._send(data)
            except OSError:
                return
            if not data:
                return
        if self._queued + len(data) > LIMIT:
            self._dropped += 1
            return
        self._queue.append(data)
        self._queued += len(data)
        self._wait()

    def flush(self, timeout: float = 1.0) -> None:
        """Send the queue, for at most `timeout` seconds; used at the end of the process, and without a running loop."""
        until = time.monotonic() + timeout
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        while self._queue and (left := until - time.monotonic()) > 0:
            if poll.poll(left * 1000):
                self._drain()

    def close(self) -> None:
        """Send the queue and stop using the loop."""
        self.flush()
        self._unwait()

    def _wait(self) -> None:
        """Make the loop call `_drain` when the reader is ready; without a loop, wait here."""
        if self._loop is not None:
            return
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:
            self.flush()
            return
        self._loop.add_writer(self._descriptor, self._drain)

    def _unwait(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_writer(self._descriptor)
        self._loop = None

    def _drain(self) -> None:
        while self._queue:
            data = self._queue.popleft()
            self._queued -= len(data)
            try:
                rest = self._send(data)
            except OSError:
                continue
            if rest:
                self._queue.appendleft(rest)
                self._queued += len(rest)
                return
            if not self._queue and self._dropped:
                message, self._dropped = self._lost(self._dropped), 0
                self._queue.append(message)
                self._queued += len(message)
        self._unwait()


class StreamOutput(NonblockingOutput):
    """A terminal, pipe or file.

    Other processes share its descriptor, so it stays in blocking mode and is polled first.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor)
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)

    def _send(self, data: bytes) -> bytes:
        while data and self._poll.poll(0):
            data = data[os.write(self._descriptor, data[:CHUNK]) :]
        return data

    def _lost(self, count: int) -> bytes:
        return f"[{count} lines of the log were dropped: no process read them]\n".encode()


class JournalOutput(NonblockingOutput):
    """The native socket of journald. A message too large for a datagram is sent as a sealed memory file."""

    def __init__(self, path: str = JOURNAL) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        self._path = path
        super().__init__(self._socket.fileno())

    def close(self) -> None:
        """Send the queue and close the socket."""
        super().close()
        self._socket.close()

    def _send(self, data: bytes) -> bytes:
        try:
            self._socket.sendto(data, self._path)
        except BlockingIOError:
            return data
        except OSError as error:
            if error.errno not in (errno.EMSGSIZE, errno.ENOBUFS):
                raise
            self._send_file(data)
        return b""

    def _send_file(self, data: bytes) -> None:
        descriptor = os.memfd_create("holdfast-journal", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            with open(descriptor, "wb", closefd=False) as file:
                file.write(data)
            fcntl.fcntl(
                descriptor,
                fcntl.F_ADD_SEALS,
                fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL,
            )
            self._socket.sendmsg(
                [], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))], 0, self._path
            )
        finally:
            os.close(descriptor)

    def _lost(self, count: int) -> bytes:
        return encode_journal(
            {"MESSAGE": f"{count} lines of the log were dropped: journald did not take them", "PRIORITY": "4"}
        )


def encode_journal(fields: dict[str, str]) -> bytes:
    """Return fields in journald's native protocol.

    `NAME=value`, or name, length and value where the value has line breaks.
    """
    parts = []
    for name, value in fields.items():
        data = value.encode("utf-8", "replace")
        if b"\n" in data:
            parts.append(name.encode() + b"\n" + len(data).to_bytes(8, "little") + data + b"\n")
        else:
            parts.append(name.encode() + b"=" + data + b"\n")
    return b"".join(parts)

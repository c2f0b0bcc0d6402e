"""The agent's side of the control socket, for root and the agent's own user only.

The file mode keeps others out; the server also asks the kernel who connects. No client can make the agent wait or grow:
requests are bounded in size and time, and a client that follows the log too slowly is dropped with a message.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
import struct
from pathlib import Path

from holdfast.agent.connections import BACKLOG, Connections
from holdfast.agent.control.answers import PATIENCE, send
from holdfast.agent.control.connection import ClientConnection, Peer
from holdfast.agent.control.decoding import decode_request
from holdfast.agent.control.request import ControlRequest
from holdfast.agent.control.schema import LIMIT, ControlError, ControlResponse, address, encode, unix_socket
from holdfast.agent.paths import demand_safe
from holdfast.agent.running_agent import RunningAgent
from holdfast.resources import paths
from holdfast.resources.paths import trusted_uids
from holdfast.resources.secrets import Redactor
from holdfast.states.source.hostfiles import absolute

CLIENTS = 64
"""Most clients at once."""
_CREDENTIALS = struct.Struct("3i")
"""Process, user and group of a peer."""


class ControlServer:
    """Listens from `start` to `stop`."""

    def __init__(self, path: Path, agent: RunningAgent) -> None:
        self.path = path
        self._agent = agent
        self._server: asyncio.Server | None = None
        self._made: tuple[int, int] | None = None
        """Device and inode of the socket file."""
        self._connections = Connections(self._read, self._talk, _refusal, CLIENTS)

    async def start(self) -> None:
        """Listen, and stop listening at the previous socket.

        Replaces the socket of a dead agent: the caller holds the lock.

        Raises `OSError`, also if another kind of file is there, and `HoldfastError` if untrusted users could replace
        the socket.
        """
        demand_safe(self.path, "listen at", "set another 'control' in agent.yaml")
        paths.make_parents(absolute(self.path))
        place = paths.at(absolute(self.path))
        info = place.look()
        if info is not None and stat.S_ISSOCK(info.st_mode) and info.st_uid in trusted_uids():
            place.unlink()
        listener = unix_socket()
        try:
            os.fchmod(listener.fileno(), 0o600)  # the file has this mode from the start; other threads share the umask
            with address(self.path) as name:
                listener.bind(name)
        except OSError:
            listener.close()
            raise
        if self._server is not None:
            self._server.close()
        self._made = self._found()
        self._server = await asyncio.start_unix_server(
            self._connections.take, sock=listener, limit=LIMIT, backlog=BACKLOG
        )

    def lost(self) -> bool:
        """Return whether the socket file is no longer the one that was made. Blocks."""
        return self._made is None or self._found() != self._made

    def _found(self) -> tuple[int, int] | None:
        try:
            info = paths.at(absolute(self.path)).look()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return None if info is None else (info.st_dev, info.st_ino)

    async def stop(self) -> None:
        """Stop listening, disconnect all clients, remove the socket."""
        if self._server is None:
            return
        self._server.close()
        await self._connections.stop()
        with contextlib.suppress(OSError, paths.Unsafe):
            paths.at(absolute(self.path)).unlink()

    @staticmethod
    async def _read(reader: asyncio.StreamReader) -> ControlRequest | ControlError:
        """Return one request, or the error in place of an invalid one."""
        try:
            return decode_request(await asyncio.wait_for(reader.readline(), PATIENCE))
        except ControlError as error:
            return error
        except ValueError:
            return ControlError(f"cannot read the request: it is longer than {LIMIT} bytes", "not-understood")
        except TimeoutError:
            return ControlError(f"cannot wait longer than {PATIENCE:g} s for a request")

    async def _talk(
        self, request: ControlRequest | ControlError, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answer a request; then close."""
        try:
            client = ClientConnection(_peer(writer), reader, writer, self._redactor)
            if isinstance(request, ControlError):
                raise request
            response = ControlResponse(ok=True, data=await request.answer(self._agent, client))
        except ControlError as error:
            response = ControlResponse(ok=False, error=str(error), code=error.code)
        await send(response, self._redactor, writer)

    def _redactor(self) -> Redactor:
        return self._agent.logs.redactor


def _peer(writer: asyncio.StreamWriter) -> Peer:
    """Return the process at the other end. Raises `ControlError` for all users but root and the agent's own."""
    connection: socket.socket = writer.get_extra_info("socket")
    pid, uid, _ = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    if uid not in trusted_uids():
        raise ControlError(
            f"cannot serve uid {uid}: only root and uid {os.geteuid()} may control this agent", "not-permitted"
        )
    return Peer(pid, uid)


def _refusal() -> bytes:
    """Return the message to a client when all slots are taken."""
    advice = "stop some, for example `holdfast log --follow` or `holdfast watch`"
    text = f"cannot serve more than {CLIENTS} clients at once: {advice}"
    return encode(ControlResponse(ok=False, error=text, code="busy"))

"""The socket for viewers: users who may look at this agent and change nothing.

They are the members of one group. They see less than root (`viewers`), and can delay neither the agent nor root: their
connections are accepted slowly, have slots of their own, and share turns.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import grp
import socket
import struct
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast.agent.connections import BACKLOG, Connections
from holdfast.agent.control.answers import TIMEOUT, encoded, send
from holdfast.agent.control.connection import ClientConnection, Peer, peer_of
from holdfast.agent.control.decoding import read_request, requests
from holdfast.agent.control.handling import answer_of
from holdfast.agent.control.request import ControlRequest
from holdfast.agent.control.schema import LIMIT, ControlError, ControlResponse, encode, plain
from holdfast.agent.control.socket_file import SocketFile
from holdfast.agent.control.turns import Turns
from holdfast.agent.control.viewers import masked
from holdfast.agent.health import Health
from holdfast.agent.host.blocking import Blocking
from holdfast.agent.running_agent import RunningAgent
from holdfast.resources.errors import HoldfastError
from holdfast.resources.paths import trusted_uids

CLIENTS = 32
"""Most viewers at once."""
OF_ONE_USER = 24
"""Most connections of one user, so that one user cannot take all slots. `holdfast serve` uses several."""
PACE = 0.004
"""Seconds between two connections that are accepted: accepting them costs the agent time."""
PAUSE = 1.0
"""Seconds without accepting connections after that has failed."""
UNAVAILABLE = "view-unavailable"
"""Code of the health condition for a socket that cannot be made."""
SO_PEERGROUPS = 59
"""Option of a socket: the supplementary groups of the peer (socket(7)); Python has no name for it."""
GROUPS = 256
"""Groups that fit into 1024 bytes."""
MOST_GROUPS = 65536
"""Most groups of one process."""


class ViewServer:
    """Listens at a path for members of a group, from `start` to `stop`."""

    def __init__(self, path: Path, group: str, agent: RunningAgent, health: Health) -> None:
        self.path, self._group = path, group
        self._agent, self._health = agent, health
        self._file = SocketFile(path, "set another 'view' in agent.yaml")
        self._blocking = Blocking(1)
        self._gid = -1
        self._turns = Turns()
        self._accepting: asyncio.Task[None] | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self._of_user: Counter[int] = Counter()
        """uid -> its connections."""
        self._connections = Connections(read_request, self._talk, _refusal, CLIENTS)

    async def start(self) -> None:
        """Listen. If there is no such group, or the socket cannot be made, set a health condition instead."""
        try:
            self._gid = (await self._blocking(grp.getgrnam, self._group)).gr_gid
            listener = await self._blocking(self._file.make, self._gid)
        except KeyError:
            self._health.set(
                UNAVAILABLE,
                f"only root can look at the agent, because there is no group {self._group} for other users; to let "
                f"them look, create it: groupadd --system {self._group}",
                "info",
            )
            return
        except (OSError, HoldfastError) as error:
            self._health.set(UNAVAILABLE, f"cannot listen at {self.path} for viewers: {error}")
            return
        listener.setblocking(False)
        listener.listen(BACKLOG)
        await self._stop_accepting()
        self._accepting = asyncio.create_task(self._accept(listener), name="viewers")
        self._health.clear(UNAVAILABLE)

    async def renew(self) -> str:
        """Listen again if the socket was removed or replaced; return a sentence about that, or an empty text."""
        listened = self._accepting is not None
        if listened and not await self._blocking(self._file.lost):
            return ""
        await self.start()
        return f"{self.path} was removed or replaced" if listened else ""

    async def stop(self) -> None:
        """Stop listening, disconnect all viewers, remove the socket."""
        if self._accepting is None:
            return
        await self._stop_accepting()
        await self._connections.stop()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        self._file.remove()

    async def _stop_accepting(self) -> None:
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.wait([self._accepting])

    async def _accept(self, listener: socket.socket) -> None:
        """Accept connections, not too many at once, until cancelled."""
        loop = asyncio.get_running_loop()
        with contextlib.closing(listener):
            while True:
                try:
                    connection, _ = await loop.sock_accept(listener)
                except OSError as error:
                    text = "cannot accept a viewer"
                    loop.call_exception_handler({"message": text, "exception": error, "socket": listener})
                    await asyncio.sleep(PAUSE)
                    continue
                task = asyncio.create_task(self._serve(connection), name="viewer")
                self._serving.add(task)
                task.add_done_callback(self._serving.discard)
                await asyncio.sleep(PACE)

    async def _serve(self, connection: socket.socket) -> None:
        """Serve one connection, if its user is a viewer and has not too many connections."""
        try:
            uid = self._admitted(connection).uid
        except (ControlError, OSError) as error:
            _refuse(connection, error)
            return
        self._of_user[uid] += 1
        try:
            if self._of_user[uid] > OF_ONE_USER:
                text = f"cannot serve more than {OF_ONE_USER} connections of uid {uid} at once"
                _refuse(connection, ControlError(text, "busy"))
            else:
                await self._connections.take(*await asyncio.open_unix_connection(sock=connection, limit=LIMIT))
        finally:
            self._of_user[uid] -= 1
            if not self._of_user[uid]:
                del self._of_user[uid]

    def _admitted(self, connection: socket.socket) -> Peer:
        """Return the peer of a connection. Raises `ControlError` unless it belongs to the group, or is trusted."""
        peer = peer_of(connection)
        if peer.uid not in trusted_uids() and self._gid not in {peer.gid, *_groups_of(connection)}:
            raise ControlError(
                f"cannot serve uid {peer.uid}: it did not belong to the group {self._group} when its process began",
                "not-permitted",
            )
        return peer

    async def _talk(
        self, request: ControlRequest | ControlError, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answer a request; then close."""
        encoder = self._whole if isinstance(request, ControlRequest) and request.viewers == "whole" else self._masked
        try:
            if isinstance(request, ControlError):
                raise request
            client = ClientConnection(
                peer_of(writer.get_extra_info("socket")),
                reader,
                writer,
                encoder,
                turn=self._turns.turn,
                timeout=TIMEOUT,
                viewer=True,
            )
            response = ControlResponse(ok=True, data=await self._answer(request, client))
        except ControlError as error:
            response = ControlResponse(ok=False, error=str(error), code=error.code)
        await send(response, encoder, writer, self._turns.turn)

    async def _answer(self, request: ControlRequest, client: ClientConnection) -> Any:
        """Return the data of the answer. Raises `ControlError` if viewers may not send this request."""
        if request.viewers == "no":
            known = ", ".join(sorted(name for name, each in requests().items() if each.viewers != "no"))
            raise ControlError(
                f"cannot do {request.verb!r} here: only root may, at the control socket; viewers may send {known}",
                "not-permitted",
            )
        if request.stream:
            return await answer_of(request, self._agent, client)
        async with self._turns.turn():
            return await answer_of(request, self._agent, client)

    def _masked(self, message: Any) -> bytes:
        return encoded(masked(plain(message)), self._agent.logs.redactor)

    def _whole(self, message: Any) -> bytes:
        return encoded(message, self._agent.logs.redactor)


def _groups_of(connection: socket.socket) -> Sequence[int]:
    """Return the supplementary groups of a peer; none if the kernel does not know the option."""
    size = struct.calcsize("I")
    try:
        data = connection.getsockopt(socket.SOL_SOCKET, SO_PEERGROUPS, GROUPS * size)
    except OSError as error:
        return _many_groups_of(connection) if error.errno == errno.ERANGE else ()
    return struct.unpack(f"{len(data) // size}I", data)


def _many_groups_of(connection: socket.socket) -> Sequence[int]:
    """Return the groups of a peer with more of them than fit into the longest answer of Python's `getsockopt`."""
    import ctypes  # noqa: PLC0415 - few users have so many groups

    groups = (ctypes.c_uint32 * MOST_GROUPS)()
    size = ctypes.c_uint32(ctypes.sizeof(groups))
    got = ctypes.CDLL(None).getsockopt(
        connection.fileno(), socket.SOL_SOCKET, SO_PEERGROUPS, groups, ctypes.byref(size)
    )
    return groups[: size.value // ctypes.sizeof(ctypes.c_uint32)] if got == 0 else ()


def _refusal() -> bytes:
    """Return the message to a viewer when all slots are taken."""
    return _line(ControlError(f"cannot serve more than {CLIENTS} viewers at once", "busy"))


def _refuse(connection: socket.socket, error: Exception) -> None:
    """Close a connection that is not served; send the reason, for which a new connection has room."""
    with contextlib.suppress(OSError):
        connection.send(_line(error))
    connection.close()


def _line(error: Exception) -> bytes:
    """Return the message for an error."""
    return encode(ControlResponse(ok=False, error=str(error), code=getattr(error, "code", "")))

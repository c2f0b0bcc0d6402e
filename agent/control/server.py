"""The agent's side of the control socket, for root and the agent's own user only.

The file mode keeps others out; the server also asks the kernel who connects. No client can make the agent wait or grow:
requests are bounded in size and time, and a client that follows the log too slowly is dropped with a message.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from holdfast.agent.connections import BACKLOG, Connections
from holdfast.agent.control.answers import encoded, send
from holdfast.agent.control.connection import ClientConnection, Peer, peer_of
from holdfast.agent.control.decoding import read_request
from holdfast.agent.control.handling import answer_of
from holdfast.agent.control.request import ControlRequest
from holdfast.agent.control.schema import LIMIT, ControlError, ControlResponse, encode
from holdfast.agent.control.socket_file import SocketFile
from holdfast.agent.running_agent import RunningAgent
from holdfast.resources.paths import trusted_uids

CLIENTS = 64
"""Most clients at once."""


class ControlServer:
    """Listens from `start` to `stop`."""

    def __init__(self, path: Path, agent: RunningAgent) -> None:
        self.path = path
        self._agent = agent
        self._file = SocketFile(path, "set another 'control' in agent.yaml")
        self._server: asyncio.Server | None = None
        self._connections = Connections(read_request, self._talk, _refusal, CLIENTS)

    async def start(self) -> None:
        """Listen, and stop listening at the previous socket. Raises what `SocketFile.make` raises."""
        listener = self._file.make()
        if self._server is not None:
            self._server.close()
        self._server = await asyncio.start_unix_server(
            self._connections.take, sock=listener, limit=LIMIT, backlog=BACKLOG
        )

    def lost(self) -> bool:
        """Return whether the socket file is no longer the one that was made. Blocks."""
        return self._file.lost()

    async def stop(self) -> None:
        """Stop listening, disconnect all clients, remove the socket."""
        if self._server is None:
            return
        self._server.close()
        await self._connections.stop()
        self._file.remove()

    async def _talk(
        self, request: ControlRequest | ControlError, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answer a request; then close."""
        try:
            client = ClientConnection(
                _admitted(peer_of(writer.get_extra_info("socket"))), reader, writer, self._encoded
            )
            if isinstance(request, ControlError):
                raise request
            response = ControlResponse(ok=True, data=await answer_of(request, self._agent, client))
        except ControlError as error:
            response = ControlResponse(ok=False, error=str(error), code=error.code)
        await send(response, self._encoded, writer)

    def _encoded(self, message: Any) -> bytes:
        return encoded(message, self._agent.logs.redactor)


def _admitted(peer: Peer) -> Peer:
    """Return the peer. Raises `ControlError` for all users but root and the agent's own."""
    if peer.uid not in trusted_uids():
        raise ControlError(
            f"cannot serve uid {peer.uid}: only root and uid {os.geteuid()} may control this agent", "not-permitted"
        )
    return peer


def _refusal() -> bytes:
    """Return the message to a client when all slots are taken."""
    advice = "stop some, for example `holdfast log --follow` or `holdfast watch`"
    text = f"cannot serve more than {CLIENTS} clients at once: {advice}"
    return encode(ControlResponse(ok=False, error=text, code="busy"))

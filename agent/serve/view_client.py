"""The client of the socket for viewers: requests to the agent, each in a connection of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from holdfast.agent.control.client import reached
from holdfast.agent.control.request import ControlRequest
from holdfast.agent.control.schema import REFUSALS, ControlError, encode, unix_socket

MOST = 16 << 20
"""Most bytes of one message of the agent."""
ASKING = 4
"""Most requests at once, in addition to subscriptions: the agent serves viewers one after the other anyway."""


class ViewClient:
    """The agent at one socket."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._free = asyncio.Semaphore(ASKING)

    async def ask(self, request: ControlRequest, timeout: float) -> Any:
        """Return the data of the answer. Raises `ControlError`, and `TimeoutError` after so many seconds."""
        async with asyncio.timeout(timeout), self._free, self.answers(request) as messages:
            async for message in messages:
                if "ok" in message:
                    return message.get("data")
        raise ControlError("the agent has stopped", "no-agent")

    @asynccontextmanager
    async def answers(self, request: ControlRequest) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
        """Yield an iterator over the messages of an answer. The iterator raises `ControlError`."""
        connection = unix_socket()
        connection.setblocking(False)
        try:
            with reached(self._path) as name:
                await asyncio.get_running_loop().sock_connect(connection, name)
            reader, writer = await asyncio.open_unix_connection(sock=connection, limit=MOST)
        except BaseException:
            connection.close()
            raise
        try:
            writer.write(encode(request.message()))
            yield _messages(reader)
        finally:
            writer.transport.abort()


async def _messages(reader: asyncio.StreamReader) -> AsyncIterator[dict[str, Any]]:
    """Yield the messages of the agent. Raises `ControlError` for a refusal, and for what no agent sends."""
    while True:
        try:
            line = await reader.readline()
            message = json.loads(line) if line else {"ok": False, "error": "the agent has stopped", "code": "no-agent"}
        except OSError as error:
            raise ControlError(f"the agent has ended the connection: {error.strerror or error}", "no-agent") from error
        except ValueError as error:
            raise ControlError(f"the answer of the agent is not readable: {error}", "not-understood") from error
        if not isinstance(message, dict):
            raise ControlError("the answer of the agent is not readable", "not-understood")
        if message.get("ok") is False:
            code = next((each for each in REFUSALS if each == message.get("code")), REFUSALS[0])
            raise ControlError(str(message.get("error") or "the agent has refused the request"), code)
        yield message

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
from typing import Any, Protocol

from holdfast.agent.connections import BACKLOG, Connections
from holdfast.agent.console import LogEntry
from holdfast.agent.control.answers import PATIENCE, encoded, send
from holdfast.agent.control.journal_session import JournalSession, framed, receive
from holdfast.agent.control.log_filter import LogFilter
from holdfast.agent.control.schema import (
    LIMIT,
    OTHER,
    ControlError,
    ControlRequest,
    ControlResponse,
    address,
    decode_request,
    encode,
    unix_socket,
)
from holdfast.agent.engine.deliver.tables import Rows
from holdfast.agent.host.blocking import Blocking
from holdfast.agent.logs import Logs
from holdfast.agent.paths import demand_safe
from holdfast.resources import paths
from holdfast.resources.paths import trusted_uids
from holdfast.states.source.hostfiles import absolute

QUEUE = 1000
"""Most entries of the log that wait for one follower."""
FRAME = 0.1
"""Seconds between two frames of the live view."""
CLIENTS = 64
"""Most clients at once."""
_CREDENTIALS = struct.Struct("3i")
"""Process, user and group of a peer."""


class Agent(Protocol):
    """What clients can ask of the daemon. Each method may raise `ControlError`."""

    def status(self, most: int | None) -> dict[str, Any]:
        """The agent and its health, ready for JSON, with an iterator over its resources.

        `most` limits the rows and adds the number of resources in each state; None means all rows.
        """
        ...

    async def pause(self, request: ControlRequest) -> dict[str, Any]:
        """Stop repairing what the request names; `text` says until when."""
        ...

    async def resume(self, request: ControlRequest) -> dict[str, Any]:
        """Resume repairs; `text` says what is still paused."""
        ...

    async def reload(self) -> dict[str, Any]:
        """Read settings and states again; `problems` lists what is wrong with them."""
        ...

    def recheck(self) -> dict[str, Any]:
        """Check every resource; `paused` says whether this waits for `resume`."""
        ...

    def look(self, request: ControlRequest) -> Any:
        """The answer to `why`, `graph`, `trace` or `metrics`, ready for JSON."""
        ...

    def frame(self) -> dict[str, Any]:
        """The present state, of bounded size: health, the pass, and the resources with activity."""
        ...

    def keeps(self) -> str:
        """The states that the agent manages, in the form of `Settings.tree`."""
        ...

    def rows(self, tree: str) -> Rows | None:
        """The content of the journal; None for a run of other states than the agent's."""
        ...

    def journal_session(self, pid: int) -> JournalSession:
        """A session for a one-shot run by this process. Raises `ControlError` while there is another."""
        ...

    async def trigger(self, identity: str) -> dict[str, Any]:
        """Run one resource now; `text` is the outcome in a sentence, `result` that of the outcome."""
        ...


class ControlServer:
    """Listens from `start` to `stop`."""

    def __init__(self, path: Path, agent: Agent, logs: Logs) -> None:
        self.path = path
        self._agent = agent
        self._logs = logs
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
        """Whether the socket file is no longer the one that was made. Blocks."""
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
        """One request, or the error in place of an invalid one."""
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
        answer = await self._answer(request, reader, writer)
        await send(answer, lambda: self._logs.redactor, writer)

    async def _answer(
        self, request: ControlRequest | ControlError, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> ControlResponse:
        try:
            pid = self._check_peer(writer)
            if isinstance(request, ControlError):
                raise request
            return await self._do(request, pid, reader, writer)
        except ControlError as error:
            return ControlResponse(ok=False, error=str(error), code=error.code)

    async def _do(
        self, request: ControlRequest, pid: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> ControlResponse:
        match request.verb:
            case "log":
                return await self._log(request, reader, writer)
            case "watch":
                return await self._frames(reader, writer)
            case "apply" | "plan":
                return await self._beside(request, pid, reader, writer)
        return ControlResponse(ok=True, data=await self._data(request))

    async def _data(self, request: ControlRequest) -> Any:
        """The answer to a verb that returns data."""
        data: Any = None
        match request.verb:
            case "status":
                data = self._agent.status(request.number)
            case "reload":
                data = await self._agent.reload()
            case "why" | "graph" | "trace" | "metrics":
                data = self._agent.look(request)
            case "trigger":
                data = await self._agent.trigger(request.identity)
            case "pause":
                data = await self._agent.pause(request)
            case "resume":
                data = await self._agent.resume(request)
            case "recheck":
                data = self._agent.recheck()
            case "keeps":
                data = self._agent.keeps()
        return data

    async def _log(
        self, request: ControlRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> ControlResponse:
        """Past entries; with `follow` also new ones until the client disconnects or cannot keep up."""
        queue: asyncio.Queue[LogEntry | None] = asyncio.Queue(QUEUE)

        chosen = LogFilter(request)

        def put(entry: LogEntry) -> None:
            if not chosen(entry):
                return
            if queue.qsize() < QUEUE - 1:
                queue.put_nowait(entry)
            else:
                self._logs.followers.discard(put)
                queue.put_nowait(None)

        buffer, span = self._logs.buffer, request.seconds
        if span is not None and (oldest := next(iter(buffer), None)) and buffer.reach < span:
            writer.write(encode({"kept": oldest["time"]}))
        kept = buffer if span is None else buffer.since(span)
        past = [entry for entry in kept if chosen(entry)][-request.lines :] if request.lines > 0 else []
        writer.writelines(encode({"entry": dict(entry)}) for entry in past)
        if not request.follow:
            return ControlResponse(ok=True)
        self._logs.followers.add(put)
        gone = asyncio.create_task(reader.read(1), name="control client")
        try:
            return await self._follow(queue, gone, writer)
        finally:
            self._logs.followers.discard(put)
            gone.cancel()

    async def _beside(
        self, request: ControlRequest, pid: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> ControlResponse:
        """Serve a one-shot run beside the agent: send the journal; for `apply`, receive changes until the run ends."""
        rows = self._agent.rows(request.tree)
        if rows is None:
            return ControlResponse(ok=True, data=OTHER)
        session = self._agent.journal_session(pid) if request.verb == "apply" else None
        try:
            writer.write(encode({"rows": True}) + await Blocking(1)(framed, rows))
            while session and (message := await receive(reader)) is not None:
                session.take(message, lambda answer: writer.write(encode(answer)))
        finally:
            if session:
                await session.close()
        return ControlResponse(ok=True)

    async def _frames(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> ControlResponse:
        """Send frames until the client disconnects.

        A slow client gets fewer frames; an unchanged frame is not sent again.
        """
        gone = asyncio.create_task(reader.read(1), name="control client")
        sent = b""
        try:
            while not gone.done():
                shown = encoded({"frame": self._agent.frame()}, self._logs.redactor)
                if shown != sent:
                    writer.write(shown)
                    await writer.drain()
                    sent = shown
                await asyncio.wait({gone}, timeout=FRAME)
        finally:
            gone.cancel()
        return ControlResponse(ok=True)

    async def _follow(
        self, queue: asyncio.Queue[LogEntry | None], gone: asyncio.Task[bytes], writer: asyncio.StreamWriter
    ) -> ControlResponse:
        while not gone.done():
            following = asyncio.create_task(queue.get())
            await asyncio.wait({following, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not following.done():
                following.cancel()
                break
            entry = following.result()
            if entry is None:
                return ControlResponse(
                    ok=False, error=f"cannot keep up: more than {QUEUE} entries waited for this client"
                )
            writer.write(encode({"entry": dict(entry)}))
            await writer.drain()
        return ControlResponse(ok=True)

    def _check_peer(self, writer: asyncio.StreamWriter) -> int:
        """The process at the other end. Refuses all users but root and the agent's own."""
        peer: socket.socket = writer.get_extra_info("socket")
        pid, uid, _ = _CREDENTIALS.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        if uid not in trusted_uids():
            raise ControlError(
                f"cannot serve uid {uid}: only root and uid {os.geteuid()} may control this agent", "not-permitted"
            )
        return int(pid)


def _refusal() -> bytes:
    """The message to a client when all slots are taken."""
    advice = "stop some, for example `holdfast log --follow` or `holdfast watch`"
    text = f"cannot serve more than {CLIENTS} clients at once: {advice}"
    return encode(ControlResponse(ok=False, error=text, code="no-agent"))

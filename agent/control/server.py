"""The running agent's side of the control socket: for root and the agent's own user, nobody else.

The file mode keeps others out; who really connects is asked of the kernel all the same. No client can make the agent
wait or grow: requests are bounded in size and time, and one that follows the log too slowly is dropped with a word.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
import struct
import time
from pathlib import Path
from typing import Any, Protocol

from holdfast.agent.connections import BACKLOG, Connections
from holdfast.agent.console import Entry
from holdfast.agent.control.account import Account, framed, receive
from holdfast.agent.control.answers import PATIENCE, encoded, send
from holdfast.agent.control.chosen import Chosen
from holdfast.agent.control.schema import (
    LIMIT,
    OTHER,
    ControlError,
    Request,
    Response,
    address,
    decode_request,
    encode,
    unix_socket,
)
from holdfast.agent.engine.tables import Rows
from holdfast.agent.host.blocking import Blocking
from holdfast.agent.logs import Logs
from holdfast.agent.places import demand_safe
from holdfast.resources import paths
from holdfast.resources.paths import trusted_uids
from holdfast.states.hostfiles import absolute

QUEUE = 1000
"""Entries of the log that wait for one follower."""
FRAME = 0.1
"""Seconds between two frames of the live view."""
CLIENTS = 64
"""Clients at once."""
_CREDENTIALS = struct.Struct("3i")
"""Process, user and group of a peer."""


class Agent(Protocol):
    """What can be asked of the daemon. Each may raise `ControlError`."""

    def status(self, most: int | None) -> dict[str, Any]:
        """The agent and its health, ready for JSON, and an iterator over its resources: all of them, or `most` and how many there are of each state."""
        ...

    async def pause(self, request: Request) -> dict[str, Any]:
        """Repair nothing of what the request names any more; `text` says until when."""
        ...

    async def resume(self, request: Request) -> dict[str, Any]:
        """Go on; `text` says what is paused still."""
        ...

    async def reload(self) -> dict[str, Any]:
        """Read settings and states again; what is wrong with them is in `problems`."""
        ...

    def recheck(self) -> dict[str, Any]:
        """Look at every resource; `paused` says that this waits."""
        ...

    def look(self, request: Request) -> Any:
        """What `why`, `graph`, `trace` and `metrics` ask for, ready for JSON."""
        ...

    def frame(self) -> dict[str, Any]:
        """What is now, of bounded size: health, the pass, the resources where something happens."""
        ...

    def keeps(self) -> str:
        """Which states, as `Settings.tree` says it."""
        ...

    def rows(self, tree: str) -> Rows | None:
        """What the journal knows now; None for a run of another tree than the agent keeps."""
        ...

    def account(self, pid: int) -> Account:
        """For a one-shot run by this process. Raises `ControlError` while there is another."""
        ...

    async def trigger(self, identity: str) -> dict[str, Any]:
        """Run one resource now; `text` says what came of it, `result` is that of its outcome."""
        ...


class ControlServer:
    """Listens while it is open."""

    def __init__(self, path: Path, agent: Agent, logs: Logs) -> None:
        self.path = path
        self._agent = agent
        self._logs = logs
        self._server: asyncio.Server | None = None
        self._made: tuple[int, int] | None = None
        """Device and inode of the socket."""
        self._connections = Connections(self._read, self._talk, _refusal, CLIENTS)

    async def start(self) -> None:
        """Listen, and no more where it did before. A socket left by an agent that died is replaced: the caller holds the lock.

        Raises `OSError`, also for any other file there, and `HoldfastError` where untrusted users could put one in its place.
        """
        demand_safe(self.path, "listen at", "set another 'control' in agent.yaml")
        paths.make_parents(absolute(self.path))
        place = paths.at(absolute(self.path))
        info = place.look()
        if info is not None and stat.S_ISSOCK(info.st_mode) and info.st_uid in trusted_uids():
            place.unlink()
        listener = unix_socket()
        try:
            os.fchmod(
                listener.fileno(), 0o600
            )  # the file gets this mode from its first moment; the umask is that of other threads, too
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
        """Whether the socket is not the one that was made any more. Blocks."""
        return self._made is None or self._found() != self._made

    def _found(self) -> tuple[int, int] | None:
        try:
            info = paths.at(absolute(self.path)).look()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return None if info is None else (info.st_dev, info.st_ino)

    async def stop(self) -> None:
        """Listen no more, let go of all clients, remove the socket."""
        if self._server is None:
            return
        self._server.close()
        await self._connections.stop()
        with contextlib.suppress(OSError, paths.Unsafe):
            paths.at(absolute(self.path)).unlink()

    @staticmethod
    async def _read(reader: asyncio.StreamReader) -> Request | ControlError:
        """One request, or why it is none."""
        try:
            return decode_request(await asyncio.wait_for(reader.readline(), PATIENCE))
        except ControlError as error:
            return error
        except ValueError:
            return ControlError(f"cannot read the request: it is longer than {LIMIT} bytes", "not-understood")
        except TimeoutError:
            return ControlError(f"cannot wait longer than {PATIENCE:g} s for a request")

    async def _talk(
        self, request: Request | ControlError, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answer it, and close."""
        answer = await self._answer(request, reader, writer)
        await send(answer, lambda: self._logs.redactor, writer)

    async def _answer(
        self, request: Request | ControlError, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> Response:
        try:
            pid = self._check_peer(writer)
            if isinstance(request, ControlError):
                raise request
            return await self._do(request, pid, reader, writer)
        except ControlError as error:
            return Response(ok=False, error=str(error), code=error.code)

    async def _do(
        self, request: Request, pid: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> Response:
        match request.verb:
            case "log":
                return await self._log(request, reader, writer)
            case "watch":
                return await self._frames(reader, writer)
            case "apply" | "plan":
                return await self._beside(request, pid, reader, writer)
        return Response(ok=True, data=await self._data(request))

    async def _data(self, request: Request) -> Any:
        """The answer to a verb that has one."""
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

    async def _log(self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Response:
        """Past entries, then with `follow` each new one until the client goes or cannot keep up."""
        queue: asyncio.Queue[Entry | None] = asyncio.Queue(QUEUE)

        chosen = Chosen(request, time.time())

        def put(entry: Entry) -> None:
            if not chosen(entry):
                return
            if queue.qsize() < QUEUE - 1:
                queue.put_nowait(entry)
            else:
                self._logs.followers.discard(put)
                queue.put_nowait(None)

        kept = list(self._logs.recent)
        if request.seconds is not None and kept and kept[0]["time"] > chosen.since:
            writer.write(encode({"kept": kept[0]["time"]}))
        past = [entry for entry in kept if chosen(entry)][-request.lines :] if request.lines > 0 else []
        writer.writelines(encode({"entry": dict(entry)}) for entry in past)
        if not request.follow:
            return Response(ok=True)
        self._logs.followers.add(put)
        gone = asyncio.create_task(reader.read(1), name="control client")
        try:
            return await self._follow(queue, gone, writer)
        finally:
            self._logs.followers.discard(put)
            gone.cancel()

    async def _beside(
        self, request: Request, pid: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> Response:
        """A run beside the agent is told what the journal knows; `apply` tells what it does, until it ends."""
        rows = self._agent.rows(request.tree)
        if rows is None:
            return Response(ok=True, data=OTHER)
        account = self._agent.account(pid) if request.verb == "apply" else None
        try:
            writer.write(encode({"rows": True}) + await Blocking(1)(framed, rows))
            while account and (message := await receive(reader)) is not None:
                account.take(message, lambda answer: writer.write(encode(answer)))
        finally:
            if account:
                await account.close()
        return Response(ok=True)

    async def _frames(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Response:
        """What is now, again and again until the client goes; one that is slow gets fewer, and nothing that is the same twice."""
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
        return Response(ok=True)

    async def _follow(
        self, queue: asyncio.Queue[Entry | None], gone: asyncio.Task[bytes], writer: asyncio.StreamWriter
    ) -> Response:
        while not gone.done():
            following = asyncio.create_task(queue.get())
            await asyncio.wait({following, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not following.done():
                following.cancel()
                break
            entry = following.result()
            if entry is None:
                return Response(ok=False, error=f"cannot keep up: more than {QUEUE} entries waited for this client")
            writer.write(encode({"entry": dict(entry)}))
            await writer.drain()
        return Response(ok=True)

    def _check_peer(self, writer: asyncio.StreamWriter) -> int:
        """The process at the other end. Refuse everybody but root and the agent's own user."""
        peer: socket.socket = writer.get_extra_info("socket")
        pid, uid, _ = _CREDENTIALS.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        if uid not in trusted_uids():
            raise ControlError(
                f"cannot serve uid {uid}: only root and uid {os.geteuid()} may control this agent", "not-permitted"
            )
        return int(pid)


def _refusal() -> bytes:
    """What a client is told when all places are taken."""
    text = f"cannot serve more than {CLIENTS} clients at once: end some, `holdfast log --follow` or `holdfast watch` perhaps"
    return encode(Response(ok=False, error=text, code="no-agent"))

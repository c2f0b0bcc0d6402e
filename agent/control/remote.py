"""The journal of a one-shot run beside an agent: a copy of the agent's, which gets all changes (`journal_session`)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from holdfast.agent.control.client import reached
from holdfast.agent.control.internal import PlanBeside
from holdfast.agent.control.journal_session import MOST, REPEATED, message, receive
from holdfast.agent.control.request import ControlRequest
from holdfast.agent.control.schema import LIMIT, OTHER, ControlError, encode, unix_socket
from holdfast.agent.engine.deliver.journal import Journal
from holdfast.agent.engine.deliver.store import Unwritable
from holdfast.agent.engine.deliver.tables import Rows
from holdfast.agent.engine.model.edge_keys import Adoption, Edge
from holdfast.states.requisite_kinds import ON_FAILURE

WHOLE = 10**9
"""Most bytes of a journal."""
ANSWER = 30.0
"""Seconds within which the agent must start to answer, as for any other request."""
SLOW = 10.0
"""Seconds of waiting for the agent after which the run reports the wait."""
TIMEOUT = 10.0
"""Seconds that the agent may take to write the rest when a run ends."""
STOPPED = "the agent has stopped"


class OtherStates(ControlError):
    """The states of the agent are not those of the run."""


class Unreachable(ControlError):
    """No agent listens."""


class AgentConnection:
    """The connection to the agent. Made with `connected`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reports = False
        """Whether the agent wants to know of each change; an older agent, before an upgrade, does not."""
        self.broken = ""
        """Why messages are no longer sent; empty while the connection works."""
        self.lost: Callable[[], object] = lambda: None
        """Called if the agent disconnects before the run has ended."""
        self.waits: Callable[[str], object] = lambda key: None  # noqa: ARG005 - the key of a resource
        """Called with the key of a resource if the agent takes long to let the run change the resource."""
        self._reader, self._writer = reader, writer
        self._asked: dict[str, asyncio.Future[str]] = {}
        """Key -> reply of the agent: the reason of a refusal, or empty."""
        self._unsure: list[bytes] = []
        """Messages that may not be on the agent's disk yet and can be repeated."""
        self._safe = 0
        """Number of earlier messages, which are on the disk."""
        self._over: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._listening: asyncio.Task[None] | None = None

    async def begin(self) -> Rows:
        """Return the content of the agent's journal. Raises `ControlError`, for example `OtherStates`."""
        said, rows = await self._greeting()
        if not isinstance(said, dict) or (said.get("rows") and not isinstance(rows, dict)):
            raise ControlError(STOPPED)
        if said.get("data") == OTHER:
            raise OtherStates("the agent manages other states")
        if not isinstance(rows, dict):
            raise ControlError(said.get("error") or "it is of another version; restart it")
        self.reports = bool(said.get("reports"))
        self._listening = asyncio.create_task(self._listen(), name="answers of the agent")
        return rows

    async def _greeting(self) -> tuple[Any, Any]:
        """Return the agent's response and, if it announces one, its journal. Raises `ControlError`."""
        try:
            async with asyncio.timeout(ANSWER):
                said = json.loads(await self._reader.readline() or "null")
                if not isinstance(said, dict) or not said.get("rows"):
                    return said, None
                return said, json.loads(await receive(self._reader, WHOLE) or b"null")
        except TimeoutError as error:
            raise ControlError(f"the agent has not answered for {ANSWER:g} s; check or stop it") from error
        except OSError as error:
            raise ControlError(str(error)) from error
        except ValueError as error:
            raise ControlError(f"cannot understand the agent: {error}") from error

    def tell(self, operation: str, *arguments: Any) -> None:
        """Send an operation. A message that is too long is not sent: the agent then finds the change by its checks."""
        text = message(operation, *arguments)
        if len(text) <= MOST:
            self.repeat([text] if operation in REPEATED else [])
            if operation not in REPEATED:
                self._write(text)

    def repeat(self, messages: Iterable[bytes]) -> None:
        """Send messages that can be repeated."""
        for text in messages:
            self._unsure.append(text)
            self._write(text)

    async def ask(self, operation: str, key: str, *arguments: Any) -> None:
        """Send an operation, and wait until the agent has carried out this and all earlier messages.

        Raises `Unwritable` if the agent has disconnected or refuses.
        """
        text = message(operation, key, *arguments)
        if len(text) > MOST:
            raise Unwritable(f"the agent accepts at most {MOST} bytes at once, and this message is longer")
        if self.broken:
            raise Unwritable(self.broken)
        answered = self._asked[key] = asyncio.get_running_loop().create_future()
        before = self._safe + len(self._unsure)
        self._write(text)
        slow = asyncio.get_running_loop().call_later(SLOW, self.waits, key)
        try:
            why = await answered
        finally:
            slow.cancel()
            self._asked.pop(key, None)
        if why:
            raise Unwritable(why)
        del self._unsure[: max(0, before - self._safe)]
        self._safe = max(self._safe, before)

    async def end(self) -> list[bytes]:
        """End the run. Returns the messages that the agent may not have written; none if the session ends regularly."""
        self.lost = lambda: None
        self._write(b"\n")
        try:
            async with asyncio.timeout(TIMEOUT):
                self.broken = await asyncio.shield(self._over)
        except TimeoutError:
            self.broken = f"it does not answer for {TIMEOUT:g} s"
        if self._listening:
            self._listening.cancel()
        self._writer.close()
        return self._unsure if self.broken else []

    def _write(self, text: bytes) -> None:
        if not self.broken:
            self._writer.write(text)

    async def _listen(self) -> None:
        """Read the agent's replies until its last one, or until it disconnects."""
        why = await self._last_reply()
        self.broken = why
        self._over.set_result(why)
        for asked in self._asked.values():
            if not asked.done():
                asked.set_result(why or STOPPED)
        if why:
            self.lost()

    async def _last_reply(self) -> str:
        """Pass each reply to the call that waits for it; return why the agent has ended the session.

        Empty if the session has ended regularly.
        """
        try:
            while isinstance(said := json.loads(await self._reader.readline() or "null"), dict):
                if "ok" in said:
                    return "" if said["ok"] else str(said.get("error"))
                if (asked := self._asked.pop(str(said.get("done")), None)) and not asked.done():
                    asked.set_result(str(said.get("error", "")))
        except OSError:
            pass  # treated as if the agent had sent nothing
        except ValueError as error:
            return f"cannot understand the agent: {error}"
        return STOPPED


class RemoteJournal(Journal):
    """A copy of the agent's journal. Failures are not reported here: the agent sees them itself."""

    def __init__(self, copied: Rows, line: AgentConnection) -> None:
        super().__init__(copied=copied)
        self.line = line

    def adopt(
        self,
        edges: Iterable[Edge],
        declared: Mapping[str, str],
        others: Iterable[tuple[str, str]] = (),
        *,
        whole: bool = True,  # noqa: ARG002 - as any journal
    ) -> Adoption:
        """Adopt edges. Only the agent forgets edges and resources that are no longer declared."""
        before = self._ends.keys()
        adoption = super().adopt(edges, declared, others, whole=False)
        if new := {key: (end.thing, end.identity) for key, end in self._ends.items() if key not in before}:
            self.line.tell("name", new)
        return adoption

    async def announce(self, identity: str, edges: Iterable[Edge]) -> None:
        """Wait until the agent has the intent on its disk. Raises `Unwritable`."""
        if not self.intended(identity):
            carriers = [*edges]
            try:
                await self.line.ask("intend", identity, carriers)
            except asyncio.CancelledError:
                self.line.tell("unchanged", identity)
                raise
            self.intend(identity, carriers)

    def changed(self, identity: str, edges: Iterable[Edge] = ()) -> None:
        """Record that the resource was changed."""
        carriers = [*edges]
        super().changed(identity, carriers)
        self.line.tell("changed", identity, carriers)

    def unchanged(self, identity: str) -> None:
        """Record that the resource was not changed."""
        if self.intended(identity):
            self.line.tell("unchanged", identity)
        super().unchanged(identity)

    def deliver(self, seen: Iterable[tuple[Edge, int]]) -> None:
        """Record that the downstream has acted on changes."""
        counts = [*seen]
        super().deliver(counts)
        if told := [(edge, count) for edge, count in counts if count and edge[2] not in ON_FAILURE]:
            self.line.tell("deliver", told)

    def done(self, identity: str, digest: str, at: float) -> None:
        """Record that an action has succeeded."""
        super().done(identity, digest, at)
        self.line.tell("done", identity, digest, at)

    def send(self, identity: str, values: Mapping[str, Any]) -> None:
        """Record values that a resource has sent."""
        super().send(identity, values)
        self.line.tell("send", identity, dict(values))

    def receive(self, identity: str, digests: Mapping[str, str]) -> None:
        """Record that a resource has run successfully with these values."""
        super().receive(identity, digests)
        self.line.tell("receive", identity, dict(digests))


async def connected(socket: Path, request: ControlRequest) -> tuple[AgentConnection, Rows]:
    """Return a connection to the agent at `socket` for a run of this request, and the content of its journal.

    Raises `ControlError`: `Unreachable` if there is no agent, `OtherStates` if the agent manages other states.
    """
    loop, connection = asyncio.get_running_loop(), unix_socket()
    connection.setblocking(False)
    try:
        with reached(socket) as name:
            await loop.sock_connect(connection, name)
        with suppress(ConnectionError):  # the agent has already sent the reason of its refusal
            await loop.sock_sendall(connection, encode(request.message()))
    except BaseException as error:
        connection.close()
        if isinstance(error, ControlError) and isinstance(error.__cause__, OSError):
            raise Unreachable(str(error)) from error
        raise
    reader, writer = await asyncio.open_unix_connection(sock=connection, limit=LIMIT)
    try:
        line = AgentConnection(reader, writer)
        return line, await line.begin()
    except BaseException:
        writer.close()
        raise


async def known(socket: Path, tree: str) -> Rows:
    """Return the content of the agent's journal, for a run that changes nothing. Raises `ControlError`."""
    line, rows = await connected(socket, PlanBeside(tree))
    await line.end()
    return rows

"""The journal of a one-shot run beside a running agent: a copy of the agent's, all changes of which are told to the agent (`account`)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from holdfast.agent.control.account import MOST, REPEATED, message, receive
from holdfast.agent.control.client import reached
from holdfast.agent.control.schema import LIMIT, OTHER, ControlError, Request, Verb, encode, unix_socket
from holdfast.agent.engine.ends import Edge
from holdfast.agent.engine.journal import Adoption, Journal
from holdfast.agent.engine.store import Unwritable
from holdfast.agent.engine.tables import Rows

WHOLE = 10**9
"""Most bytes of a journal."""
ANSWER = 30.0
"""Seconds within which the agent must begin to talk: as for any other request."""
SLOW = 10.0
"""Seconds of waiting for the agent after which it is told that there is a wait."""
PATIENCE = 10.0
"""Seconds that the agent may take to write down the rest when a run ends."""
STOPPED = "the agent has stopped"


class OtherStates(ControlError):
    """The agent keeps other states than the run works on."""


class Unreachable(ControlError):
    """No agent listens."""


class Line:
    """The connection to the agent. Made with `connected`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.broken = ""
        """Why the agent is told nothing any more."""
        self.lost: Callable[[], object] = lambda: None
        """Called when the agent goes away before the run has ended."""
        self.waits: Callable[[str], object] = lambda key: None  # noqa: ARG005 - the key of what is to be changed
        """Called when the agent takes long to let the run change something."""
        self._reader, self._writer = reader, writer
        self._asked: dict[str, asyncio.Future[str]] = {}
        """What the agent has to answer -> why it cannot be done; empty when it is."""
        self._unsure: list[bytes] = []
        """What was told that may not be on the disk yet, and can be repeated."""
        self._safe = 0
        """How many such messages there were before."""
        self._over: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._listening: asyncio.Task[None] | None = None

    async def begin(self) -> Rows:
        """What the agent's journal knows. Raises `ControlError`, `OtherStates` among them."""
        try:
            async with asyncio.timeout(ANSWER):
                said = json.loads(await self._reader.readline() or "null")
                rows = (
                    json.loads(await receive(self._reader, WHOLE) or b"null")
                    if isinstance(said, dict) and said.get("rows")
                    else None
                )
        except TimeoutError as error:
            raise ControlError(f"the agent does not answer for {ANSWER:g} s; see what it does, or end it") from error
        except OSError as error:
            raise ControlError(str(error)) from error
        except ValueError as error:
            raise ControlError(f"cannot understand the agent: {error}") from error
        if not isinstance(said, dict) or (said.get("rows") and not isinstance(rows, dict)):
            raise ControlError(STOPPED)
        if said.get("data") == OTHER:
            raise OtherStates("the agent keeps other states")
        if not isinstance(rows, dict):
            raise ControlError(said.get("error") or "it is of another version; restart it")
        self._listening = asyncio.create_task(self._listen(), name="answers of the agent")
        return rows

    def tell(self, operation: str, *arguments: Any) -> None:
        """Have the agent do this. What is too long is not told: the agent then does its own part again."""
        text = message(operation, *arguments)
        if len(text) <= MOST:
            self.repeat([text] if operation in REPEATED else [])
            if operation not in REPEATED:
                self._write(text)

    def repeat(self, messages: Iterable[bytes]) -> None:
        """Tell what can be told again."""
        for text in messages:
            self._unsure.append(text)
            self._write(text)

    async def ask(self, operation: str, key: str, *arguments: Any) -> None:
        """Have the agent do this, and wait until it is done, with all that was told before. Raises `Unwritable` when the agent is gone, or cannot."""
        text = message(operation, key, *arguments)
        if len(text) > MOST:
            raise Unwritable(f"the agent takes at most {MOST} bytes at once, and more is to be written down")
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
        """All is told. What the agent may not have written down; nothing if it ends in order."""
        self.lost = lambda: None
        self._write(b"\n")
        try:
            async with asyncio.timeout(PATIENCE):
                self.broken = await asyncio.shield(self._over)
        except TimeoutError:
            self.broken = f"it does not answer for {PATIENCE:g} s"
        if self._listening:
            self._listening.cancel()
        self._writer.close()
        return self._unsure if self.broken else []

    def _write(self, text: bytes) -> None:
        if not self.broken:
            self._writer.write(text)

    async def _listen(self) -> None:
        """Take the agent's answers until it has said its last word, or is gone."""
        why = STOPPED
        try:
            while isinstance(said := json.loads(await self._reader.readline() or "null"), dict):
                if "ok" in said:
                    why = "" if said["ok"] else str(said.get("error"))
                    break
                if (asked := self._asked.pop(str(said.get("done")), None)) and not asked.done():
                    asked.set_result(str(said.get("error", "")))
        except OSError:
            pass  # as when it says nothing
        except ValueError as error:
            why = f"cannot understand the agent: {error}"
        self.broken = why
        self._over.set_result(why)
        for asked in self._asked.values():
            if not asked.done():
                asked.set_result(why or STOPPED)
        if why:
            self.lost()


class RemoteJournal(Journal):
    """A copy of the agent's journal. Failures are not told: the agent sees them itself."""

    def __init__(self, copied: Rows, line: Line) -> None:
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
        """Only the agent forgets what is gone."""
        before = self._ends.keys()
        adoption = super().adopt(edges, declared, others, whole=False)
        if new := {key: (end.thing, end.identity) for key, end in self._ends.items() if key not in before}:
            self.line.tell("name", new)
        return adoption

    async def announce(self, identity: str, edges: Iterable[Edge]) -> None:
        """The agent knows, and has it on the disk. Raises `Unwritable`."""
        if not self.intended(identity):
            carriers = [*edges]
            try:
                await self.line.ask("intend", identity, carriers)
            except asyncio.CancelledError:
                self.line.tell("unchanged", identity)
                raise
            self.intend(identity, carriers)

    def changed(self, identity: str, edges: Iterable[Edge] = ()) -> None:
        """It was changed."""
        carriers = [*edges]
        super().changed(identity, carriers)
        self.line.tell("changed", identity, carriers)

    def unchanged(self, identity: str) -> None:
        """It was not."""
        if self.intended(identity):
            self.line.tell("unchanged", identity)
        super().unchanged(identity)

    def deliver(self, seen: Iterable[tuple[Edge, int]]) -> None:
        """The downstream has acted on changes."""
        counts = [*seen]
        super().deliver(counts)
        if told := [(edge, count) for edge, count in counts if count and edge[2] != "onfail"]:
            self.line.tell("deliver", told)

    def done(self, identity: str, digest: str, at: float) -> None:
        """An action has succeeded."""
        super().done(identity, digest, at)
        self.line.tell("done", identity, digest, at)

    def send(self, identity: str, values: Mapping[str, Any]) -> None:
        """A resource has sent values."""
        super().send(identity, values)
        self.line.tell("send", identity, dict(values))

    def receive(self, identity: str, digests: Mapping[str, str]) -> None:
        """A resource has run well with these values."""
        super().receive(identity, digests)
        self.line.tell("receive", identity, dict(digests))


async def connected(socket: Path, verb: Verb, tree: str) -> tuple[Line, Rows]:
    """A connection to the agent that listens at `socket`, and what its journal knows. `tree` says what the run works on.

    Raises `ControlError`: `Unreachable` when there is no agent, `OtherStates` when it keeps others.
    """
    loop, connection = asyncio.get_running_loop(), unix_socket()
    connection.setblocking(False)
    try:
        with reached(socket) as name:
            await loop.sock_connect(connection, name)
        with suppress(ConnectionError):  # an agent that refuses it has said why already
            await loop.sock_sendall(connection, encode(Request(verb, tree=tree)))
    except BaseException as error:
        connection.close()
        if isinstance(error, ControlError) and isinstance(error.__cause__, OSError):
            raise Unreachable(str(error)) from error
        raise
    reader, writer = await asyncio.open_unix_connection(sock=connection, limit=LIMIT)
    try:
        line = Line(reader, writer)
        return line, await line.begin()
    except BaseException:
        writer.close()
        raise


async def known(socket: Path, tree: str) -> Rows:
    """What the agent's journal knows, for a run that only looks. Raises `ControlError`."""
    line, rows = await connected(socket, "plan", tree)
    await line.end()
    return rows

"""The journal of a one-shot run beside a running agent: a copy of the agent's, all changes of which are told to the agent (`account`)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from holdfast.agent.control.account import MOST, message, receive
from holdfast.agent.control.client import reached
from holdfast.agent.control.schema import LIMIT, ControlError, Request, encode
from holdfast.agent.engine.ends import Edge
from holdfast.agent.engine.journal import Adoption, Journal
from holdfast.agent.engine.report import Notice
from holdfast.agent.engine.store import Unwritable
from holdfast.agent.engine.tables import Rows

WHOLE = 10**9
"""Most bytes of a journal."""
ANSWER = 30.0
"""Seconds within which the agent must begin to talk: as for any other request."""
PATIENCE = 10.0
"""Seconds that the agent may take to write down the rest when a run ends."""


class Silent(ControlError):
    """The agent is there, and does not answer: it is stopped, or hangs."""


class Line:
    """The connection to the agent."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._turn = asyncio.Lock()
        self._broken = ""
        """Why the agent is told nothing any more."""

    async def begin(self) -> Rows:
        """What the agent's journal knows. Raises `ControlError`."""
        try:
            async with asyncio.timeout(ANSWER):
                await self.heard()
                found: Rows = json.loads(await receive(self._reader, WHOLE) or b"")
        except TimeoutError as error:
            raise Silent(f"the agent does not answer for {ANSWER:g} s; see what it does, or end it") from error
        except OSError as error:
            raise ControlError(str(error)) from error
        except ValueError as error:
            raise ControlError(f"cannot understand the agent: {error}") from error
        return found

    def tell(self, operation: str, *arguments: Any) -> None:
        """Have the agent do this. What is too long is not told: the agent then does its own part again."""
        self._send(operation, *arguments)

    async def ask(self, operation: str, *arguments: Any) -> None:
        """Likewise, and wait until it is done. Raises `Unwritable` when the agent is gone, or cannot."""
        async with self._turn:
            if not self._send(operation, *arguments):
                raise Unwritable(f"the agent takes at most {MOST} bytes at once, and more is to be written down")
            await self.heard()

    def _send(self, operation: str, *arguments: Any) -> bool:
        """Whether it was short enough to be sent."""
        text = message(operation, *arguments)
        if len(text) <= MOST:
            self._writer.write(text)
        return len(text) <= MOST

    async def heard(self) -> None:
        """Have all sent, and wait for the next word of the agent. Raises `Unwritable`, unless it is a good one; from then on always."""
        if self._broken:
            raise Unwritable(self._broken)
        said: Any = None
        try:
            await self._writer.drain()
            said = json.loads(await self._reader.readline() or "null")
        except ConnectionError:
            pass  # as when it says nothing
        except ValueError as error:
            self._broken = f"cannot understand the agent: {error}"
        if not isinstance(said, dict) or not (said.get("done") or said.get("ok")):
            self._broken = self._broken or str((isinstance(said, dict) and said.get("error")) or "the agent has stopped")
            raise Unwritable(self._broken)

    async def end(self) -> None:
        """All is told. Raises `Unwritable` if the agent has not taken it."""
        self._writer.write(b"\n")
        await self.heard()


class RemoteJournal(Journal):
    """A copy of the agent's journal. Failures are not told: the agent sees them itself."""

    def __init__(self, copied: Rows, line: Line) -> None:
        super().__init__(copied=copied)
        self._line = line

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
            self._line.tell("name", new)
        return adoption

    async def announce(self, identity: str, edges: Iterable[Edge]) -> None:
        """The agent knows, and has it on the disk. Raises `Unwritable`."""
        if not self.intended(identity):
            carriers = [*edges]
            await self._line.ask("intend", identity, carriers)
            self.intend(identity, carriers)

    def changed(self, identity: str, edges: Iterable[Edge] = ()) -> None:
        """It was changed."""
        carriers = [*edges]
        super().changed(identity, carriers)
        self._line.tell("changed", identity, carriers)

    def unchanged(self, identity: str) -> None:
        """It was not."""
        if self.intended(identity):
            self._line.tell("unchanged", identity)
        super().unchanged(identity)

    def deliver(self, seen: Iterable[tuple[Edge, int]]) -> None:
        """The downstream has acted on changes."""
        counts = [*seen]
        super().deliver(counts)
        if told := [(edge, count) for edge, count in counts if count and edge[2] != "onfail"]:
            self._line.tell("deliver", told)

    def done(self, identity: str, digest: str, at: float) -> None:
        """An action has succeeded."""
        super().done(identity, digest, at)
        self._line.tell("done", identity, digest, at)

    def send(self, identity: str, values: Mapping[str, Any]) -> None:
        """A resource has sent values."""
        super().send(identity, values)
        self._line.tell("send", identity, dict(values))

    def receive(self, identity: str, digests: Mapping[str, str]) -> None:
        """A resource has run well with these values."""
        super().receive(identity, digests)
        self._line.tell("receive", identity, dict(digests))


@asynccontextmanager
async def beside(socket: Path, tree: str, emit: Callable[[Notice], None]) -> AsyncIterator[Journal]:
    """The journal of a run beside the agent that listens at `socket`. `tree` says what is applied.

    Raises `ControlError` when there is no agent, or it keeps other states; `Silent` when it does not answer.
    """
    with reached(socket) as name:
        reader, writer = await asyncio.open_unix_connection(name, limit=LIMIT)
    try:
        line = Line(reader, writer)
        writer.write(encode(Request("apply", tree=tree)))
        remote = RemoteJournal(await line.begin(), line)
        try:
            yield remote
        finally:
            await _end(line, emit)
    finally:
        writer.close()


async def _end(line: Line, emit: Callable[[Notice], None]) -> None:
    """What was told is safe, or it is said that it may not be."""
    try:
        async with asyncio.timeout(PATIENCE):
            await line.end()
    except OSError as error:
        why = str(error) or f"it does not answer for {PATIENCE:g} s"
        emit(
            Notice(
                "warning", "agent-gone", "", f"cannot tell the agent what was done: {why}; it finds out itself, and may do some of it again"
            )
        )

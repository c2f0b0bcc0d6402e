"""The agent's end of a one-shot run beside it: writes the run's changes to the journal. `remote` is the other end.

Each message is a line with the length of its JSON, then the JSON: `[operation, arguments...]`. The operations are named
as those of the journal. The agent answers `intend` when the intent and all earlier messages are on the disk, or with
the reason of a failure. If a run ends with an open intent, for example because it was killed, the change counts as
made. Operations in `REPEATED` can be sent again, to another agent or to the file, with the same effect.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from typing import Any, Protocol

from pydantic import FiniteFloat, TypeAdapter, ValidationError

from holdfast.agent.control.connection import ClientConnection, Peer
from holdfast.agent.control.schema import ControlError
from holdfast.agent.engine.deliver.journal import Journal
from holdfast.agent.engine.deliver.store import Unwritable
from holdfast.agent.engine.model.edge_keys import Edge
from holdfast.agent.host.blocking import Blocking
from holdfast.agent.loggers import LazyLogger

log = LazyLogger("holdfast")

MOST = 4 * 1024 * 1024
"""Most bytes of a message."""
DIGITS = 10
"""Most bytes of the line with the length."""
REPORT = "report"
"""Operation that is not of the journal: the run has changed the resource of this identity, and the agent logs it."""
SHAPES: Mapping[str, Any] = {
    "name": tuple[dict[str, tuple[str, str]]],
    "intend": tuple[str, list[Edge]],
    "changed": tuple[str, list[Edge]],
    "unchanged": tuple[str],
    "deliver": tuple[list[tuple[Edge, int]]],
    "done": tuple[str, str, FiniteFloat],
    "send": tuple[str, dict[str, Any]],
    "receive": tuple[str, dict[str, str]],
    REPORT: tuple[str],
}
"""Operation -> types of its arguments."""
REPEATED = frozenset({"name", "deliver", "done", "send", "receive"})
"""Operations without an intent. Changes need no repetition: an open intent counts as a change when the agent ends."""


@cache
def _shape(operation: str) -> TypeAdapter[Any]:
    """Return the validator of the arguments of an operation."""
    return TypeAdapter(SHAPES[operation])


class ReservingEngine(Protocol):
    """The part of the engine that a session uses."""

    async def reserve(self, keys: Sequence[str]) -> None:
        """Reserve these resources for the run."""
        ...

    def unreserve(self, keys: Sequence[str]) -> None:
        """Manage these resources again."""
        ...


class JournalSessions:
    """The sessions of one agent; at most one at a time, because two runs could undo each other's changes."""

    def __init__(self, journal: Journal, engine: ReservingEngine) -> None:
        self._journal, self._engine = journal, engine
        self._session: JournalSession | None = None
        """The last session."""

    async def send_journal(self, client: ClientConnection) -> None:
        """Send the content of the journal."""
        client.send({"rows": True, "reports": True}, await Blocking(1)(framed, self._journal.rows()))

    async def serve(self, client: ClientConnection) -> None:
        """Send the journal, then receive changes until the run ends. Raises `ControlError` while there is another."""
        session = self._begin(client.peer)
        try:
            await self.send_journal(client)
            while (message := await receive(client.reader)) is not None:
                session.take(message, client.send)
        finally:
            await session.close()

    def _begin(self, peer: Peer) -> JournalSession:
        other = self._session
        if other and not other.closed:
            since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(other.since))
            raise ControlError(
                f"another apply (process {other.peer.pid}) has been running since {since}; "
                "wait until it has ended, or stop it"
            )
        self._session = JournalSession(self._journal, self._engine, peer)
        return self._session


class JournalSession:
    """The session of one run, for as long as its connection lasts."""

    def __init__(self, journal: Journal, engine: ReservingEngine, peer: Peer) -> None:
        self.peer, self.since, self.closed = peer, time.time(), False
        self._journal = journal
        self._engine = engine
        self._asked: dict[str, asyncio.Task[None]] = {}
        """Resource -> the task that will answer its intent."""
        self._open: dict[str, list[Edge]] = {}
        """Resource that the run may be changing now -> its edges."""
        self._reserved: dict[str, None] = {}
        """Keys of all resources that the run may have changed, and of their downstreams, which the run refreshes
        itself."""

    def take(self, message: bytes, answer: Callable[[dict[str, Any]], object]) -> None:
        """Carry out a message. An intent is answered later and does not delay other messages. Raises `ControlError`."""
        operation, arguments = _read(message)
        if operation == "intend":
            key, edges = arguments
            task = asyncio.create_task(self._intend(key, edges, answer, self._asked.get(key)), name="intent of a run")
            self._asked[key] = task
            task.add_done_callback(partial(self._answered, key))
        elif operation == REPORT:
            (identity,) = arguments
            log.info("changed %s (%s)", identity, self._by, resource=identity, cause="command")
        elif operation == "unchanged" and arguments[0] in self._asked:
            self._asked[arguments[0]].cancel()  # the run gave up waiting
        else:
            if operation in ("changed", "unchanged"):
                self._open.pop(arguments[0], None)
            getattr(self._journal, operation)(*arguments)

    @property
    def _by(self) -> str:
        """Description of the run that changes resources in this session."""
        return f"holdfast apply by uid {self.peer.uid}, process {self.peer.pid}"

    def _answered(self, key: str, task: asyncio.Task[None]) -> None:
        if self._asked.get(key) is task:
            del self._asked[key]

    async def _intend(
        self, key: str, edges: list[Edge], answer: Callable[[dict[str, Any]], object], before: asyncio.Task[None] | None
    ) -> None:
        """Answer when the run has the resource and the intent is on the disk.

        A cancelled intent `before` ends first.
        """
        error = ""
        if before:
            await asyncio.wait([before])
        try:
            new = [each for each in dict.fromkeys((key, *(edge[1] for edge in edges))) if each not in self._reserved]
            self._reserved.update(dict.fromkeys(new))
            await self._engine.reserve(new)
            try:
                await self._journal.announce(key, edges)
            except asyncio.CancelledError:
                self._journal.unchanged(key)
                raise
            self._open[key] = edges
        except Unwritable as refused:
            error = str(refused)
        answer({"done": key, "error": error})

    async def close(self) -> None:
        """End the session, also if the run has ended without closing it."""
        asked = [*self._asked.values()]
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
        for key, edges in self._open.items():
            log.warning("%s ended while it changed %s; that counts as changed", self._by, key)
            self._journal.changed(key, edges)
        self._open.clear()
        self._engine.unreserve([*self._reserved])
        self.closed = True


def repeat(journal: Journal, messages: Iterable[bytes]) -> None:
    """Carry out messages that an agent may not have written to its journal."""
    for each in messages:
        operation, arguments = _read(each.partition(b"\n")[2])
        getattr(journal, operation)(*arguments)


def _read(message: bytes) -> tuple[str, tuple[Any, ...]]:
    try:
        operation, *arguments = json.loads(message)
        json.dumps(arguments, ensure_ascii=False).encode()  # invalid text cannot be stored
        return operation, _shape(operation).validate_python(tuple(arguments))
    except (ValueError, TypeError, KeyError, RecursionError, ValidationError):
        raise ControlError("cannot read a message of the run: it is invalid or of another version") from None


async def receive(reader: asyncio.StreamReader, most: int = MOST) -> bytes | None:
    """Return the next message, of at most `most` bytes; None at the end. Raises `ControlError`."""
    try:
        line = await reader.readline()
        if not line.strip():
            return None
        size = int(line) if len(line) <= DIGITS and line[:-1].isdigit() else most + 1
        if size <= most:
            return await reader.readexactly(size)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    except ValueError:
        pass  # an endless line
    raise ControlError(f"cannot read a message of the run: its length is missing or above {most}")


def message(operation: str, *arguments: Any) -> bytes:
    """Return the message for one operation."""
    return framed([operation, *arguments])


def framed(value: Any) -> bytes:
    """Return a message with any content."""
    text = json.dumps(value).encode()
    return b"%d\n%b" % (len(text), text)

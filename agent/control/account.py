"""What a one-shot run beside the agent does to the agent's journal, message by message; the other end is `remote`.

Each message is the length of its JSON in a line, and the JSON: `[operation, arguments...]`, named as the journal names it. `intend` is answered when
the intent is on the disk, and with it all that was told before; or with the reason why it cannot be. A run that ends with an intent open, killed
perhaps, counts as having made the change. `REPEATED` operations can be told again, to another agent or to the file, with the same effect.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from typing import Any, Protocol

from pydantic import FiniteFloat, TypeAdapter, ValidationError

from holdfast.agent.control.schema import ControlError
from holdfast.agent.engine.ends import Edge
from holdfast.agent.engine.journal import Journal
from holdfast.agent.engine.store import Unwritable
from holdfast.agent.loggers import Late

log = Late("holdfast")

MOST = 4 * 1024 * 1024
"""Bytes that a message may have."""
DIGITS = 10
"""Bytes of the line that says how many."""
SHAPES: Mapping[str, Any] = {
    "name": tuple[dict[str, tuple[str, str]]],
    "intend": tuple[str, list[Edge]],
    "changed": tuple[str, list[Edge]],
    "unchanged": tuple[str],
    "deliver": tuple[list[tuple[Edge, int]]],
    "done": tuple[str, str, FiniteFloat],
    "send": tuple[str, dict[str, Any]],
    "receive": tuple[str, dict[str, str]],
}
"""Operation -> its arguments."""
REPEATED = frozenset({"name", "deliver", "done", "send", "receive"})
"""Operations that need no intent. A change needs no repetition: its intent is on the disk, and counts as the change when the agent ends."""


@cache
def _shape(operation: str) -> TypeAdapter[Any]:
    """What checks the arguments of an operation."""
    return TypeAdapter(SHAPES[operation])


class Lender(Protocol):
    """The part of the engine that a run beside it needs."""

    async def lend(self, keys: Sequence[str]) -> None:
        """Leave these resources alone."""
        ...

    def take_back(self, keys: Sequence[str]) -> None:
        """Care for them again."""
        ...


class Account:
    """The account of one run, for as long as its connection lasts. There is one at a time."""

    def __init__(self, journal: Journal, lender: Lender, pid: int = 0) -> None:
        self.pid, self.since, self.closed = pid, time.time(), False
        self._journal = journal
        self._lender = lender
        self._asked: dict[str, asyncio.Task[None]] = {}
        """Intents that are not answered yet."""
        self._open: dict[str, list[Edge]] = {}
        """What the run may be changing now -> the edges that carry it."""
        self._lent: dict[str, None] = {}
        """Keys of all that it may have changed, and of those that are to be told: the run tells them itself."""

    def take(self, message: bytes, answer: Callable[[dict[str, Any]], object]) -> None:
        """Do as the run says; an intent is answered later, and holds up nothing else. Raises `ControlError`."""
        operation, arguments = _read(message)
        if operation == "intend":
            key, edges = arguments
            task = asyncio.create_task(self._intend(key, edges, answer, self._asked.get(key)), name="intent of a run")
            self._asked[key] = task
            task.add_done_callback(partial(self._answered, key))
        elif operation == "unchanged" and arguments[0] in self._asked:
            self._asked[arguments[0]].cancel()  # the run was ended while it waited
        else:
            if operation in ("changed", "unchanged"):
                self._open.pop(arguments[0], None)
            getattr(self._journal, operation)(*arguments)

    def _answered(self, key: str, task: asyncio.Task[None]) -> None:
        if self._asked.get(key) is task:
            del self._asked[key]

    async def _intend(
        self, key: str, edges: list[Edge], answer: Callable[[dict[str, Any]], object], before: asyncio.Task[None] | None
    ) -> None:
        """Answer when the resource is the run's own, and the intent on the disk; one `before` for the same resource was given up, and ends first."""
        error = ""
        if before:
            await asyncio.wait([before])
        try:
            new = [each for each in dict.fromkeys((key, *(edge[1] for edge in edges))) if each not in self._lent]
            self._lent.update(dict.fromkeys(new))
            await self._lender.lend(new)
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
        """The run has ended, in order or not."""
        asked = [*self._asked.values()]
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
        for key, edges in self._open.items():
            log.warning("a run beside the agent ended while it changed %s; that counts as changed", key)
            self._journal.changed(key, edges)
        self._open.clear()
        self._lender.take_back([*self._lent])
        self.closed = True


def repeat(journal: Journal, messages: Iterable[bytes]) -> None:
    """Do what a run has told an agent that may not have written it down."""
    for each in messages:
        operation, arguments = _read(each.partition(b"\n")[2])
        getattr(journal, operation)(*arguments)


def _read(message: bytes) -> tuple[str, tuple[Any, ...]]:
    try:
        operation, *arguments = json.loads(message)
        json.dumps(arguments, ensure_ascii=False).encode()  # what is no text cannot be written down
        return operation, _shape(operation).validate_python(tuple(arguments))
    except (ValueError, TypeError, KeyError, RecursionError, ValidationError):
        raise ControlError("cannot read a message of the run: it is of another version, or none") from None


async def receive(reader: asyncio.StreamReader, most: int = MOST) -> bytes | None:
    """The next message, of at most so many bytes; None when there are no more. Raises `ControlError`."""
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
        pass  # a line without end
    raise ControlError(f"cannot read a message of the run: its length is none, or above {most}")


def message(operation: str, *arguments: Any) -> bytes:
    """One operation as its message."""
    return framed([operation, *arguments])


def framed(value: Any) -> bytes:
    """A message of any content."""
    text = json.dumps(value).encode()
    return b"%d\n%b" % (len(text), text)

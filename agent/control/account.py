"""What a one-shot run beside the agent does to the agent's journal, message by message; the other end is `remote`.

Each message is the length of its JSON in a line, and the JSON: `[operation, arguments...]`, named as the journal names it. `intend` is acknowledged when
the intent is on the disk. A run that ends with an intent open, killed perhaps, counts as having made the change.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import structlog
from pydantic import FiniteFloat, TypeAdapter, ValidationError

from holdfast.agent.control.schema import ControlError
from holdfast.agent.engine.ends import Edge
from holdfast.agent.engine.journal import Journal
from holdfast.agent.engine.store import Unwritable
from holdfast.agent.host.blocking import Blocking

log = structlog.get_logger("holdfast")

MOST = 4 * 1024 * 1024
"""Bytes that a message may have."""
DIGITS = 10
"""Bytes of the line that says how many."""
SHAPES: Mapping[str, TypeAdapter[Any]] = {
    "name": TypeAdapter(tuple[dict[str, tuple[str, str]]]),
    "intend": TypeAdapter(tuple[str, list[Edge]]),
    "changed": TypeAdapter(tuple[str, list[Edge]]),
    "unchanged": TypeAdapter(tuple[str]),
    "deliver": TypeAdapter(tuple[list[tuple[Edge, int]]]),
    "done": TypeAdapter(tuple[str, str, FiniteFloat]),
    "send": TypeAdapter(tuple[str, dict[str, Any]]),
    "receive": TypeAdapter(tuple[str, dict[str, str]]),
}
"""Operation -> its arguments."""


class Lender(Protocol):
    """The part of the engine that a run beside it needs."""

    async def lend(self, keys: Sequence[str]) -> None:
        """Leave these resources alone."""
        ...

    def take_back(self, keys: Sequence[str]) -> None:
        """Care for them again."""
        ...


class Account:
    """One run's, for as long as it lasts."""

    def __init__(self, journal: Journal, lender: Lender) -> None:
        self._journal = journal
        self._lender = lender
        self._open: dict[str, list[Edge]] = {}
        """What the run may be changing now -> the edges that carry it."""
        self._lent: dict[str, None] = {}
        """Keys of all that it may have changed, and of those that are to be told: the run tells them itself."""

    async def begin(self) -> bytes:
        """What the journal knows now, as a message: memory is ahead of the file."""
        found: bytes = await Blocking(1)(framed, self._journal.rows())
        return found

    async def take(self, message: bytes) -> bool:
        """Do as the run says; whether it waits for an acknowledgement. Raises `ControlError`."""
        operation, arguments = _read(message)
        try:
            if operation == "intend":
                await self._intend(*arguments)
            elif operation == "changed":
                self._open.pop(arguments[0], None)
                self._journal.changed(*arguments)
            else:
                if operation == "unchanged":
                    self._open.pop(arguments[0], None)
                getattr(self._journal, operation)(*arguments)
        except Unwritable as error:
            raise ControlError(f"cannot write the journal: {error}") from error
        return operation == "intend"

    async def _intend(self, key: str, edges: list[Edge]) -> None:
        new = [each for each in dict.fromkeys((key, *(edge[1] for edge in edges))) if each not in self._lent]
        self._lent.update(dict.fromkeys(new))
        await self._lender.lend(new)
        await self._journal.announce(key, edges)
        self._open[key] = edges

    def close(self) -> None:
        """The run has ended, in order or not."""
        for key, edges in self._open.items():
            log.warning("a run beside the agent ended while it changed %s; that counts as changed", key)
            self._journal.changed(key, edges)
        self._open.clear()
        self._lender.take_back([*self._lent])


def _read(message: bytes) -> tuple[str, tuple[Any, ...]]:
    try:
        operation, *arguments = json.loads(message)
        json.dumps(arguments, ensure_ascii=False).encode()  # what is no text cannot be written down
        return operation, SHAPES[operation].validate_python(tuple(arguments))
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

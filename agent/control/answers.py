"""Sends responses: with secrets redacted, and long ones in slices, so that no response delays repairs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from itertools import islice
from typing import Any

from holdfast.agent.control.schema import ControlResponse, encode, plain
from holdfast.resources.secrets import Redactor

ROWS = 10
"""Rows that are made between two checks of the time."""
SLICE = 0.002
"""Seconds after which the making of rows is interrupted, so that other tasks run."""
TIMEOUT = 10.0
"""Seconds that a client may take to send its request, or to read a response."""

Encoder = Callable[[Any], bytes]
"""Returns the line of a message, or the JSON of a part of one, without data that the client may not see."""
Turn = Callable[[], AbstractAsyncContextManager[Any]]
"""Returns the context in which a part of a response is made."""


def encoded(message: Any, redactor: Redactor) -> bytes:
    """Return the line of a message, with secrets redacted."""
    line = encode(message)
    return encode(redactor(plain(message))) if redactor.concerns(line.decode()) else line


def pieces(response: ControlResponse, encoder: Encoder) -> Iterator[bytes]:
    """Yield the line of a response, piece by piece.

    An iterator in its data becomes a list; its rows are made as they are sent.
    """
    data = response.data if isinstance(response.data, dict) else {}
    lists = {key: value for key, value in data.items() if isinstance(value, Iterator)}
    if not lists:
        yield encoder(response)
        return
    short = {key: value for key, value in data.items() if key not in lists}
    yield encoder(replace(response, data=short)).removesuffix(b"}\n").removesuffix(b"}")
    for key, rows in lists.items():
        yield (b", " if short else b"") + encode(key).strip() + b": ["
        between = b""
        while some := list(islice(rows, ROWS)):
            yield between + encoder(some)[1:-2]
            between = b", "
        yield b"]"
        short = data
    yield b"}}\n"


async def send(
    response: ControlResponse, encoder: Encoder, writer: asyncio.StreamWriter, turn: Turn = nullcontext
) -> None:
    """Send a response, each slice of it made in a turn. Raises `TimeoutError` if the client does not read it."""
    line, more = pieces(response, encoder), True
    while more:
        async with turn():
            more = _write_some(line, writer)
        await asyncio.wait_for(writer.drain(), TIMEOUT)
        await asyncio.sleep(0)


def _write_some(line: Iterator[bytes], writer: asyncio.StreamWriter) -> bool:
    """Write pieces for the time of a slice; return whether there may be more."""
    began = time.monotonic()
    for piece in line:
        writer.write(piece)
        if time.monotonic() - began > SLICE:
            return True
    return False

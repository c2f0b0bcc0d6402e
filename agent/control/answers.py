"""Sends responses: with secrets redacted, and long ones in slices, so that no response delays repairs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

from holdfast.agent.control.schema import ControlResponse, encode, plain
from holdfast.resources.secrets import Redactor

ROWS = 10
"""Rows that are made between two checks of the time."""
SLICE = 0.002
"""Seconds after which the making of rows is interrupted, so that other tasks run."""
PATIENCE = 10.0
"""Seconds that a client may take to send its request, or to read a response."""


def encoded(message: Any, redactor: Redactor) -> bytes:
    """Return the line of a message, with secrets redacted."""
    line = encode(message)
    return encode(redactor(plain(message))) if redactor.concerns(line.decode()) else line


def pieces(response: ControlResponse, redactor: Callable[[], Redactor]) -> Iterator[bytes]:
    """Yield the line of a response, piece by piece.

    An iterator in its data becomes a list, whose rows are made on the way.
    """
    data = response.data if isinstance(response.data, dict) else {}
    lists = {key: value for key, value in data.items() if isinstance(value, Iterator)}
    if not lists:
        yield encoded(response, redactor())
        return
    short = {key: value for key, value in data.items() if key not in lists}
    yield encoded(replace(response, data=short), redactor()).removesuffix(b"}\n").removesuffix(b"}")
    for key, rows in lists.items():
        yield (b", " if short else b"") + encode(key).strip() + b": ["
        between = b""
        while some := list(islice(rows, ROWS)):
            yield between + encoded(some, redactor())[1:-2]
            between = b", "
        yield b"]"
        short = data
    yield b"}}\n"


async def send(response: ControlResponse, redactor: Callable[[], Redactor], writer: asyncio.StreamWriter) -> None:
    """Send a response. Raises `TimeoutError` if the client does not read it."""
    began = time.monotonic()
    for piece in pieces(response, redactor):
        writer.write(piece)
        if time.monotonic() - began > SLICE:
            await asyncio.wait_for(writer.drain(), PATIENCE)
            await asyncio.sleep(0)
            began = time.monotonic()
    await asyncio.wait_for(writer.drain(), PATIENCE)

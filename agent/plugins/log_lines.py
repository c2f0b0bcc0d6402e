"""The log of a plugin: lines of its standard error and output, each an object of JSON or any text."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

LINE = 64 << 10
"""Greatest length of a line, in bytes; a longer line is dropped."""
Log = Callable[[str, Mapping[str, Any]], None]
"""Receives the level and the fields of one line."""


async def read_log(lines: asyncio.StreamReader, log: Log) -> None:
    """Pass each line of the plugin's log on, until the plugin ends."""
    too_long = False
    while True:
        try:
            line = await lines.readuntil()
        except asyncio.LimitOverrunError as error:
            await lines.readexactly(error.consumed)
            too_long = True
            continue
        except asyncio.IncompleteReadError as error:
            if error.partial and not too_long:
                log(*_parsed(error.partial))
            return
        if not too_long:
            log(*_parsed(line))
        too_long = False


def _parsed(line: bytes) -> tuple[str, Mapping[str, Any]]:
    """Return level and fields of a line; one that is not an object of JSON is the message."""
    text = line.decode(errors="replace").rstrip()
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict) or not isinstance(said.get("message"), str):
        return "info", {"message": text}
    level = said.pop("level", "info")
    return level if level in ("debug", "info", "warning", "error") else "info", said

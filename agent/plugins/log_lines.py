"""The log of a plugin: lines of its standard error and output, each an object of JSON or any text."""

from __future__ import annotations

import asyncio
import json
import re
import time
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
    """Return level and fields of a line. A line that is not an object of JSON becomes the message."""
    text = line.decode(errors="replace").rstrip()
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict) or not isinstance(said.get("message"), str):
        return "info", {"message": text}
    level = said.pop("level", "info")
    return level if level in ("debug", "info", "warning", "error") else "info", said


SILENT = re.compile(r"\s|$|[\]})]+,?$|Node\.js v\d")
"""Beginnings of lines that do not say why a program has ended: a stack frame, the end of an object, the interpreter."""


class LastLogLine:
    """Passes the lines of a log on, and keeps the last line that may say why the program has ended."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.text = ""

    def __call__(self, level: str, said: Mapping[str, Any]) -> None:
        """Pass on a line."""
        if not SILENT.match(said["message"]):
            self.text = said["message"]
        self._log(level, said)


BURST, PACE = 200, 20.0
"""Lines that are logged at once, and then per second; further lines are only counted."""
FIELDS = 16
"""Most fields of a line."""
VALUE = 4000
"""Most characters of a value."""


class BoundedLog:
    """Logs the lines of one plugin, with secrets masked and at a bounded rate. `write` receives level and fields."""

    def __init__(self, write: Log, mask: Callable[[Any], Any], clock: Callable[[], float] = time.monotonic) -> None:
        self._write, self._mask, self._clock = write, mask, clock
        self._room = float(BURST)
        self._at = clock()
        self._dropped = 0

    def __call__(self, level: str, said: Mapping[str, Any]) -> None:
        """Log a line, or count it."""
        now = self._clock()
        self._room = min(float(BURST), self._room + (now - self._at) * PACE)
        self._at = now
        if self._room < 1:
            self._dropped += 1
            return
        self._room -= 1
        if self._dropped:
            number, self._dropped = self._dropped, 0
            self._write("warning", {"message": f"{number} lines were dropped: it logs more than {PACE:g} in a second"})
        # Masked before the cut: a part of a secret would not be recognised.
        masked = self._mask(dict(list(said.items())[:FIELDS]))
        self._write(level, {name: _cut(value) for name, value in masked.items()})


def _cut(value: Any) -> Any:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return value if len(text) <= VALUE else text[:VALUE]


class StartLog:
    """Logs the lines of one plugin.

    After a failed start, the first lines that repeat those of the failed one are left out.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._starting = self._same = True
        """Whether the plugin does not run yet, and whether the present start has repeated the lines of the last one so
        far."""
        self._before: list[int] = []
        """Hashes of the first lines of the start that failed."""
        self._now: list[int] = []
        """Hashes of the first lines of the present start."""

    def begins(self) -> None:
        """Note that a start of the plugin begins, perhaps after a start that failed."""
        self._starting = self._same = True
        self._before, self._now = self._now, []

    def succeeded(self) -> None:
        """Note that the plugin runs: every later line is logged, also in the next start."""
        self._starting, self._now = False, []

    def __call__(self, level: str, said: Mapping[str, Any]) -> None:
        """Log a line, unless it is repeated."""
        if self._starting and len(self._now) < BURST:
            self._now.append(hash((level, said["message"])))
            self._same = self._same and self._now == self._before[: len(self._now)]
            if self._same:
                return
        self._log(level, said)

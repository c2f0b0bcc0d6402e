"""Progress of a one-shot run on a terminal: running resources, their times, and new output of their commands.

A few lines below all other output are redrawn repeatedly. During the run, this module never waits for the terminal.
"""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections import deque
from collections.abc import Callable, Mapping

from holdfast.agent.cli.terminal import NARROW, one_line, span
from holdfast.agent.console import coloured, width_of
from holdfast.agent.nonblocking_output import StreamOutput
from holdfast.agent.widths import beginning, columns, fit
from holdfast.resources.secrets import Redactor

TICK = 0.1
"""Seconds between two frames."""
CALM = 0.3
"""Seconds until the first frame: short runs need none."""
SHOWN = 4
"""Most running resources shown."""
LINES = 200
"""Most lines of output shown between two frames; of more, the last ones."""
LONGEST = 64 << 10
"""Most bytes of a line that are processed."""
WIDEST = 500
"""Most columns of a line of output."""
TIMEOUT = 3600.0
"""Seconds to wait at the end for a terminal that is held (Ctrl-S)."""
SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
"""Control sequences for a terminal: colours, titles."""


class Progress:
    """The terminal at stdout during a run of `total` resources.

    `hidden` says whether output of a resource must be hidden.
    """

    def __init__(self, total: int, redactor: Redactor, hidden: Callable[[str], bool], *, descriptor: int = 1) -> None:
        self._total, self._redactor, self._hidden = total, redactor, hidden
        self._descriptor, self._stream = descriptor, StreamOutput(descriptor)
        self._colour = coloured(descriptor)
        self._began = time.monotonic()
        self._running: dict[str, float] = {}
        """Identity -> start time."""
        self._done: set[str] = set()
        self._parts: dict[tuple[str, str], bytearray] = {}
        """Command and stream -> incomplete line."""
        self._lines: deque[tuple[str, str, bytes]] = deque(maxlen=LINES)
        """Output not shown yet: identity, label, line."""
        self._skipped = 0
        """Lines of output that were dropped."""
        self.told: dict[str, bool] = {}
        """Identity -> whether all output of its commands was shown."""
        self._drawn: list[str] = []
        """The lines drawn below."""
        self._timer: asyncio.TimerHandle | None = None

    def started(self, identity: str) -> None:
        """Record the start of a resource."""
        self._running[identity] = time.monotonic()
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(TICK, self._tick)

    def ended(self, identity: str) -> None:
        """Record the end of a resource."""
        self._running.pop(identity, None)
        self._done.add(identity)

    def output(self, identity: str, stream: str, data: bytes) -> None:
        """Take output of a command of a resource or provider; empty data means the end of the output."""
        if self._hidden(identity) or (identity not in self._running and any(map(self._hidden, self._running)) and data):
            return
        self.told.setdefault(identity, True)
        part = self._parts.setdefault((identity, stream), bytearray())
        *lines, rest = data.split(b"\n")
        for line in lines:
            part += line[: LONGEST - len(part)]
            self._add(identity, bytes(part))
            part.clear()
        part += rest[: LONGEST - len(part)]
        if not data:
            self._parts.pop((identity, stream))
            if part:
                self._add(identity, bytes(part))

    def _add(self, identity: str, line: bytes) -> None:
        if len(self._lines) == LINES:
            self.told[self._lines[0][0]] = False
            self._skipped += 1
        label = f"{one_line(_shown(identity))}: " if len(self._running) > 1 else ""
        self._lines.append((identity, label, line))

    def say(self, text: str) -> None:
        """Write permanent lines, already made safe, after all earlier output."""
        self._write(self._erased() + self._output() + text + "\n")

    def clear(self) -> None:
        """Remove the drawn lines: other output follows."""
        self._write(self._erased() + self._output())

    def close(self) -> None:
        """End the display; permanent lines stay."""
        if self._timer is not None:
            self._timer.cancel()
        for identity, stream in list(self._parts):
            self.output(identity, stream, b"")
        self.clear()
        self._stream.flush(TIMEOUT)
        self._stream.close()

    def _tick(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(TICK, self._tick)
        now = time.monotonic()
        lines = (
            list(picture(self._running, len(self._done), self._total, now, self._width))
            if now - self._began >= CALM
            else []
        )
        if self._lines or lines != self._drawn:
            text = self._erased() + self._output() + "\n".join(lines)
            self._drawn = lines
            self._write(f"\x1b[2m{text}\x1b[0m" if self._colour else text)

    @property
    def _width(self) -> int:
        return width_of(self._descriptor) or 80

    def _erased(self) -> str:
        """Return the control sequence that removes the drawn lines.

        On a narrowed terminal each may occupy several rows.
        """
        lines, self._drawn = self._drawn, []
        rows = sum(max(1, math.ceil(columns(line) / self._width)) for line in lines)
        return "\r" + (f"\x1b[{rows - 1}A" if rows > 1 else "") + "\x1b[J" if rows else ""

    def _output(self) -> str:
        """Return new output of commands; lines have the name of their resource if several run."""
        text = ""
        if self._skipped:
            text, self._skipped = f"    [{self._skipped} lines are not shown]\n", 0
        for _, label, line in self._lines:
            text += f"    {label}{legible(line, self._redactor)}\n"
        self._lines.clear()
        return text

    def _write(self, text: str) -> None:
        if text:
            self._stream.write(text.encode("utf-8", "backslashreplace"))


def picture(running: Mapping[str, float], done: int, total: int, now: float, width: int) -> list[str]:
    """Return the running resources, longest first, as lines narrower than the terminal.

    For example `[12/25] pkg.installed[nginx] 34 s`.
    """
    if not running:
        return []
    counted, room = f"[{min(done + 1, total)}/{total}] ", max(1, width - 1)
    indent = " " * (0 if width < NARROW else len(counted))
    oldest = sorted(running.items(), key=lambda each: each[1])
    lines = []
    for number, (identity, began) in enumerate(oldest[:SHOWN]):
        before, after = indent if number else counted, f" {span(now - began)}"
        lines.append(before + fit(one_line(identity), room - len(before) - len(after)) + after)
    return [
        fit(line, room)
        for line in [*lines, *([f"{indent}and {len(running) - SHOWN} more"] if len(running) > SHOWN else [])]
    ]


def legible(line: bytes, redactor: Redactor) -> str:
    """Return the last of the overwritten texts of a line, without control sequences, secrets masked, then cut."""
    text = SEQUENCE.sub("", line.decode(errors="replace").rstrip("\r").rpartition("\r")[2])
    redacted: str = redactor(text)
    return beginning(one_line(redacted.replace("\t", "        ")), WIDEST)


def _shown(identity: str) -> str:
    """Return the name of the resource for output; commands of a provider serve several resources."""
    return identity.removeprefix("interface[").removesuffix("]") if identity.startswith("interface[") else identity

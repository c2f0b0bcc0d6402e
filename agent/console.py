"""Lines of the log as text for terminals, and as JSON. A client that only reads the log needs no other module."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, MutableMapping
from typing import Any

from holdfast.agent.widths import flow
from holdfast.resources import visible
from holdfast.resources.effects import FORMS
from holdfast.resources.visible import clean, escaped

LogEntry = MutableMapping[str, Any]
"""One line with its fields: time, level, event (the sentence), logger, and those of `narrate.LogLine`."""

_KNOWN = frozenset(
    {
        *("time", "level", "event", "logger", "resource", "pass", "what", "result", "cause", "duration"),
        *("changes", "diff", "details", "because", "undone", "by", "ended", "code", "converged", "exception"),
        *("called", "uid", "pid", "public", "plugin"),
    }
)
"""Fields that the sentence contains, or that are shown in a special form."""
_COLOURS = {
    "ok": "32",
    "converged": "1;32",
    "recovered": "32",
    "skipped": "2",
    "superseded": "2",
    "failed": "1;31",
    "still": "31",
    "not": "1;31",
    **{forms.past: "33" for forms in FORMS.values()},
    "repaired": "1;33",
    "refreshed": "36",
    "would": "35",
}
"""First word of a sentence -> its colour (SGR)."""
_LEVEL_COLOURS = {"debug": "2", "warning": "33", "error": "31", "critical": "31"}
DIFF_COLOURS = {"+": "32", "-": "31", "@": "36"}


def coloured(descriptor: int) -> bool:
    """Return whether the descriptor is a terminal with colours and the user has not turned them off (`NO_COLOR`)."""
    return os.isatty(descriptor) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def clock(at: float) -> str:
    """Return the time of day of a Unix time; with the date unless it is today."""
    then, now = time.localtime(at), time.localtime()
    return time.strftime("%H:%M:%S" if then[:3] == now[:3] else "%m-%d %H:%M:%S", then)


def width_of(descriptor: int) -> int | None:
    """Return the columns of the terminal at a descriptor; None if it is not a terminal or its width is unknown."""
    try:
        return os.get_terminal_size(descriptor).columns or None
    except OSError:
        return None


class Console:
    """Lines for terminals: time, sentence, and the details indented below.

    `width` returns the current number of columns.
    """

    def __init__(self, colour: bool, width: Callable[[], int | None] = lambda: None) -> None:
        self._colour, self._width = colour, width

    @classmethod
    def at(cls, descriptor: int) -> Console:
        """Return a console for a descriptor, which may be a terminal."""
        return cls(coloured(descriptor), lambda: width_of(descriptor))

    def render(self, entry: LogEntry) -> bytes:
        """Return one entry as the lines of a terminal, with its time."""
        stamp = clock(entry.get("time") or time.time())
        return f"{self._paint('2', stamp)} {self.text(entry, indent=len(stamp) + 1)}\n".encode(
            "utf-8", "backslashreplace"
        )

    def text(self, entry: LogEntry, indent: int = 4) -> str:
        """Return the sentence, and below it the details, indented by `indent` columns. Control characters are escaped.

        Sentences are wrapped between words to fit the terminal. Details are not wrapped, so that a copied diff is
        exact.
        """
        columns = self._width()
        room = None if columns is None else max(20, columns - indent)
        more = " ".join(f"{escaped(name)}={escaped(str(value))}" for name, value in entry.items() if name not in _KNOWN)
        first, newline, rest = clean(str(entry.get("event", ""))).partition("\n")
        lines = self._sentence(first + (f"  {more}" if more else ""), entry, room)
        lines += flow(rest, room) if newline else []
        for name in ("details", "exception"):
            if entry.get(name):
                lines += [self._detail(line) for line in clean(str(entry[name])).split("\n")]
        return ("\n" + " " * indent).join(lines)

    def _sentence(self, text: str, entry: LogEntry, room: int | None) -> list[str]:
        resource = escaped(str(entry.get("resource") or ""))
        if resource and resource not in text:
            text = f"{resource}: {text}"
        word, lines = text.partition(" ")[0], flow(text, room)
        if word in _COLOURS:
            return [self._paint(_COLOURS[word], word) + lines[0].removeprefix(word), *lines[1:]]
        level = str(entry.get("level"))
        return [self._paint(_LEVEL_COLOURS[level], line) for line in lines] if level in _LEVEL_COLOURS else lines

    def _detail(self, line: str) -> str:
        return self._paint(DIFF_COLOURS[line[0]], line) if line[:1] in DIFF_COLOURS else line

    def _paint(self, colour: str, text: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self._colour else text


def to_json(entry: LogEntry) -> bytes:
    """Return one entry as a JSON object in one line; `message` is the sentence, `time` is UTC."""
    entry = dict(entry)
    seconds = entry.pop("time", 0.0)
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds % 1 * 1e6):06d}Z"
    entry.pop("details", None)
    line = {"time": stamp, "level": entry.pop("level", "info"), "message": entry.pop("event", ""), **entry}
    return visible.to_json(line).encode() + b"\n"

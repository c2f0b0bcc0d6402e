"""Text for people: lines that fit, colours on a terminal, time spans in words."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from typing import Any

import click

from holdfast.agent.console import coloured, width_of
from holdfast.agent.widths import columns, fit, flow, pad, shorten, wrap
from holdfast.resources.visible import clean, escaped

COLOURS = {
    "running": "1;36",
    "blocked": "35",
    "failed": "1;31",
    "flapping": "1;35",
    "unwatched": "1;33",
    "waiting": "33",
    "drifted": "34",
    "would": "34",
    "skipped": "2",
    "superseded": "2",
    "ok": "32",
}
"""State of a resource -> its colour (SGR)."""
SEVERITIES = {"error": "1;31", "warning": "33", "info": "2"}
"""Severity of a health condition -> its colour."""
NARROW = 60
"""Columns below which a terminal counts as narrow."""
_WORDS = {"repaired": "1;33", "refreshed": "36", "recovered": "32"}


class Paper:
    """The medium of text: a terminal with a width and perhaps colours, or a file, where lines have any length."""

    def __init__(self, width: int | None = None, *, colour: bool = False) -> None:
        self.width = width
        """None means that nothing is cut."""
        self._colour = colour

    @classmethod
    def stdout(cls) -> Paper:
        """Return the medium at standard output."""
        terminal = sys.stdout.isatty()
        return cls(
            shutil.get_terminal_size().columns if terminal else None, colour=terminal and coloured(sys.stdout.fileno())
        )

    def paint(self, colour: str, text: str) -> str:
        """Return text in a colour, if colours are on."""
        return f"\x1b[{colour}m{text}\x1b[0m" if self._colour and text else text

    def state(self, word: str, text: str | None = None) -> str:
        """Return the state of a resource, or what was done to it, in its colour; or another text in that colour."""
        return self.paint(COLOURS.get(word) or _WORDS.get(word, "33"), word if text is None else text)

    def dim(self, text: str) -> str:
        """Return text with less emphasis."""
        return self.paint("2", text)

    def bold(self, text: str) -> str:
        """Return text with more emphasis."""
        return self.paint("1", text)

    @property
    def narrow(self) -> bool:
        """Whether a line is too narrow for two columns of text."""
        return self.width is not None and self.width < NARROW

    def holds(self, text: str, used: int = 0) -> bool:
        """Return whether a text fits into a line with `used` columns taken."""
        return self.width is None or columns(one_line(text)) <= self.width - used

    def line(self, text: str, used: int = 0) -> str:
        """Return one line of text without control characters, cut to fit into a line with `used` columns taken."""
        text = one_line(text)
        return text if self.width is None else fit(text, self.width - used)

    def lines(self, text: str, used: int = 0, most: int | None = None) -> list[str]:
        """Return text in as many lines as needed, each with `used` columns taken.

        There are at most `most` lines; the last one may be cut.
        """
        text = one_line(text)
        if self.width is None:
            return [text]
        lines = wrap(text, self.width - used)
        return (
            lines
            if most is None or len(lines) <= most
            else [*lines[: most - 1], self.line(" ".join(lines[most - 1 :]), used)]
        )

    def beside(self, head: str, text: str, used: int, below: int) -> Iterator[str]:
        """Yield a text next to a head that takes `used` columns.

        If a word, such as an identity, does not fit there, the text is below the head, after `below` columns, so that
        the word can be read and copied as a whole.
        """
        room, indent = (self.width or 0) - used, used
        if self.width is not None and any(columns(word) > room for word in one_line(text).split(" ")):
            yield head.rstrip(" ")
            head, indent = " " * below, below
        first, *rest = self.lines(text, indent)
        yield head + first
        yield from (" " * indent + line for line in rest)

    def name(self, identity: str, width: int) -> str:
        """Return an identity in a number of columns; the middle of a longer one is left out."""
        return pad(one_line(identity) if self.width is None else shorten(one_line(identity), width), width)


def say(text: str, *, err: bool = False) -> None:
    """Print a message, wrapped between words on a terminal; control characters in names and comments are escaped."""
    click.echo("\n".join(flow(clean(text), width_of(2 if err else 1))), err=err)


def one_line(text: str) -> str:
    """Return text with control characters escaped and line breaks replaced by blanks."""
    return escaped(" ".join(text.split("\n")).replace("\t", " "))


def span(seconds: float) -> str:
    """Return a rounded time span: `5 s`, `3 min`, `2 h`, `4 d`."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(max(0.0, seconds))} s"


def headline(agent: dict[str, Any]) -> str:
    """Return the agent's status in a few words; problems that health lists are not repeated."""
    listed = agent["status"] in [each["text"] for each in agent["health"]]
    return "there are problems" if listed else str(agent["status"])


def ago(at: float) -> str:
    """Return the time since a Unix time, in words."""
    return f"{span(time.time() - at)} ago"


def drawable() -> bool:
    """Return whether standard output is a terminal on which lines can be drawn again."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"

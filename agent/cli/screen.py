"""A full-screen terminal, redrawn repeatedly with plain ANSI sequences; its former content is restored at the end."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

ENTER = b"\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"
"""Alternate screen, hidden cursor, long lines cut, cleared."""
LEAVE = b"\x1b[?7h\x1b[?25h\x1b[?1049l"
BEGIN, END = "\x1b[?2026h\x1b[H", "\x1b[J\x1b[?2026l"
"""Start and end of a synchronised update. Terminals without that do not flicker either: nothing is erased before
redrawing."""


class Screen:
    """The terminal at stdin and stdout, while `opened`."""

    def __init__(self) -> None:
        self._input, self._output = sys.stdin.fileno(), sys.stdout.fileno()
        self._keys = os.isatty(self._input)
        self._before: list[Any] = []
        self._shown = ""
        self._ended = False
        """Whether a signal has asked to end."""

    @contextmanager
    def opened(self) -> Iterator[Screen]:
        """Take over the terminal; restore it in all cases, and while stopped by Ctrl-Z.

        SIGTERM and Ctrl-C count as `q`.

        An exception raised in a signal handler could be lost in code whose errors Python ignores.
        """
        handlers = {
            **dict.fromkeys((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), self._end),
            signal.SIGTSTP: self._stopped,
        }
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        self._enter()
        try:
            yield self
        finally:
            self._leave()
            for number, handler in before.items():
                signal.signal(number, handler)

    @property
    def size(self) -> tuple[int, int]:
        """Usable columns and lines.

        The last column is not used: a terminal that erases the rest of a full line would erase the last letter.
        """
        size = os.get_terminal_size(self._output)
        return max(40, size.columns) - 1, max(5, size.lines)

    def draw(self, lines: Sequence[str]) -> None:
        """Draw these lines, unless they are already shown."""
        text = BEGIN + "\r\n".join(f"{line}\x1b[K" for line in lines) + END
        if text != self._shown:
            self._write(text.encode("utf-8", "replace"))
            self._shown = text

    def key(self, timeout: float) -> str:
        """Return a key pressed within this many seconds; empty if none.

        The end of the terminal's input counts as `q`.
        """
        ready, _, _ = select.select([self._input] if self._keys else [], [], [], timeout)
        if self._ended:
            return "q"
        if not ready:
            return ""
        try:
            return os.read(self._input, 64).decode("utf-8", "replace") or "q"
        except OSError:
            return "q"

    def _enter(self) -> None:
        if self._keys:
            self._before = termios.tcgetattr(self._input)
            tty.setcbreak(self._input)
        self._shown = ""
        self._write(ENTER)

    def _leave(self) -> None:
        self._write(LEAVE)
        if self._before:
            termios.tcsetattr(self._input, termios.TCSADRAIN, self._before)

    def _end(self, *_: object) -> None:
        self._ended = True

    def _stopped(self, *_: object) -> None:
        self._leave()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._enter()

    def _write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._output, data) :]

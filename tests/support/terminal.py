"""`holdfast` on a terminal of its own, and the screen that it leaves."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import termios
from collections.abc import Callable, Sequence

MOVES = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|\r\n|\r|\n|[^\x1b\r\n]+|\x1b")


class Terminal:
    """A process whose standard streams are a terminal with so many columns."""

    def __init__(self, argv: Sequence[str], environment: dict[str, str], columns: int = 80) -> None:
        self.written = b""
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            try:
                os.execve(argv[0], argv, {**environment, "TERM": "xterm"})
            finally:
                os._exit(127)
        self.resize(columns)

    def resize(self, columns: int) -> None:
        """Set the number of columns."""
        fcntl.ioctl(self.descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def read(self) -> bool:
        """Wait for output; return whether there may be more."""
        try:
            data = os.read(self.descriptor, 65536)
        except OSError:
            return False
        self.written += data
        return bool(data)

    def until(self, text: str, act: Callable[[], object] = lambda: None) -> None:
        """Read until the process has written this, then call `act`."""
        while text.encode() not in self.written:
            assert self.read(), self.written.decode(errors="replace")
        act()

    def end(self) -> int:
        """Read until the process has ended; return the exit code, negative for a signal."""
        while self.read():
            pass
        os.close(self.descriptor)
        _, status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(status)


def screen(written: bytes) -> list[str]:
    """Return the lines of a screen of any height, without trailing blanks and without erased lines."""
    lines, row, column = [""], 0, 0
    for found in MOVES.finditer(written.decode(errors="replace")):
        text, number, command = found[0], found[1], found[2]
        if command == "A":
            row = max(0, row - int(number or 1))
        elif command == "J":
            lines[row:] = [lines[row][:column]]
        elif command is None and text in ("\r\n", "\n"):
            row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        elif text == "\r":
            column = 0
        elif command is None:
            lines[row] = lines[row][:column].ljust(column) + text + lines[row][column + len(text) :]
            column += len(text)
    return [line.rstrip() for line in lines]

"""Limits on templates: iterations of loops, calls of macros, seconds, memory, and the size of values.

Authors of state files are trusted, but make mistakes: nested loops, a macro that calls itself twice, a text that is
doubled in a loop, or a power of a power could occupy an agent for days, or exhaust its memory. `template/bounded`
applies these limits. Regular expressions have their own limit (`resources/expressions`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Any

STEPS = 3_000_000
"""Maximum number of expressions that loops, macros and blocks of one rendering may evaluate."""
SECONDS = 30.0
"""Maximum duration of one rendering, in seconds."""
SIZE = 32 << 20
"""Approximate maximum size of one value, in bytes."""
MEMORY = 128 << 20
"""Maximum growth of the process during one rendering, in bytes: many small values may be large together."""
_ITEM, _PAIR = 8, 64
"""Size in bytes of an item of a list, and of a key of a mapping."""
_STEP = 128
"""Maximum size in bytes of the result of a step, if it is not known."""
_UNSEEN = 8 << 20
"""Number of bytes after which the memory of the process is measured again, which takes some microseconds."""
CONTAINERS = (dict, list, tuple, set, frozenset)


class Spent(Exception):
    """A template has exceeded a limit; the message says which."""


def check(size: int) -> None:
    """Account for a value of this size in bytes. Raises `Spent` if it is too large, or all values together are."""
    if size > SIZE:
        raise Spent(f"it makes a value of more than {SIZE >> 20} MB")
    METER.make(size)


def size(value: Any) -> int:
    """Return the approximate size in bytes of a text, list or mapping without its items; 0 for any other value."""
    if isinstance(value, (str, bytes)):
        return len(value)
    if isinstance(value, dict):
        return dict.__len__(value) * _PAIR  # this does not count as reading a grain
    return len(value) * _ITEM if isinstance(value, CONTAINERS) else 0


def weight(value: Any) -> int:
    """Return the size in bytes of a value when it is written out, shared items counted each time.

    Counting stops beyond `SIZE`.
    """
    found, left = 0, [value]
    while left and found <= SIZE:
        value = left.pop()
        found += size(value)
        if isinstance(value, CONTAINERS) and found <= SIZE:
            left.extend(value.values() if isinstance(value, dict) else value)
    return found


def check_data(values: Iterable[Any]) -> None:
    """Raise `Spent` for values whose text would be too large, even if the values are small because items are shared."""
    for value in values:
        if isinstance(value, CONTAINERS):
            check(weight(value))


class Meter(threading.local):
    """The remaining budget of the rendering in this thread."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Start a new rendering."""
        self.steps, self.end = STEPS, time.monotonic() + SECONDS
        self._made, self._before = 0, 0

    def spend(self, steps: int) -> None:
        """Charge an amount. Raises `Spent`."""
        self.steps -= steps
        if self.steps < 0:
            raise Spent(f"its loops and macros evaluate more than {STEPS} expressions")
        if time.monotonic() > self.end:
            raise Spent(f"it takes longer than {SECONDS:g} s")
        self.make(steps * _STEP)

    def make(self, size: int) -> None:
        """Account for new bytes, which may be short-lived. Raises `Spent` if the process has grown too much."""
        self._made += size
        if self._made < _UNSEEN:
            return
        import psutil  # noqa: PLC0415 - the import is slow, and few renderings need it

        now, self._made = psutil.Process().memory_info().rss, 0
        self._before = self._before or now
        if now - self._before > MEMORY:
            raise Spent(f"it takes more than {MEMORY >> 20} MB of memory")


METER = Meter()

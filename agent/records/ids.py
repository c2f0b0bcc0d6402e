"""IDs of records that sort by time.

An ID is the Unix time in microseconds and a digit of the process, in Crockford's base 32: 12 lowercase characters,
without `i`, `l`, `o` and `u`. The digit keeps the agent and one-shot runs apart.
"""

from __future__ import annotations

import os

DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
LENGTH = 12
EARLY = "+"
"""The beginning of each placeholder."""
_PAIRS = [first + second for first in DIGITS for second in DIGITS]
"""Number below 1024 -> its two digits, of which each stands for five bits."""
_SHIFTS = range(5 * (LENGTH - 2), -1, -10)
"""Bits to the right of each pair of digits."""


class TimeIds:
    """IDs of one process, each greater than the one before, also when the clock is set back.

    With `early`, the first IDs are given before the last one of the database is known. They are placeholders, and
    `final` returns the IDs that replace them once `begin_after` was called.
    """

    def __init__(self, *, agent: bool, early: bool = False) -> None:
        self._process = 0 if agent else 1 + os.getpid() % 31
        self._last = 0
        self._mark = EARLY if early else ""
        """The beginning of each ID: that of placeholders until `begin_after` was called."""
        self._first_early = self._shift = 0
        """Number of the first placeholder; what is added to the numbers of placeholders."""

    def new(self, at: float) -> str:
        """Return the ID for something that happened at this Unix time."""
        self._last = max(self._last + 1, round(at * 1e6))
        if self._mark:
            self._first_early = self._first_early or self._last
        return f"{self._mark}{_written(self._last * 32 + self._process)}"

    def begin_after(self, *found: str) -> None:
        """Make the next IDs greater than these, which may come from a time when the clock was ahead."""
        last = max((_number(each) // 32 for each in found), default=0)
        if self._mark:
            self._mark = ""
            self._shift = max(0, last + 1 - self._first_early)
            self._last += self._shift
        self._last = max(self._last, last)

    def final(self, id: str) -> str:
        """Return the final ID of a record: the one that replaces a placeholder, or the ID itself."""
        return _written(_number(id[len(EARLY) :]) + self._shift * 32) if id.startswith(EARLY) else id


def first_id_of(at: float) -> str:
    """Return the least ID of this Unix time, for a query."""
    return _written(max(0, round(at * 1e6)) * 32)


def time_of(id: str) -> float:
    """Return the Unix time of an ID; 0 for a text that is not an ID."""
    return (_number(id) // 32) / 1e6


def is_id(text: str) -> bool:
    """Return whether a text has the form of an ID."""
    return len(text) == LENGTH and not set(text) - set(DIGITS)


def _written(number: int) -> str:
    return "".join([_PAIRS[number >> shift & 1023] for shift in _SHIFTS])


def _number(id: str) -> int:
    """Return the number of an ID; 0 for a text that is not an ID."""
    number = 0
    for character in id:
        digit = DIGITS.find(character)
        if digit < 0:
            return 0
        number = number * 32 + digit
    return number if len(id) == LENGTH else 0

"""Numbers that remember how they were written, where that is not how Python writes them: `1.10`, `007`, `12:30`.

YAML reads these as 1.1, 7 and 750. As a number that is what was meant; as text (a version, a name) it is not, so fields of text refuse
them. Behaves like any number otherwise.
"""

from __future__ import annotations

from typing import Self


class WrittenInt(int):
    """A whole number with its spelling."""

    written: str

    def __new__(cls, value: int, written: str) -> Self:
        """The number `value`, which is spelled `written`."""
        made = super().__new__(cls, value)
        made.written = written
        return made

    def __reduce__(self) -> tuple[type[int], tuple[int]]:
        """A copy is an ordinary number."""
        return int, (int(self),)


class WrittenFloat(float):
    """A number with a fraction, with its spelling."""

    written: str

    def __new__(cls, value: float, written: str) -> Self:
        """The number `value`, which is spelled `written`."""
        made = super().__new__(cls, value)
        made.written = written
        return made

    def __reduce__(self) -> tuple[type[float], tuple[float]]:
        """A copy is an ordinary number."""
        return float, (float(self),)


def with_spelling(value: object, written: str) -> object:
    """A number together with how it was written, if Python would write it otherwise; anything else as it is."""
    if value.__class__ is int and str(value) != written:
        return WrittenInt(int(value), written)
    if value.__class__ is float and str(value) != written:
        return WrittenFloat(float(value), written)
    return value


def plain_number(value: object) -> object:
    """A number without its spelling; anything else as it is."""
    if value.__class__ is WrittenInt:
        return int(value)
    return float(value) if value.__class__ is WrittenFloat else value

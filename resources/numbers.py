"""Numbers that keep their spelling, if Python would write them otherwise: `1.10`, `007`, `12:30`.

YAML reads these as 1.1, 7 and 750. That is right for a number, but wrong for text (a version, a name), so text fields
refuse such numbers. Otherwise they behave like any number.
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
    """Return a number with its spelling, if Python would write the number otherwise; any other value unchanged."""
    if value.__class__ is int and str(value) != written:
        return WrittenInt(int(value), written)
    if value.__class__ is float and str(value) != written:
        return WrittenFloat(float(value), written)
    return value


def plain_number(value: object) -> object:
    """Return a number without its spelling; any other value unchanged."""
    if value.__class__ is WrittenInt:
        return int(value)
    return float(value) if value.__class__ is WrittenFloat else value

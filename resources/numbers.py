"""Numbers that remember how they were written, where that is not how Python writes them: `1.10`, `007`, `12:30`.

YAML reads these as 1.1, 7 and 750. As a number that is what was meant; as text (a version, a name) it is not, so fields of text refuse
them. Behaves like any number otherwise.
"""

from __future__ import annotations

from typing import Any, ClassVar


class Written:
    """A number with its spelling."""

    written: str
    plain: ClassVar[type[Any]]
    """The type of the number without it."""

    def __reduce__(self) -> tuple[type[Any], tuple[int | float]]:
        """A copy is an ordinary number."""
        return self.plain, (self.plain(self),)


class _WrittenInt(Written, int):
    plain = int


class _WrittenFloat(Written, float):
    plain = float


_SPELLED: dict[type, type[Any]] = {int: _WrittenInt, float: _WrittenFloat}


def with_spelling(value: object, written: str) -> object:
    """A number together with how it was written, if Python would write it otherwise; anything else as it is."""
    spelled = _SPELLED.get(value.__class__)
    if spelled is None or str(value) == written:
        return value
    made = spelled(value)
    made.written = written
    return made


def plain_number(value: object) -> object:
    """A number without its spelling; anything else as it is."""
    return value.plain(value) if isinstance(value, Written) else value

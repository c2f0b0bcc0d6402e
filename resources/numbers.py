"""Numbers that keep their spelling, if Python would write them differently: `1.10`, `007`, `12:30`.

YAML reads these as 1.1, 7 and 750. That is right for a number, but wrong for text (a version, a name), so text fields
refuse such numbers. In all other respects they behave like ordinary numbers.
"""

from __future__ import annotations

from typing import Any, ClassVar


class Written:
    """A number with its spelling."""

    written: str
    plain: ClassVar[type[Any]]
    """Type of the number without its spelling."""

    def __reduce__(self) -> tuple[type[Any], tuple[int | float]]:
        """Reduce to an ordinary number, so that a copy is one."""
        return self.plain, (self.plain(self),)


class _WrittenInt(Written, int):
    plain = int


class _WrittenFloat(Written, float):
    plain = float


_SPELLED: dict[type, type[Any]] = {int: _WrittenInt, float: _WrittenFloat}


def with_spelling(value: object, written: str) -> object:
    """Return a number with its spelling, if Python would write the number otherwise; any other value unchanged."""
    spelled = _SPELLED.get(value.__class__)
    if spelled is None or str(value) == written:
        return value
    made = spelled(value)
    made.written = written
    return made


def plain_number(value: object) -> object:
    """Return a number without its spelling; any other value unchanged."""
    return value.plain(value) if isinstance(value, Written) else value

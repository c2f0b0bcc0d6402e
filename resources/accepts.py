"""The values that the validator of an argument accepts, for the model of all kinds.

The annotation of an argument describes the value that a validator returns. A state file may contain other values, which
the validator converts, and the validator may refuse some values of the type. `accepts` records both on the function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])
VALUE: Final = "value"
"""In `types`, the type of the argument itself."""
ITEM: Final = "item"
"""In `types`, the type of one item of the argument, which is a list."""


class Accepted(NamedTuple):
    """The values that a validator accepts."""

    types: tuple[Any, ...]
    """Types, `VALUE` and `ITEM`."""
    pattern: str = ""
    """A regular expression that matches the whole text, if the value is text; empty: any."""
    choices: tuple[str, ...] = ()
    """The only texts that are accepted; empty: any."""
    numbers: bool = False
    """Numbers are accepted as text."""


def accepts(
    *types: Any, pattern: str = "", choices: tuple[str, ...] = (), numbers: bool = False
) -> Callable[[Function], Function]:
    """Declare which values a validator accepts; without types, those of the argument's own type."""

    def mark(function: Function) -> Function:
        accepted = Accepted(types or (VALUE,), pattern, choices, numbers)
        function._accepted = accepted  # type: ignore[attr-defined] # noqa: SLF001 - a mark
        return function

    return mark


def accepted(function: object) -> Accepted | None:
    """Return the values that a validator accepts; None if it does not say it."""
    found: Accepted | None = getattr(function, "_accepted", None)
    return found

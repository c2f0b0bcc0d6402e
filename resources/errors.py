"""Errors that resources raise: permanent and temporary failures, and mistakes of the author of a kind.

An attempt that cannot succeed raises `Permanent`; an attempt that may succeed later raises `Temporary`. The engine
turns either of them into an `Outcome` and uses nothing else of the exception.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

TRANSIENT = frozenset(
    {
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EBUSY,
        errno.ETXTBSY,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.EAGAIN,
        errno.ESTALE,
    }
)
"""Error numbers of refusals after which a later call may succeed."""


RAISED = (Exception, SystemExit)
"""What the code of a kind or a provider may raise. A `sys.exit` in it must not end the agent."""


class HoldfastError(Exception):
    """Base of all errors that Holdfast raises on purpose. The text is meant for users."""

    changes: Mapping[str, Any] = MappingProxyType({})
    """What a function of an interface had changed before it failed, as in a `ChangeSet`."""


class Permanent(HoldfastError):
    """A failure that lasts until something else changes; trying again does not help."""


class StillDiffers(Permanent):
    """A resource differs after a repair that has raised no error.

    Either the repair has no effect, or something else has changed the resource meanwhile. The engine finds out which.
    """


class Final(Permanent):
    """A failure that no change of another resource removes.

    The state is declared to fail, or its arguments are wrong for this host. Other errors may disappear: in noop, a
    probe may fail only because an earlier resource has not been created yet.
    """


class WrongArguments(Final):
    """Arguments of the state are wrong, as only the provider of its resource can tell.

    `wrong`: where, as keys and positions that lead there, and why; empty: the arguments do not fit together.
    """

    def __init__(self, wrong: Sequence[tuple[tuple[str | int, ...], str]]) -> None:
        self.wrong = tuple(wrong)
        super().__init__(self.told(lambda _: ""))

    def told(self, place: Callable[[tuple[str | int, ...]], str]) -> str:
        """Return the message; `place` returns what to add after each part, such as its line."""
        parts = (f"{_written(path)}: {said}" if path else said for path, said in self.wrong)
        return "; ".join(part + place(path) for part, (path, _) in zip(parts, self.wrong, strict=True))


def _written(path: Sequence[str | int]) -> str:
    """Return a path as `ingress[0].port`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")


class Temporary(HoldfastError):
    """A failure that may not recur at the next attempt.

    `delay` is the number of seconds that the kind suggests to wait first; None leaves the choice to the engine.
    """

    def __init__(self, message: str, *, delay: float | None = None) -> None:
        super().__init__(message)
        self.delay = delay


class ChangedMeanwhile(Temporary):
    """Something else has changed the resource during its repair, which therefore has not overwritten that change.

    The agent repairs the resource again at once, and counts a failure only if the same happens again.
    """

    def __init__(self, message: str, *, delay: float = 0.1) -> None:
        super().__init__(message, delay=delay)


class Overdue(Temporary):
    """A command that exceeded its timeout."""


def refused_call(text: str, error: OSError) -> HoldfastError:
    """Return an error with this text for a refused system call: `Temporary` if a later call may succeed."""
    return Temporary(text) if error.errno in TRANSIENT else Permanent(text)


class DeclarationError(HoldfastError, TypeError):
    """A kind is declared wrongly (no name, a name taken, a trait missing).

    This is a mistake of its author, never of a user.
    """

"""The two words a resource has for failure, and the programming errors of its author.

An attempt that cannot succeed raises `Permanent`; one that may succeed later raises `Temporary`. The engine turns
either into an `Outcome`; nothing else about an exception steers it.
"""

from __future__ import annotations

import errno

PASSING = frozenset(
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
"""What a system call refuses may be granted later: these refusals go away by themselves."""


class HoldfastError(Exception):
    """Root of every error that Holdfast raises on purpose; its text is fit for a user's eyes."""


class Permanent(HoldfastError):
    """Trying again will not help until something else changes."""


class Final(Permanent):
    """Nothing else that changes will help either: what is declared is to fail, or its arguments are wrong for this host.

    Other errors of a look, in noop, may only be for want of what comes before and would be changed.
    """


class Temporary(HoldfastError):
    """Trying again may help.

    `delay` is the number of seconds the author suggests to wait first; None leaves it to the engine.
    """

    def __init__(self, message: str, *, delay: float | None = None) -> None:
        super().__init__(message)
        self.delay = delay


class Overdue(Temporary):
    """A command that did not end in the time that it has."""


def passing_or_not(text: str, error: OSError) -> HoldfastError:
    """The error, in these words, for a system call that was refused: `Temporary` where the refusal may go away by itself."""
    return Temporary(text) if error.errno in PASSING else Permanent(text)


class DeclarationError(HoldfastError, TypeError):
    """A kind is declared wrongly (no name, a name taken, a trait missing): its author's mistake, never the user's."""

"""How the temporaries are named from which files are put in place: the agent makes them, and kinds leave them alone."""

from __future__ import annotations

import itertools
import os
import re

NAME_MAX = 255
"""Bytes that a name in a directory may have."""
SHORT = NAME_MAX // 4
"""Characters that a name may have whose bytes need not be counted."""
TEMPORARY = re.compile(rb"\..*\.holdfast-([0-9a-f]+)-[0-9a-f]+", re.DOTALL)
"""`.NAME.holdfast-PID-N`."""


OWN: set[str] = set()
"""Names of temporaries that this process is using: all others with its number were left by one that was killed."""
_numbers = itertools.count()


def take_name(name: str) -> str:
    """The name of a new temporary of this process for the file `name`, cut to what a file system allows; in `OWN` until it is given back."""
    tail = f".holdfast-{os.getpid():x}-{next(_numbers):x}"
    own = f".{name}{tail}"
    if len(own) > SHORT:
        own = f".{os.fsdecode(os.fsencode(name)[: NAME_MAX - 1 - len(tail)])}{tail}"
    OWN.add(own)
    return own


def give_back(name: str) -> None:
    """Say that a temporary is no more; harmless when done twice."""
    OWN.discard(name)


def is_temporary(name: str) -> bool:
    """Whether a name is that of a temporary: a file on its way into place."""
    return TEMPORARY.fullmatch(os.fsencode(name)) is not None

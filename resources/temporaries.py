"""Names of temporary files, which the agent renames into place and which no kind manages."""

from __future__ import annotations

import itertools
import os
import re

NAME_MAX = 255
"""Greatest length of a file name, in bytes."""
SHORT = NAME_MAX // 4
"""Greatest number of characters of a name whose bytes need not be counted."""
TEMPORARY = re.compile(rb"\..*\.holdfast-([0-9a-f]+)-[0-9a-f]+", re.DOTALL)
"""`.NAME.holdfast-PID-N`."""


OWN: set[str] = set()
"""Names of temporary files that this process is using.

Other names with this process id were left by an earlier process, which was killed.
"""
_numbers = itertools.count()


def take_name(name: str) -> str:
    """Return the name of a new temporary file for the file `name`, cut to the greatest length.

    The name stays in `OWN` until it is given back.
    """
    tail = f".holdfast-{os.getpid():x}-{next(_numbers):x}"
    own = f".{name}{tail}"
    if len(own) > SHORT:
        own = f".{os.fsdecode(os.fsencode(name)[: NAME_MAX - 1 - len(tail)])}{tail}"
    OWN.add(own)
    return own


def give_back(name: str) -> None:
    """Note that a temporary file no longer exists; harmless when repeated."""
    OWN.discard(name)


def is_temporary(name: str) -> bool:
    """Return whether a name is that of a temporary file."""
    return TEMPORARY.fullmatch(os.fsencode(name)) is not None

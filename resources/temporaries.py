"""Names of temporary files, which the agent renames into place and which kinds leave alone."""

from __future__ import annotations

import itertools
import os
import re

NAME_MAX = 255
"""Greatest length of a file name, in bytes."""
TEMPORARY = re.compile(rb"\..*\.holdfast-([0-9a-f]+)-[0-9a-f]+", re.DOTALL)
"""`.NAME.holdfast-PID-N`."""


OWN: set[bytes] = set()
"""Temporary files that this process is using.

All others with its process id were left by a process that was killed.
"""
_numbers = itertools.count()


def take_name(name: str) -> bytes:
    """Return the name of a new temporary file for the file `name`, cut to the greatest length.

    The name stays in `OWN` until it is given back.
    """
    tail = b".holdfast-%x-%x" % (os.getpid(), next(_numbers))
    own = b"." + os.fsencode(name)[: NAME_MAX - 1 - len(tail)] + tail
    OWN.add(own)
    return own


def give_back(name: str) -> None:
    """Note that a temporary file is gone; harmless when repeated."""
    OWN.discard(os.fsencode(name))


def is_temporary(name: str) -> bool:
    """Return whether a name is that of a temporary file."""
    return TEMPORARY.fullmatch(os.fsencode(name)) is not None

"""How the temporaries are named from which files are put in place: the agent makes them, and kinds leave them alone."""

from __future__ import annotations

import os
import re

NAME_MAX = 255
"""Bytes that a name in a directory may have."""
TEMPORARY = re.compile(rb"\..*\.holdfast-([0-9a-f]+)-[0-9a-f]+", re.DOTALL)
"""`.NAME.holdfast-PID-N`."""


def temporary_name(name: str, number: int) -> bytes:
    """A temporary of this process, by its number, for the file `name`; cut to what a file system allows."""
    tail = b".holdfast-%x-%x" % (os.getpid(), number)
    return b"." + os.fsencode(name)[: NAME_MAX - 1 - len(tail)] + tail


def is_temporary(name: str) -> bool:
    """Whether a name is that of a temporary: a file on its way into place."""
    return TEMPORARY.fullmatch(os.fsencode(name)) is not None

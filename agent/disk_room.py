"""Space on the disk of the agent's state: records of the past leave some of it to the journal.

Without its journal the agent may not change a resource that others watch, so records and kept content stop first.
"""

from __future__ import annotations

import os
from pathlib import Path

RESERVE = 16 << 20
"""Most bytes that are left free."""
PART = 4
"""At most this fraction of a small file system is left free; the records take at most this fraction, too."""


def spare(directory: str | Path) -> int:
    """Return the bytes that records and kept content may still take; negative if they take too many. Blocks."""
    info = os.statvfs(directory)
    return info.f_bavail * info.f_frsize - min(RESERVE, info.f_blocks * info.f_frsize // PART)


def share(directory: str | Path) -> int:
    """Return the most bytes of the database of records: a part of its file system. Blocks."""
    info = os.statvfs(directory)
    return info.f_blocks * info.f_frsize // PART

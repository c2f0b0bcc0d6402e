"""Processes of a user, for tools that do not check for them."""

from __future__ import annotations

import re
from pathlib import Path


def process_of(proc: Path, uid: int | str) -> int | None:
    """Return a process with this real, effective or saved uid; None if there is none. `proc` is /proc."""
    for status in proc.glob("[0-9]*/status"):
        try:
            text = status.read_text(errors="replace")
        except OSError:  # the process has ended
            continue
        found = re.search(r"^Uid:\s+(\d+)\s+(\d+)\s+(\d+)", text, re.MULTILINE)
        if found and str(uid) in found.groups():
            return int(status.parent.name)
    return None

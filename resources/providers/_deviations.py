"""Deviations of installed files, in the form of `rpm --verify`, which dpkg prints, too."""

from __future__ import annotations

import re
from collections.abc import Iterator

from holdfast.resources.interfaces.results import FileDeviation

DEVIATION = re.compile(r"^(missing|[?.A-Z0-9]{9}) +(?:([a-z]) )? *(/.*?)( \(.*\))?$", re.MULTILINE)
"""Checks, kind of the file, path, and the reason why it cannot be checked."""
CONFIGURATION = "c"
CHECKS = ("size", "mode", "digest", "device", "link", "owner", "group", "mtime", "capabilities")
"""Meaning of the nine characters."""


def deviations(text: str) -> Iterator[FileDeviation]:
    """Parse the output. `.` is a passed check, `?` one that was not made."""
    for checks, kind, path, reason in DEVIATION.findall(text):
        if checks == "missing":
            what = ["unreadable" if reason else "missing"]
        else:
            what = sorted(check for check, seen in zip(CHECKS, checks, strict=True) if seen not in ".?")
        yield FileDeviation(path=path, what=tuple(what), configuration=kind == CONFIGURATION)

"""Why apt failed, in one line, from what it and dpkg have written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from holdfast.resources.context import Completed

KILLED = ("dpkg exited unexpectedly", "dpkg received signal", "dpkg received a segmentation fault")
"""What apt says when dpkg did not come to its end: for want of memory perhaps, or of an administrator's patience."""
STEPS = ("Preparing to unpack", "Unpacking", "Setting up", "Removing", "Purging", "Processing triggers")
"""How a line begins with which dpkg says what it does next."""


def named(arguments: Sequence[str]) -> list[str]:
    """The packages among the arguments of apt-get."""
    return [Path(argument).name for argument in arguments[1:] if not argument.startswith("-")] or ["all packages"]


def complaint(done: Completed) -> str:
    """Why apt failed, in the words of whoever failed: a package's script and dpkg, or apt itself."""
    said = [line.strip() for line in done.stderr.splitlines() if line.strip() and not line.startswith(("W:", "debconf: delaying"))]
    errors = [line.removeprefix("E: ") for line in said if line.startswith("E:")]
    unmet = [line.strip() for line in done.stdout.splitlines() if " Depends: " in line]
    lines = [*last_step(done.stdout), *unmet, *[line for line in said if not line.startswith("E:")][-3:], *errors]
    return "; ".join(dict.fromkeys(lines)) or f"apt-get ended with status {done.retcode}"


def last_step(text: str) -> list[str]:
    """What was written in the step in which dpkg failed, at most eight lines; nothing if it did not."""
    before, failed, after = text.partition("dpkg: error processing ")
    if not failed:
        return []
    lines = before.splitlines()
    begin = max((number for number, line in enumerate(lines) if line.startswith(STEPS)), default=-1) + 1
    return [
        line.strip()
        for line in [*lines[begin:], f"{failed}{after.partition('Errors were encountered')[0]}".replace("\n", " ")]
        if line.strip()
    ][-8:]


def was_killed(done: Completed) -> bool:
    """Apt, or dpkg below it, did not come to its end: that says nothing against the packages."""
    return done.retcode < 0 or any(words in done.stderr for words in KILLED)

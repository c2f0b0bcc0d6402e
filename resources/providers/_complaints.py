"""One-line messages of failures of apt, from the output of apt and dpkg."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

from holdfast.resources.context import Completed

KILLED = ("dpkg exited unexpectedly", "dpkg received signal", "dpkg received a segmentation fault")
"""Messages of apt if dpkg was killed, for instance by the kernel's OOM killer or by an administrator."""
STEPS = ("Preparing to unpack", "Unpacking", "Setting up", "Removing", "Purging", "Processing triggers")
"""Beginnings of the lines in which dpkg announces its next step."""
FAILED = "dpkg: error processing "
"""Beginning of dpkg's error message."""
UNMET = re.compile(r" (Pre-)?Depends: | Conflicts: | Breaks: ")
"""Finds the lines that say why packages conflict."""
SHOWN = 8
"""Greatest number of lines of the step that failed."""
MOST, LONGEST = 20, 400
"""Greatest number of lines of an error, and of characters of a line: scripts of packages may write any amount."""


def complaint(done: Completed) -> str:
    """Return why apt failed: the messages of a package's script and dpkg, or those of apt itself.

    If there is no error message, the warnings are returned.
    """
    out, said = _lines(done.stdout), [line for line in _lines(done.stderr) if not line.startswith("debconf: delaying")]
    errors = [line.removeprefix("E:").strip() for line in said if line.startswith("E:")]
    errors = [line for line in errors if not line.startswith("Couldn't find any package by")]  # no name is a pattern
    others = [line for line in said if not line.startswith(("E:", "W:"))][-3:]
    unmet = [line for line in out if UNMET.search(line)]
    lines = [*last_step(out, errors), *unmet, *others, *errors]
    lines = lines or [line.removeprefix("W:").strip() for line in said]
    return shown(lines) or f"{done.argv[0]} ended with status {done.retcode}"


def messages(done: Completed) -> str:
    """Return the errors and the warnings of apt itself: a warning may say why a repository is refused."""
    said = [line for line in _lines(done.stderr) if line.startswith(("E:", "W:"))]
    return shown([line[2:].strip() for line in said]) or complaint(done)


def shown(lines: Sequence[str]) -> str:
    """Join the first and the last lines, without repetitions, to one line of bounded length."""
    different = [line if len(line) <= LONGEST else f"{line[:LONGEST]}..." for line in dict.fromkeys(lines)]
    if len(different) > MOST:
        half = MOST // 2
        different = [*different[:half], f"[{len(different) - 2 * half} more lines]", *different[-half:]]
    return "; ".join(different)


def last_step(lines: Sequence[str], errors: Sequence[str]) -> list[str]:
    """Return the end of the output of the step in which dpkg failed; nothing if it did not fail.

    If dpkg's own error is missing (apt stops reading its terminal once dpkg has ended), the last step is used.
    """
    failed = next((number for number, line in enumerate(lines) if line.startswith(FAILED)), None)
    if failed is None:
        return [*(_since_step(lines) or ())][-SHOWN:] if any("dpkg" in error for error in errors) else []
    said = _since_step(lines[:failed])
    error = takewhile(lambda line: not line.startswith("Errors were encountered"), lines[failed:])
    return [*(lines[:failed] if said is None else said), " ".join(error)][-SHOWN:]


def _since_step(lines: Sequence[str]) -> Sequence[str] | None:
    """Return the lines after the last step that dpkg announces; None if it announces none."""
    begin = max((number for number, line in enumerate(lines) if line.startswith(STEPS)), default=None)
    return None if begin is None else lines[begin + 1 :]


def _lines(text: str) -> list[str]:
    """Return the lines, except those that only show progress.

    apt gives dpkg a terminal, whose lines end in CR LF.
    """
    lines = (line.strip().rpartition("\r")[2].strip() for line in text.split("\n"))
    return [line for line in lines if line and not line.startswith("(Reading database")]

"""Comments that silence warnings: `# holdfast: ignore CODE`, or the same in a comment of Jinja (`{# ... #}`).

Such a comment silences warnings on its own line or, if it is alone on its line, on the next one, and on all lines that
are indented below that. At the head of a file it also silences warnings about the file as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from holdfast.states.codes import CODES
from holdfast.states.errors import Location, Problem

COMMENT = re.compile(r"#\s*holdfast:\s*ignore\b([^#\n]*)")
ALONE = re.compile(r"\s*(#.*|\{#.*)?")
"""A line that is blank or has only a comment."""
TAG = re.compile(r"\s*\{%.*")


class Ignored(NamedTuple):
    """One comment."""

    codes: frozenset[str]
    first: int
    """The lines for which it holds, from 1; 0 is the file as a whole."""
    last: int


def ignored(text: str) -> list[Ignored]:
    """Return the comments of a file that silence warnings."""
    if "holdfast:" not in text:
        return []
    lines = text.split("\n")
    return [
        Ignored(frozenset(_codes(found[1])), *_range(lines, index))
        for index, line in enumerate(lines)
        if (found := COMMENT.search(line))
    ]


def unknown_codes(file: str, text: str) -> Iterator[Problem]:
    """Yield comments that name an unknown code, or no code."""
    for number, line in enumerate(text.split("\n"), 1) if "holdfast:" in text else ():
        found = COMMENT.search(line)
        if found is None:
            continue
        for code in _codes(found[1]) or [""]:
            if code not in CODES:
                said = (
                    f"there is no code {code!r} to ignore" if code else "this comment does not say which code to ignore"
                )
                location = Location(file, number, found.start() + 1)
                yield Problem(
                    location,
                    "ignore-unknown",
                    said,
                    "write '# holdfast: ignore CODE', a code that `holdfast doc codes` lists",
                    line[:500],
                )


def silenced(problem: Problem, comments: Mapping[str, Iterable[Ignored]]) -> bool:
    """Return whether a comment of its file silences a problem."""
    return any(
        problem.code in comment.codes and comment.first <= problem.location.line <= comment.last
        for comment in comments.get(problem.location.file, ())
    )


def _codes(text: str) -> list[str]:
    return [word for word in re.split(r"[\s,]+", text.removesuffix("}")) if word]


def _range(lines: list[str], index: int) -> tuple[int, int]:
    """Return the lines that a comment in line `index` (from 0) holds for, from 1."""
    head = all(ALONE.fullmatch(line) for line in lines[: index + 1])
    first = index
    if ALONE.fullmatch(lines[index]):
        first = next((at for at in range(index + 1, len(lines)) if not ALONE.fullmatch(lines[at])), index)
    depth, item = _depth(lines[first])
    last = first
    for at in range(first + 1, len(lines)):
        if ALONE.fullmatch(lines[at]) or TAG.fullmatch(lines[at]):
            continue
        if _depth(lines[at]) <= (depth, item):
            break
        last = at
    return 0 if head else index + 1, last + 1


def _depth(line: str) -> tuple[int, bool]:
    """Return the indentation of a line; a list may have the same indentation as its key."""
    bare = line.lstrip()
    return len(line) - len(bare), bare.startswith("- ")

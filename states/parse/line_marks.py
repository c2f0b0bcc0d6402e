"""Invisible marks in rendered text that say from which template and line it comes.

Rendering changes line numbers: a loop makes many lines of one, a condition none. Therefore each line of text that a
template prints gets an invisible mark with its line number. The marks are removed after rendering. Text that a template
keeps as a value (macros, `set` blocks, ...) has no marks, because its length and content may matter.
"""

from __future__ import annotations

import re

BEGIN, END = "\ufdd0", "\ufdd1"
"""Noncharacters of Unicode, which are reserved for use inside of programs."""
_MARK = re.compile(f"{BEGIN}([^{BEGIN}{END}]*){BEGIN}([0-9]{{1,9}}){END}")


def marked(text: str, line: int, name: str) -> str:
    """Return the text of a template with a mark at its beginning and after each newline."""
    return "\n".join(f"{BEGIN}{name}{BEGIN}{line + count}{END}{part}" for count, part in enumerate(text.split("\n")))


def unmark(text: str) -> str:
    """Return a text without marks."""
    return _MARK.sub("", text) if BEGIN in text else text


def split_marks(text: str, name: str) -> tuple[str, list[tuple[str, int]]]:
    """Return a rendered text without its marks, and for each of its lines the template and line of its origin.

    A line without a mark has the same origin as the line before it.
    """
    lines, origins = [], []
    origin = (name, 1)
    for line in text.split("\n"):
        found = _MARK.search(line)
        if found is not None:
            while (after := _MARK.match(line, found.end())) is not None:
                found = after  # the last of several marks in a row is nearest to the text
            origin = (found[1], int(found[2]))
            line = _MARK.sub("", line)  # noqa: PLW2901 - the line as it should be
        lines.append(line)
        origins.append(origin)
    return "\n".join(lines), origins

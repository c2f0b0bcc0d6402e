r"""Text made safe to show: users choose names and contents, and terminals interpret control characters.

Control characters (C0, DEL, C1) move the cursor, or change the colours or the title of a terminal. Characters that set
the direction of writing make a name look like another one. Separators of lines and paragraphs forge lines. Surrogates
stand for bytes that are not UTF-8. All output to a terminal or to the journal shows these characters as escapes, like
`\x1b` and `\u202e`. Data are not changed, because JSON has its own escapes.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

DIRECTIONS = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Characters that change the direction of the text around them."""
OBEYED = (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, *DIRECTIONS, *range(0xD800, 0xE000))
"""All characters that are escaped in text of one line."""
LAYOUT = frozenset(map(ord, "\n\t"))
"""Characters of `OBEYED` that are kept in text of several lines."""


def _written(code: int) -> str:
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


# The tables are made when they are first used: most runs of a verb show plain text, and need none of them.


@cache
def _one_line() -> dict[int, str]:
    return {code: _written(code) for code in OBEYED}


@cache
def _lines() -> dict[int, str]:
    return {code: text for code, text in _one_line().items() if code not in LAYOUT}


@cache
def _in_json() -> dict[int, str]:
    return {code: f"\\u{code:04x}" for code in OBEYED if code >= 0x7F}


def clean(text: str) -> str:
    """Return text of several lines without characters that a terminal interprets, except line feeds and tabs."""
    return text if text.replace("\n", "").replace("\t", "").isprintable() else text.translate(_lines())


def escaped(text: str) -> str:
    """Return text of one line without characters that a terminal interprets or that end the line."""
    return text if text.isprintable() else text.translate(_one_line())


def to_json(value: Any) -> str:
    """Return a value as JSON on one line that is safe to show. Values that JSON cannot represent become text."""
    return json.dumps(value, default=str, ensure_ascii=False).translate(_in_json())

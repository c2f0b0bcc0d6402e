r"""Text made safe to show: users choose names and contents, and terminals interpret control characters.

Control characters (C0, DEL, C1) move the cursor, or change the colours or the title of a terminal. Characters that set
the direction of writing make a name look like another one. Separators of lines and paragraphs forge lines. Surrogates
stand for bytes that are not UTF-8. All output to a terminal or to the journal shows these characters as escapes, like
`\x1b` and `\u202e`. Data are not changed, because JSON has its own escapes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

OBEYED = r"\x00-\x1f\x7f-\x9f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff"
"""All characters that are escaped in text of one line, as ranges for a regular expression.

Those from U+061C to U+2069, except the two separators, change the direction of the text around them.
"""
LAYOUT = frozenset("\n\t")
"""Characters of `OBEYED` that are kept in text of several lines."""


@cache
def obeyed() -> re.Pattern[str]:
    """Return the expression of one such character. It is compiled at its first use, as most runs do not need it."""
    return re.compile(f"[{OBEYED}]")


def _written(found: re.Match[str]) -> str:
    code = ord(found[0])
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _unless_layout(found: re.Match[str]) -> str:
    return found[0] if found[0] in LAYOUT else _written(found)


def _in_json(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def clean(text: str) -> str:
    """Return text of several lines without characters that a terminal interprets, except line feeds and tabs."""
    return text if text.replace("\n", "").replace("\t", "").isprintable() else obeyed().sub(_unless_layout, text)


def escaped(text: str) -> str:
    """Return text of one line without characters that a terminal interprets or that end the line."""
    return text if text.isprintable() else obeyed().sub(_written, text)


def worded(value: Any) -> str:
    """Return a value on one line in the words of state files: `true`, `{timeout: 5min}`. Texts have no quotes."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{worded(key)}: {worded(item)}' for key, item in value.items())}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(worded, value))}]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return escaped(str(value))


def to_json(value: Any) -> str:
    """Return a value as JSON on one line that is safe to show. Values that JSON cannot represent become text."""
    return obeyed().sub(_in_json, json.dumps(value, default=str, ensure_ascii=False))

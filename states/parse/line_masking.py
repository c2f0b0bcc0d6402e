"""Masks the values in a line of a file that may contain secrets, so that an error can show the line."""

from __future__ import annotations

import re

from holdfast.resources.secrets import MASK

BEFORE = r"""\s*(?:-\s+)*(?:(?:[A-Za-z_][\w.-]*|'[\w.-]+'|"[\w.-]+")\s*:(?=\s|$)\s*)?"""
"""Indentation, dashes, and a key of one word."""
TAG = r"(\{[{%].*?(?:[%}]\}|$))"
"""A tag of a template, closed or not."""
LITERAL = r"""'[^']*(?:'|$)|"[^"]*(?:"|$)|(?<![\w.])\d[\w.]*"""
"""A text or a number in a tag, closed or not."""


def mask_line(line: str) -> str:
    """Return the line with its key and its template tags, and a mask for every value."""
    before = re.match(BEFORE, line)
    begin = before.end() if before else 0
    parts = re.split(TAG, line[begin:])
    shown = [
        re.sub(LITERAL, MASK, part) if number % 2 else MASK if part.strip() else part
        for number, part in enumerate(parts)
    ]
    return line[:begin] + "".join(shown)

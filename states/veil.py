"""A line of a file in which secrets may stand, for an error: what it is about, without any value."""

from __future__ import annotations

import re

from holdfast.resources.secrets import MASK

BEFORE = re.compile(r"""\s*(?:-\s+)*(?:(?:[A-Za-z_][\w.-]*|'[\w.-]+'|"[\w.-]+")\s*:(?=\s|$)\s*)?""")
"""Indentation, dashes, and a key of one word."""
TAG = re.compile(r"(\{[{%].*?(?:[%}]\}|$))")
"""A tag of a template, closed or not."""
LITERAL = re.compile(r"""'[^']*(?:'|$)|"[^"]*(?:"|$)|(?<![\w.])\d[\w.]*""")
"""A text or a number in a tag, closed or not."""


def veiled(line: str) -> str:
    """A line with its key and the tags of the template in it; a mask stands for every value."""
    before = BEFORE.match(line)
    begin = before.end() if before else 0
    parts = TAG.split(line[begin:])
    shown = [
        LITERAL.sub(MASK, part) if number % 2 else MASK if part.strip() else part for number, part in enumerate(parts)
    ]
    return line[:begin] + "".join(shown)

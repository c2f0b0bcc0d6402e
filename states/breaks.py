"""What ends a line: YAML counts more lines in a text than an editor does."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeVar

_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
"""What ends a line for YAML."""
_ODD_BREAK = re.compile("\r(?!\n)|[\x85\u2028\u2029]")
"""What ends a line for YAML, but not for an editor."""
Origin = TypeVar("Origin")


def yaml_lines(text: str) -> list[str]:
    """The lines of a text as YAML counts them: they end at more characters than those of an editor."""
    return _BREAK.split(text)


def has_odd_breaks(text: str) -> bool:
    """Whether YAML counts more lines in a text than an editor does."""
    return _ODD_BREAK.search(text) is not None


def by_yaml_lines(text: str, origins: Iterable[Origin]) -> list[Origin]:
    """For each line of a text as YAML counts them the entry, in `origins`, of the line that it is in."""
    lines = (line.removesuffix("\r") for line in text.split("\n"))
    return [origin for line, origin in zip(lines, origins, strict=False) for _ in yaml_lines(line)]

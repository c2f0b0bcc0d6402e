"""Line breaks of YAML: YAML counts more lines in a text than an editor does."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeVar

_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
"""Line breaks of YAML."""
_ODD_BREAK = re.compile("\r(?!\n)|[\x85\u2028\u2029]")
"""Line breaks of YAML that an editor does not count."""
Origin = TypeVar("Origin")


def yaml_lines(text: str) -> list[str]:
    """Return the lines of a text as YAML counts them."""
    return _BREAK.split(text)


def has_odd_breaks(text: str) -> bool:
    """Return whether YAML counts more lines in a text than an editor does."""
    return _ODD_BREAK.search(text) is not None


def by_yaml_lines(text: str, origins: Iterable[Origin]) -> list[Origin]:
    """Return one origin for each line of YAML; `origins` has one for each line of an editor."""
    lines = (line.removesuffix("\r") for line in text.split("\n"))
    return [origin for line, origin in zip(lines, origins, strict=False) for _ in yaml_lines(line)]

"""Lines of text files, each with its end, so that what is not changed stays as it is. All functions are pure."""

from __future__ import annotations

import re


def split(text: str) -> list[str]:
    """Return the lines of a text, with their line ends.

    Only line feeds, perhaps after a carriage return, end a line.
    """
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def bare(line: str) -> str:
    """Return a line without its end."""
    return line.removesuffix("\n").removesuffix("\r")


def end_of(line: str) -> str:
    """Return the end of a line: a line feed, perhaps after a carriage return; a line feed for a line without an end."""
    return "\r\n" if line.endswith("\r\n") else "\n"


def ended(text: str) -> str:
    """Return the text with an end of its last line."""
    return text if not text or text.endswith("\n") else text + end_of(text[: text.find("\n") + 1])

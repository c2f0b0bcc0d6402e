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


def encoded(text: str) -> bytes:
    """Return a text as the bytes of its file."""
    return text.encode(errors="surrogateescape")


def decoded(data: bytes) -> str:
    """Return the bytes of a file as text, in which a byte that is not UTF-8 is a surrogate."""
    return data.decode(errors="surrogateescape")


def ended(text: str) -> str:
    """Return the text with an end of its last line."""
    if not text or text.endswith("\n"):
        return text
    return text + ("\n" if text.endswith("\r") else end_of(text[: text.find("\n") + 1]))

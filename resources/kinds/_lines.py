"""Lines of text files, each with its line break, so that unchanged lines keep theirs. All functions are pure."""

from __future__ import annotations

import re


def split(text: str) -> list[str]:
    """Return the lines of a text with their line breaks.

    Only a line feed, possibly after a carriage return, ends a line.
    """
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def bare(line: str) -> str:
    """Return a line without its line break."""
    return line.removesuffix("\n").removesuffix("\r")


def end_of(line: str) -> str:
    """Return the line break of a line: a line feed, possibly after a carriage return. Default: a line feed."""
    return "\r\n" if line.endswith("\r\n") else "\n"


def encoded(text: str) -> bytes:
    """Return a text as the bytes of its file."""
    return text.encode(errors="surrogateescape")


def decoded(data: bytes) -> str:
    """Return the bytes of a file as text; bytes that are not UTF-8 become surrogates."""
    return data.decode(errors="surrogateescape")


def ended(text: str) -> str:
    """Return the text with a line break after its last line."""
    if not text or text.endswith("\n"):
        return text
    return text + ("\n" if text.endswith("\r") else end_of(text[: text.find("\n") + 1]))

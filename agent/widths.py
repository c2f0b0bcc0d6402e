"""Widths of text in columns of a terminal, and functions that fit text to a width."""

from __future__ import annotations

from collections.abc import Iterator


def columns(text: str) -> int:
    """Return the number of columns that a text takes on a terminal."""
    return len(text) if text.isascii() else sum(_columns(letter) for letter in text)


def _columns(letter: str) -> int:
    if letter.isascii():
        return 1
    from unicodedata import combining, east_asian_width  # noqa: PLC0415 - most texts have ASCII characters only

    return 0 if combining(letter) else 2 if east_asian_width(letter) in "WF" else 1


def pad(text: str, width: int) -> str:
    """Return text padded with blanks to a number of columns."""
    return text + " " * (width - columns(text))


def beginning(text: str, width: int) -> str:
    """Return as much of a text as fits into a number of columns."""
    taken = 0
    for place, letter in enumerate(text):
        taken += _columns(letter)
        if taken > width:
            return text[:place]
    return text


def fit(text: str, width: int) -> str:
    """Return the beginning of a text that fits into a number of columns; `…` stands for the rest."""
    if columns(text) <= width:
        return text
    return beginning(text, width - 1) + "…" if width > 0 else ""


def shorten(text: str, width: int) -> str:
    """Return both ends of a text with `…` between them: file names often differ at the end."""
    if columns(text) <= width:
        return text
    head = fit(text, max(1, width * 2 // 5))
    tail, room = "", width - columns(head)
    for letter in reversed(text):
        if columns(tail) + _columns(letter) > room:
            break
        tail = letter + tail
    return head + tail


def wrap(text: str, width: int) -> list[str]:
    """Return a text in lines of at most `width` columns, broken between words if possible."""
    first, *rest = text.split(" ")
    lines, line = [], first
    for word in rest:
        if columns(line) + 1 + columns(word) <= width:
            line += f" {word}"
        else:
            *full, line = [*_pieces(line, width), *_pieces(word, width)]
            lines += full
    return [*lines, *_pieces(line, width)]


def flow(text: str, width: int | None) -> list[str]:
    """Return each line of a text wrapped to `width` columns, with its indentation repeated; None: unchanged."""
    if width is None:
        return text.split("\n")
    found = []
    for line in text.split("\n"):
        said = line.lstrip(" ")
        indent = " " * min(len(line) - len(said), width // 2)
        found += [indent + part for part in wrap(said, width - len(indent))]
    return found


def _pieces(word: str, width: int) -> Iterator[str]:
    """Yield a word longer than a line, in pieces."""
    while columns(word) > width and len(word) > 1:
        piece = beginning(word, width) or word[0]
        yield piece
        word = word[len(piece) :]
    yield word

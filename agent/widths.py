"""How many columns a text takes, and texts made to fit into so many."""

from __future__ import annotations

from collections.abc import Iterator
from unicodedata import combining, east_asian_width


def columns(text: str) -> int:
    """Columns that a text takes on a terminal."""
    return len(text) if text.isascii() else sum(_columns(letter) for letter in text)


def _columns(letter: str) -> int:
    return 0 if combining(letter) else 2 if east_asian_width(letter) in "WF" else 1


def pad(text: str, width: int) -> str:
    """Text with blanks behind it, so that it takes so many columns."""
    return text + " " * (width - columns(text))


def beginning(text: str, width: int) -> str:
    """As much of a text as so many columns hold."""
    taken = 0
    for place, letter in enumerate(text):
        taken += _columns(letter)
        if taken > width:
            return text[:place]
    return text


def fit(text: str, width: int) -> str:
    """The beginning of a text, as much as so many columns hold; `…` stands for the rest."""
    if columns(text) <= width:
        return text
    return beginning(text, width - 1) + "…" if width > 0 else ""


def shorten(text: str, width: int) -> str:
    """Both ends of a text, `…` between them: what names of files differ in stands at the end."""
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
    """A text in lines of so many columns, broken between words where that can be."""
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
    """Each line of a text in lines of so many columns, where it goes on indented as where it begins; None: as it is."""
    if width is None:
        return text.split("\n")
    found = []
    for line in text.split("\n"):
        said = line.lstrip(" ")
        indent = " " * min(len(line) - len(said), width // 2)
        found += [indent + part for part in wrap(said, width - len(indent))]
    return found


def _pieces(word: str, width: int) -> Iterator[str]:
    """A word that is longer than a line, in several."""
    while columns(word) > width and len(word) > 1:
        piece = beginning(word, width) or word[0]
        yield piece
        word = word[len(piece) :]
    yield word

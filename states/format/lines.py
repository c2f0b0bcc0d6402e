"""Splits a state file into lines that can be moved, and masks their Jinja so that YAML can be parsed.

In the mask, an expression is a word of the same length, and a line of tags is blank, so that columns are those of the
file. A piece of Jinja that spans several lines makes one line of them, and only its beginning moves.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from holdfast.states.format.jinja import Piece

BLANKS = " \t"
"""White space within a line of YAML; other kinds are text."""


class Kind(Enum):
    """The kind of a line."""

    BLANK = 0
    COMMENT = 1
    """A comment of YAML."""
    TAGS = 2
    """Jinja that prints nothing."""
    DATA = 3
    LOUD = 4
    """Jinja that may print anything."""


@dataclass(frozen=True, slots=True)
class LayoutLine:
    """One line, or several lines that a piece of Jinja connects."""

    number: int
    """Number of its first line, from 1."""
    text: str
    masked: str
    kind: Kind
    pieces: tuple[Piece, ...] = ()
    loose: bool = False
    """Its Jinja may print more than a part of one line."""

    @property
    def indent(self) -> int:
        """Number of leading spaces."""
        return indent_of(self.text)


def indent_of(text: str) -> int:
    """Return the number of leading spaces of a text."""
    return len(text) - len(text.lstrip(" "))


def lines_of(text: str, pieces: Sequence[Piece]) -> list[LayoutLine]:
    """Return all lines of a text; the last is not empty unless the text ends with an empty line."""
    lines = []
    start, number, first = 0, 1, 0
    for end in _ends(text, pieces):
        last = first
        while last < len(pieces) and pieces[last].start < end:
            last += 1
        lines.append(_line(number, text[start:end], start, tuple(pieces[first:last])))
        number += text.count("\n", start, end) + 1
        start, first = end + 1, last
    return lines


def _ends(text: str, pieces: Sequence[Piece]) -> Iterator[int]:
    """Yield the offsets of the ends of lines: each newline that is not inside of a piece of Jinja."""
    starts = [piece.start for piece in pieces]
    at = -1
    while (at := text.find("\n", at + 1)) >= 0:
        index = bisect_right(starts, at) - 1
        if index < 0 or pieces[index].end <= at:
            yield at
    if text and not text.endswith("\n"):
        yield len(text)


def _line(number: int, text: str, start: int, pieces: tuple[Piece, ...]) -> LayoutLine:
    """Make one line."""
    data = _replaced(text, start, pieces, lambda _: " ")
    if not data.strip(BLANKS):
        if not pieces:
            return LayoutLine(number, text, text, Kind.BLANK)
        loud = any(piece.puts_out for piece in pieces)
        masked = text[: indent_of(text)] + text[pieces[-1].end - start :]
        return LayoutLine(number, text, masked, Kind.LOUD if loud else Kind.TAGS, pieces, loose=loud)
    masked = _replaced(
        text, start, pieces, lambda piece: "x" if piece.puts_out or piece.step or piece.switches else " "
    )
    comment = all(part.lstrip(BLANKS).startswith("#") for part in (data, masked))
    loose = "\n" in text or _is_loose(pieces) or _begins_with_tag(text, start, pieces)
    return LayoutLine(number, text, masked, Kind.COMMENT if comment else Kind.DATA, pieces, loose)


def _begins_with_tag(text: str, start: int, pieces: Sequence[Piece]) -> bool:
    """Return whether a line, which begins at offset `start`, begins with Jinja that prints nothing."""
    return bool(pieces) and not pieces[0].puts_out and not text[: pieces[0].start - start].strip(BLANKS)


def _replaced(text: str, start: int, pieces: Sequence[Piece], fill: Callable[[Piece], str]) -> str:
    """Return the text with each piece filled with one character."""
    parts, at = [], 0
    for piece in pieces:
        parts += [text[at : piece.start - start], fill(piece) * (piece.end - piece.start)]
        at = piece.end - start
    return "".join([*parts, text[at:]])


def _is_loose(pieces: Sequence[Piece]) -> bool:
    """Return whether Jinja in a line of data does more than print a part of it."""
    depth = 0
    for piece in pieces:
        depth += piece.step
        if piece.many or piece.left or piece.right or depth < 0 or (piece.switches and not depth):
            return True
    return depth != 0


Origin = tuple[int, bool]
"""Origin of the white space before a line: the column of a line of tags; whether its first tag strips on the left."""


def tangled(lines: Sequence[LayoutLine]) -> LayoutLine | None:
    """Return the first line whose rendered column may differ from its column in the file; None if there is none.

    A tag that strips what follows (`-%}`) makes the next line begin at the column of the tag. If its block is left out
    or repeated, the next line begins at the column of the tag after which that happens. This is safe if all of these
    are in the same column.
    """
    jumps = _jumps(lines)
    chain: frozenset[Origin] = frozenset()
    begun = False
    for line in lines:
        if line.kind is Kind.TAGS:
            chain = (
                chain | {_origin(line)} | jumps.get(line.number, frozenset()) if line.pieces[-1].right else frozenset()
            )
            begun = begun or _has_loop(line)  # a loop begins again after its own text
        elif line.kind is not Kind.BLANK:
            if (line.pieces and _strips(line)) or (chain and not _aligned(line, chain, begun)):
                return line
            chain, begun = frozenset(), True
    return None


class _Jumps:
    """Collects the origins from which a template may jump to a line of tags, other than from the line before it."""

    def __init__(self) -> None:
        self.found: dict[int, frozenset[Origin]] = {}
        """Number of a line of tags -> origins."""
        self._opened: list[tuple[set[Origin], list[int]]] = []
        """For each open block: the origins of its tags, and the number of its line if it is a loop."""

    def piece(self, line: LayoutLine, piece: Piece, chain: frozenset[Origin]) -> None:
        """Process one tag of a line; `chain` are the origins of the white space before the line."""
        if piece.step > 0:
            self._opened.append((set(), [line.number] if piece.word == "for" else []))
        if self._opened and (piece.step or piece.switches):
            tags, loop = self._opened[-1]
            tags.update(chain, [_origin(line)])
            for number in [*loop, line.number] if piece.step <= 0 else loop:
                self.found[number] = self.found.get(number, frozenset()) | tags
        if piece.step < 0 and self._opened:
            self._opened.pop()


def _jumps(lines: Sequence[LayoutLine]) -> dict[int, frozenset[Origin]]:
    """Return the origins from which a template may jump to a line of tags, except the line before it."""
    jumps = _Jumps()
    chain: frozenset[Origin] = frozenset()
    for line in lines:
        if line.kind is Kind.BLANK:
            continue
        for piece in line.pieces if line.kind is Kind.TAGS else ():
            jumps.piece(line, piece, chain)
        chain = chain | {_origin(line)} if line.kind is Kind.TAGS and line.pieces[-1].right else frozenset()
    return jumps.found


def _origin(line: LayoutLine) -> Origin:
    return line.indent, line.pieces[0].left


def _has_loop(line: LayoutLine) -> bool:
    return any(piece.word == "for" for piece in line.pieces)


def _strips(line: LayoutLine) -> bool:
    """Return whether a line with data strips the newline before or after it."""
    before = line.pieces[0].left and line.text.lstrip(BLANKS).startswith("{")
    return before or (line.pieces[-1].right and line.text.rstrip(BLANKS).endswith("}"))


def _aligned(line: LayoutLine, chain: Iterable[Origin], begun: bool) -> bool:
    """Return whether a line begins in its own column, whatever the tags before it have stripped."""
    if any(left for _, left in chain):
        return not begun and line.indent == 0
    return all(indent == line.indent for indent, _ in chain)

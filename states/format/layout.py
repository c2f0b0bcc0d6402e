"""Lays out one declaration: indentation of its lines, one space after a dash and after the colon of a key.

In YAML, columns have a meaning, so a line may move only together with all lines that are compared with it, whatever
branch of a template is taken. This holds if the body of each block of Jinja consists of complete siblings: every
rendering is then the same tree with some subtrees left out or repeated, and the column of a subtree depends only on its
ancestors. All other layouts are kept.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.states.format.lines import BLANKS, Kind, LayoutLine, indent_of
from holdfast.states.format.structure import LayoutKept, LayoutMark, Span, Structure, structure

STEP = 2
"""Columns from one level to the next."""


@dataclass(slots=True)
class _Level:
    """An open list or mapping."""

    old: int
    kind: str
    new: int
    line: int = 0
    """New indentation of the line with the latest key."""

    @property
    def depth(self) -> tuple[int, bool]:
        """As `LayoutMark.depth`."""
        return self.old, self.kind == "-"


def layout(lines: Sequence[LayoutLine], gap: Sequence[LayoutLine]) -> list[str]:
    """Return the lines of a declaration in the canonical form.

    `gap` are the lines up to the next declaration. Raises `LayoutKept`.
    """
    found = structure(lines)
    _check_blocks([*lines, *gap], found)
    _check_widths([*lines, *gap], found)
    return _Layout(lines, found).texts()


class _Blocks:
    """Blocks of Jinja and the depth of their contents."""

    def __init__(self) -> None:
        self.opened: list[list[tuple[int, bool] | None]] = []
        """For each open block, the depth at which each of its branches begins; None: not known yet."""
        self.ended: list[tuple[int, bool]] = []
        """The depths at which the branches of the last closed blocks began."""

    def tags(self, line: LayoutLine) -> None:
        """Process a line of tags."""
        for piece in line.pieces:
            if piece.step > 0:
                self.opened.append([None])
            elif piece.switches and self.opened:
                self.opened[-1].append(None)
            elif piece.step < 0 and self.opened:
                self.ended += [depth for depth in self.opened.pop() if depth is not None]

    def comment(self, depth: tuple[int, bool], line: LayoutLine) -> None:
        """Process a comment, or any other token, at this depth. Raises `LayoutKept`."""
        if any(depth > end for end in self.ended):
            raise LayoutKept("lines after a block of Jinja belong to its content", line)

    def data(self, depth: tuple[int, bool], line: LayoutLine) -> None:
        """Process a token at this depth. Raises `LayoutKept`."""
        self.comment(depth, line)
        self.ended = []
        for branches in self.opened:
            first = next((branch for branch in branches if branch is not None), depth)
            if depth < first or (branches[-1] is None and depth != first):
                raise LayoutKept("a block of Jinja contains more than siblings", line)
            branches[-1] = first


def _check_blocks(lines: Sequence[LayoutLine], found: Structure) -> None:
    """Raise `LayoutKept` for blocks of Jinja whose body does not consist of complete siblings."""
    inside, blocks = found.continued, _Blocks()
    for number, line in enumerate(lines):
        if number in inside:
            continue
        if number in found.marks:
            blocks.data(found.marks[number][0].depth, line)
        elif line.kind is Kind.COMMENT:
            blocks.comment((line.indent, False), line)
        elif line.kind is Kind.TAGS:
            blocks.tags(line)


def _check_widths(lines: Sequence[LayoutLine], found: Structure) -> None:
    """Raise `LayoutKept` for blanks that could become part of a block scalar, in some branch."""
    starts = [_start(span, lines) for span in found.spans if span.block]
    inside = found.continued
    if not starts or not any(line.pieces for line in lines):
        return
    for number, line in enumerate(lines):
        if number not in inside and not line.masked.strip(BLANKS) and len(line.masked) > min(starts):
            raise LayoutKept("blanks could become part of the text before them", line)


def _start(span: Span, lines: Sequence[LayoutLine]) -> int:
    """Return the least column at which a block scalar may begin."""
    if any(char.isdigit() for char in span.header):
        return lines[span.first].indent + 1
    inside = (lines[number] for number in range(span.first + 1, span.last + 1))
    return min((line.indent for line in inside if line.masked.strip(BLANKS)), default=lines[span.first].indent + 1)


def _first_content(span: Span, lines: Sequence[LayoutLine]) -> int:
    """Return the first line of a block scalar that is not blank; 0 if there is none."""
    return next((number for number in range(span.first + 1, span.last + 1) if lines[number].masked.strip(BLANKS)), 0)


class _Layout:
    """State of laying out one declaration."""

    def __init__(self, lines: Sequence[LayoutLine], found: Structure) -> None:
        self.lines, self.found = lines, found
        self.stack: list[_Level] = []
        self.new: dict[int, str] = {}
        """Line -> its formatted text."""

    def texts(self) -> list[str]:
        """Lay out all lines. Raises `LayoutKept`."""
        spans = {span.first: span for span in self.found.spans}
        for number, line in enumerate(self.lines):
            if number not in self.found.marks:
                continue
            indent = self._indent(self.found.marks[number])
            self.new[number] = self._line(number, indent)
            if number in spans:
                self._continue(spans[number], indent - line.indent)
        self._between()
        return self._collapsed()

    def _indent(self, marks: list[LayoutMark]) -> int:
        """Return the new column of a line with these marks; opens and closes levels."""
        column = indent = -1
        for mark in marks:
            column = self._column(mark, column)
            indent = column if indent < 0 else indent
            if mark.kind == "key":
                self.stack[-1].line = indent
        return indent

    def _column(self, mark: LayoutMark, before: int) -> int:
        """Return the new column of a mark; `before` is the column of the dash before it in its line, or -1."""
        stack = self.stack
        while stack and (stack[-1].depth > mark.depth or (mark.kind == "leaf" and stack[-1].old >= mark.column)):
            stack.pop()
        if stack and stack[-1].depth == mark.depth and mark.kind != "leaf":
            return stack[-1].new
        new = before + STEP if before >= 0 else self._below(mark)
        if mark.kind != "leaf":
            stack.append(_Level(mark.column, mark.kind, new))
        return new

    def _below(self, mark: LayoutMark) -> int:
        """Return the new column of a mark that begins its line, one level below the innermost open list or mapping."""
        if not self.stack:
            return 0
        level = self.stack[-1]
        if level.kind == "key" and mark.kind == "-":
            return max(level.line + STEP, level.new)
        return level.new + STEP

    def _line(self, number: int, indent: int) -> str:
        """Return a line with its new indentation, and one space where a gap was."""
        line = self.lines[number]
        text = line.text
        for start, end in sorted(self.found.gaps.get(number, ()), reverse=True):
            if not line.masked[start:end].strip(BLANKS) and not text[start:end].strip(BLANKS):
                text = f"{text[:start]} {text[end:]}"
        return " " * indent + text.rstrip(BLANKS).lstrip(" ")

    def _continue(self, span: Span, shift: int) -> None:
        """Move the lines of a value that begins in a line which moves by `shift`."""
        base = self.stack[-1].new if self.stack else 0
        numbers = range(span.first + 1, span.last + 1)
        if span.block:
            first = _first_content(span, self.lines)
            moved = any(char.isdigit() for char in span.header)
            by = (
                (base - self.stack[-1].old if self.stack else 0)
                if moved
                else base + STEP - self.lines[first].indent
                if first
                else 0
            )
            for number in numbers:
                self.new[number] = self._moved(number, by, base)
            return
        for number in numbers:
            line = self.lines[number]
            if line.kind is Kind.BLANK:
                self.new[number] = line.text
            else:
                self.new[number] = " " * max(line.indent + shift, base + STEP) + line.text.lstrip(" ")

    def _moved(self, number: int, by: int, base: int) -> str:
        """Return the new text of a line of a block scalar.

        Raises `LayoutKept` if it cannot be moved as far as the others.
        """
        line = self.lines[number]
        if not by or not line.text:
            return line.text
        if line.kind is Kind.DATA and line.pieces:
            raise LayoutKept("the output of Jinja within a text may have several lines", line)
        if line.indent + by < (base + 1 if line.masked.strip(BLANKS) else 0):
            raise LayoutKept("a line of a text is indented less than the others", line)
        return " " * (line.indent + by) + line.text[line.indent :]

    def _between(self) -> None:
        """Move tags and comments with the next data in the same column, or else with the data that follows."""
        known = sorted(self.found.marks)
        for number, line in enumerate(self.lines):
            if number in self.new:
                continue
            at = bisect_left(known, number)
            near = [*known[at : at + 1], *known[max(at - 1, 0) : at]]
            guide = next(
                (other for other in near if self.lines[other].indent == line.indent),
                near[0] if near and line.indent else None,
            )
            shift = 0 if guide is None else indent_of(self.new[guide]) - self.lines[guide].indent
            text = line.text.strip(BLANKS)
            self.new[number] = " " * max(line.indent + shift, 0) + text if text else ""

    def _collapsed(self) -> list[str]:
        """Return the texts with at most one blank line in a row; unchanged if a block scalar keeps its blank lines."""
        inside = self.found.continued
        keeps = any("+" in span.header for span in self.found.spans)
        return [
            self.new[number]
            for number in range(len(self.lines))
            if keeps or number in inside or self.new[number] or number - 1 in inside or self.new.get(number - 1, "x")
        ]

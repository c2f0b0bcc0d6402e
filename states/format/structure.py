"""Finds the structure of a declaration in YAML: the columns that have a meaning, and values of several lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import yaml
from yaml.tokens import (
    AliasToken,
    AnchorToken,
    BlockEntryToken,
    FlowMappingEndToken,
    FlowMappingStartToken,
    FlowSequenceEndToken,
    FlowSequenceStartToken,
    KeyToken,
    ScalarToken,
    TagToken,
    ValueToken,
)

from holdfast.states.format.lines import BLANKS, Kind, LayoutLine

_OPENING = (FlowMappingStartToken, FlowSequenceStartToken)
_CLOSING = (FlowMappingEndToken, FlowSequenceEndToken)
_NODES = (ScalarToken, AliasToken, AnchorToken, TagToken, *_OPENING)
_INVISIBLE = (
    yaml.BlockMappingStartToken,
    yaml.BlockSequenceStartToken,
    yaml.BlockEndToken,
    yaml.StreamStartToken,
    yaml.StreamEndToken,
)


class LayoutKept(Exception):
    """The layout of these lines is kept; the message says why, `line` where."""

    def __init__(self, why: str, line: LayoutLine) -> None:
        self.line = line
        super().__init__(why)


class LayoutMark(NamedTuple):
    """The column in a line at which a token begins that YAML compares by column."""

    column: int
    kind: str
    """`-`, `key` or `leaf`."""

    @property
    def depth(self) -> tuple[int, bool]:
        """Key for comparison: greater means deeper. A list may begin in the column of its key."""
        return self.column, self.kind == "-"


@dataclass(slots=True)
class Span:
    """Lines that continue a value: those after `first` up to `last`."""

    first: int
    last: int
    block: bool
    """It is a block scalar, in which each blank counts."""
    header: str = ""
    """The header of a block scalar: `|`, `>-`, `|2+`."""


@dataclass(slots=True)
class Structure:
    """The structure of the masked lines in YAML."""

    marks: dict[int, list[LayoutMark]] = field(default_factory=dict)
    gaps: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """Line -> gaps in it that become one space."""
    spans: list[Span] = field(default_factory=list)

    @property
    def continued(self) -> set[int]:
        """Lines that begin within a value."""
        return {line for span in self.spans for line in range(span.first + 1, span.last + 1)}


def structure(lines: Sequence[LayoutLine]) -> Structure:
    """Parse masked lines. Raises `LayoutKept` if they are not YAML, or are of a form that is not moved."""
    try:
        tokens = list(yaml.scan("".join(f"{line.masked}\n" for line in lines), Loader=yaml.CLoader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise LayoutKept(
            "this is not YAML before the template is run", lines[min(mark.line, len(lines) - 1) if mark else 0]
        ) from error
    found = Structure()
    for before, token in _outside_of_flow(tokens, found, lines):
        _note(found, before, token, lines)
    for span in found.spans:
        _extend(span, lines)
    inside = found.continued
    for number, line in enumerate(lines):
        if line.kind is Kind.DATA and number not in found.marks and number not in inside:
            raise LayoutKept("a line begins neither a key, an item nor a value", line)
    return found


def _outside_of_flow(tokens: list[Any], found: Structure, lines: Sequence[LayoutLine]) -> Iterator[tuple[Any, Any]]:
    """Yield the tokens with their predecessors, without those inside of brackets. Records values of several lines."""
    depth, opened, before = 0, None, None
    for token in tokens:
        if isinstance(token, _CLOSING):
            depth -= 1
            if not depth and opened is not None and token.end_mark.line > opened.start_mark.line:
                found.spans.append(Span(opened.start_mark.line, token.end_mark.line, block=False))
            before = token
        elif not depth:
            yield before, token
            before = token if not isinstance(token, _INVISIBLE) else before
            if isinstance(token, ScalarToken) and token.end_mark.line > token.start_mark.line:
                found.spans.append(_span(token, lines))
        if isinstance(token, _OPENING):
            depth += 1
            opened = token if depth == 1 else opened


def _span(token: ScalarToken, lines: Sequence[LayoutLine]) -> Span:
    """Return the lines of a scalar, without blank lines after it."""
    first, last = token.start_mark.line, min(token.end_mark.line, len(lines) - 1)
    block = token.style in ("|", ">")
    if block and token.end_mark.column == 0 and token.end_mark.line <= len(lines) - 1:
        last -= 1
    while last > first and not lines[last].masked.strip(BLANKS):
        last -= 1
    header = lines[first].masked[token.start_mark.column :].split("#")[0].strip(BLANKS) if block else ""
    return Span(first, last, block, header)


def _note(found: Structure, before: Any, token: Any, lines: Sequence[LayoutLine]) -> None:
    """Record the meaning of a token for its line."""
    mark = token.start_mark
    if isinstance(token, _INVISIBLE) or mark.line >= len(lines):
        return
    marks = found.marks.setdefault(mark.line, [])
    line = lines[mark.line].masked
    begins = not line[: mark.column].strip(BLANKS)
    if isinstance(token, KeyToken) and token.end_mark.column != mark.column:
        raise LayoutKept("a key of the form '? key'", lines[mark.line])
    if isinstance(token, ValueToken) and begins:
        raise LayoutKept("a colon without a key before it", lines[mark.line])
    _note_gap(found, before, token)
    kind = _kind(token)
    if kind and (kind != "leaf" or (begins and not marks)):
        marks.append(LayoutMark(mark.column, kind))
    if not marks:
        del found.marks[mark.line]


def _kind(token: Any) -> str:
    """Return the kind of the mark of a token; empty if it has none."""
    if isinstance(token, BlockEntryToken):
        return "-"
    if isinstance(token, KeyToken):
        return "key"
    return "leaf" if isinstance(token, _NODES) else ""


def _note_gap(found: Structure, before: Any, token: Any) -> None:
    """Record the blanks between a dash or a colon and the next token in its line."""
    mark = token.start_mark
    if not isinstance(before, (BlockEntryToken, ValueToken)) or isinstance(token, ValueToken):
        return
    gap = (before.end_mark.column, mark.column)
    if before.end_mark.line == mark.line and gap[0] < gap[1] and gap not in found.gaps.setdefault(mark.line, []):
        found.gaps[mark.line].append(gap)


def _extend(span: Span, lines: Sequence[LayoutLine]) -> None:
    """Add the tags after a value that close blocks in it. Raises `LayoutKept` if blocks reach out of the value."""
    depth, at = 0, span.first
    while at < span.last or (depth > 0 and at + 1 < len(lines) and lines[at + 1].kind in (Kind.TAGS, Kind.BLANK)):
        at += 1
        for piece in lines[at].pieces:
            depth += piece.step
            if depth < 0 or (piece.switches and not depth):
                raise LayoutKept("a block of Jinja begins or ends within a value", lines[at])
    if depth:
        raise LayoutKept("a block of Jinja begins or ends within a value", lines[span.first])
    span.last = max(span.last, at)

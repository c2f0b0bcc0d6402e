"""Explains errors of libyaml, with helpful hints."""

from __future__ import annotations

import re
from collections.abc import Sequence

import yaml

from holdfast.states.errors import Problem
from holdfast.states.parse.line_breaks import yaml_lines
from holdfast.states.parse.marks import At, Document, Position

KIND = re.compile(r"[A-Za-z_]\w*\.[A-Za-z_]\w*")
"""Pattern of a function of a state."""
HINTS = {
    "mapping values are not allowed": (
        "a colon followed by a space makes a key: quote the text, or check that the line before is complete"
    ),
    "could not find expected ':'": "a key needs a colon and a space after it: 'key: value'",
    "did not find expected key": "check the indentation, and look for a quote that is not closed",
    "did not find expected '-' indicator": "items of one list must begin in the same column",
    "did not find expected node content": "a value is missing, or a bracket is not closed",
    "found unexpected end of stream": "a quote or bracket is not closed",
    "found character that cannot start any token": "quote the value",
    "did not find expected ',' or": "a bracket is not closed, or a comma is missing",
    "found undefined tag handle": 'quote the value if the "!" belongs to it',
    "found unknown escape character": "double a backslash inside of double quotes; single quotes keep it as it is",
}
"""Message of libyaml -> hint."""
INDENT = "indent the function by two spaces, so that it belongs to the ID above it"


def syntax(document: Document, text: str, error: yaml.MarkedYAMLError) -> Problem:
    """Return the problem for an error of the YAML parser."""
    said = error.problem or error.context or "this is not YAML"
    lines = yaml_lines(text.rstrip())
    mark = _position(error, lines)
    line = lines[mark.line] if mark is not None else ""
    if mark is not None and "\t" in line[: mark.column + 1]:
        return document.problem(mark, "yaml-tab", "a tab cannot be used for indentation", "use spaces")
    opened = error.context_mark
    begun = _line_of(opened, lines)
    known = next((hint for part, hint in HINTS.items() if part in said), "")
    hint = INDENT if KIND.fullmatch(begun.rstrip()) else known
    if error.context and begun:
        said += f" ({error.context} that began in line {document.location(opened).line})"
    return document.problem(mark, "yaml-syntax", f"this is not YAML: {said}", hint)


def _line_of(mark: Position | None, lines: Sequence[str]) -> str:
    return lines[mark.line] if mark is not None and mark.line < len(lines) else ""


def _position(error: yaml.MarkedYAMLError, lines: Sequence[str]) -> Position | None:
    """Return the position to report; for an error at the end of the text, the beginning of the unclosed construct."""
    mark: Position | None = error.problem_mark or error.context_mark
    if mark is None or mark.line < len(lines):
        return mark
    opened: Position | None = error.context_mark
    if opened is not None and opened.line < len(lines):
        return opened
    return At(len(lines) - 1, max(0, len(lines[-1]) - 1))


def unreadable(document: Document, text: str, error: yaml.reader.ReaderError) -> Problem:
    """Return the problem for a character that YAML forbids."""
    before = text.encode("utf-8", "replace")[: error.position].decode("utf-8", "ignore")
    *above, last = yaml_lines(before)
    return document.problem(
        At(len(above), len(last)),
        "yaml-character",
        f"YAML does not allow control characters: {error.reason}",
        "remove it, or write it as an escape in double quotes",
    )

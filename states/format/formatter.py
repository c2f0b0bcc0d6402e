"""Formats state files in the canonical form. Only white space without a meaning is changed.

A file is divided into declarations: from a line that begins in the first column to the next such line. Each is laid out
by itself (`format_layout`) if this provably keeps its meaning, whatever its templates print; otherwise its lines stay
as they are. The result is parsed again and compared with the original.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from holdfast.states.errors import CompileError, Location, Problem
from holdfast.states.format.jinja import pieces, same, space
from holdfast.states.format.layout import layout
from holdfast.states.format.lines import BLANKS, Kind, LayoutLine, lines_of, tangled
from holdfast.states.format.structure import LayoutKept
from holdfast.states.parse.loader import parse_yaml
from holdfast.states.parse.marks import Document
from holdfast.states.source.files import Text
from holdfast.states.template.firstline import split_shebang

_BREAKS = re.compile("\r|\x85|\u2028|\u2029")
"""Line breaks of YAML that are not newlines."""
_KEEPS_BLANKS = re.compile(r"[|>][0-9]?\+[0-9]?[ \t]*(#.*)?$")
"""A block scalar that keeps the blank lines after it; with branches, these may be blank lines anywhere below."""
_KEEPS_END = re.compile(r"[|>]([0-9]?\+?|\+[0-9])[ \t]*(#.*)?$")
"""A block scalar that keeps its last newline."""
_TEXT = re.compile(r"[|>][-+0-9]{0,2}[ \t]*(#.*)?$")
"""End of a line with the header of a block scalar."""
_NO_BLANKS = dict.fromkeys(map(ord, " \t\r\n"))
_MARKERS = ("---", "...", "%", "? ", ": ")
"""Beginnings of lines in the first column that are not declarations."""
_WELL_FORMED = frozenset({"duplicate-id", "duplicate-key", "yaml-alias", "yaml-merge", "yaml-key", "yaml-tag"})
"""Problems of the meaning of a text, which do not matter to the formatter."""


@dataclass(frozen=True, slots=True)
class Formatted:
    """A text in its canonical form."""

    text: str
    kept: tuple[str, ...] = ()
    """Reasons for layouts that were kept, as sentences."""


@dataclass(slots=True)
class Section:
    """One declaration: its lines, and the lines between it and the next.

    The first section of a file has only the latter.
    """

    lines: list[LayoutLine] = field(default_factory=list)
    gap: list[LayoutLine] = field(default_factory=list)
    kept: LayoutKept | None = None
    """The reason to keep its layout."""
    texts: list[str] = field(default_factory=list)
    """Its formatted lines."""

    def keep(self, why: LayoutKept) -> None:
        """Keep the layout as it is."""
        self.kept, self.texts = why, [line.text for line in self.lines]

    def equals(self, other: Section) -> bool:
        """Return whether the formatted section has the same meaning, and does not change if it is formatted again."""
        return other.kept is None and other.texts == self.texts and self.events() == other.events()

    @property
    def all(self) -> list[LayoutLine]:
        """All its lines."""
        return [*self.lines, *self.gap]

    def events(self) -> list[tuple[object, ...]] | None:
        """Return the YAML events of the section; None if it is not valid YAML."""
        text = "".join(f"{line.masked}\n" for line in self.all)
        try:
            return [
                (
                    type(event).__name__,
                    *(getattr(event, name, None) for name in ("value", "style", "tag", "anchor", "flow_style")),
                )
                for event in yaml.parse(text, Loader=yaml.CLoader)
            ]
        except yaml.YAMLError:
            return None


def format_text(text: str, file: str) -> Formatted:
    """Return the canonical form of the text of a state file. `file` is its name in messages.

    JSON is returned as it is. Raises `CompileError` if the text is not a valid template or not YAML, or names an
    unknown renderer.
    """
    pipe, _ = split_shebang(Text(Path(file), text, ""))
    if "json" in pipe:
        return Formatted(text)
    text = text.replace("\r\n", "\n")
    found = _BREAKS.search(text)
    if found is not None:
        location = Location(file, text.count("\n", 0, found.start()) + 1)
        raise CompileError(
            [
                Problem(
                    location, "format-break", f"cannot format a file with the line break {found[0]!r}", "use newlines"
                )
            ]
        )
    jinja = "jinja" in pipe and any(mark in text for mark in ("{{", "{%", "{#"))
    if not jinja:
        _demand_yaml(text, file)
    return _checked(text, space(text, file) if jinja else text, file, jinja=jinja)


def _demand_yaml(text: str, file: str) -> None:
    """Raise `CompileError` for a text without templates that is not YAML."""
    try:
        parse_yaml(Document(file, text, secret=True), text)
    except CompileError as error:
        if any(problem.code not in _WELL_FORMED for problem in error.problems):
            raise


def _checked(text: str, spaced: str, file: str, *, jinja: bool) -> Formatted:
    """Lay out the text, but keep sections whose meaning would change. Raises `CompileError` if that fails."""
    old = _parts(_lines(spaced, file, jinja=jinja))
    while True:
        result = _joined(old, spaced)
        new = _parts(_lines(result, file, jinja=jinja))
        if len(old) != len(new) or _differs(text, result, file, jinja=jinja):
            raise CompileError(
                [Problem(Location(file), "format-unsafe", "cannot format this file without changing its meaning")]
            )
        moved = [
            part
            for part, other in zip(old, new, strict=True)
            if part.all and part.kept is None and not part.equals(other)
        ]
        if not moved:
            return Formatted(result, tuple(_notes(old, file)))
        for part in moved:
            part.keep(LayoutKept("another layout would be read differently", part.all[0]))


def _notes(parts: Sequence[Section], file: str) -> Iterator[str]:
    """Yield the messages about sections whose layout is kept; a reason that concerns several is given once."""
    kept = {id(part.kept): part for part in reversed(parts) if part.kept is not None}
    for part in reversed(kept.values()):
        if part.kept is not None:
            yield f"{Location(file, part.kept.line.number)}: the layout of {_name(part)} is kept: {part.kept}"


def _name(part: Section) -> str:
    """Return the name of a section in messages."""
    return part.lines[0].text.split(": ")[0].rstrip(": ") if part.lines else "the beginning"


def _differs(old: str, new: str, file: str, *, jinja: bool) -> bool:
    """Return whether more than white space was changed, or white space inside of Jinja."""
    return old.translate(_NO_BLANKS) != new.translate(_NO_BLANKS) or (jinja and not same(old, new, file))


def _lines(text: str, file: str, *, jinja: bool) -> list[LayoutLine]:
    return lines_of(text, pieces(text, file) if jinja else [])


def _parts(lines: Sequence[LayoutLine]) -> list[Section]:
    """Return the sections of a file, laid out if possible."""
    parts = [Section()]
    for line in lines:
        if _begins_section(line):
            parts.append(Section())
        parts[-1].lines.append(line)
    for part in parts:
        _divide(part)
    all_kept = _reason_for_all(parts, lines)
    for part in parts:
        _look(part, all_kept)
    return parts


def _begins_section(line: LayoutLine) -> bool:
    """Return whether a line is the first one of a declaration: data in the first column, not an item of a list."""
    text = line.text
    return line.kind is Kind.DATA and not text.startswith((" ", "\t", "- ")) and text.strip(BLANKS) != "-"


def _reason_for_all(parts: Sequence[Section], lines: Sequence[LayoutLine]) -> LayoutKept | None:
    """Return the reason to keep the layout of the whole file; None if there is none."""
    if (line := tangled(lines)) is not None:
        return LayoutKept("in this file a tag with '-' joins lines", line)
    crossing = next((part.lines[0] for part in parts if part.lines and not _is_closed(part)), None)
    if crossing is not None:
        return LayoutKept("in this file a block of Jinja reaches from one declaration into another", crossing)
    if (line := _deep(parts)) is not None:
        return LayoutKept("in this file lines between declarations could become part of a text before them", line)
    return None


def _deep(parts: Sequence[Section]) -> LayoutLine | None:
    """Return a line between declarations that a branch may append to a block scalar, because it is indented far enough.

    None if there is none.
    """
    if not any(line.pieces for part in parts for line in part.all):
        return None
    starts = [line.indent + 1 for part in parts for line in part.lines if _TEXT.search(line.masked)]
    gaps = (line for part in parts for line in part.gap)
    return next((line for line in gaps if starts and _width(line) >= min(starts)), None)


def _width(line: LayoutLine) -> int:
    """Return the width of a line as seen by a block scalar before it.

    For a blank line it is the number of its blanks minus one, for a comment its indentation.
    """
    return len(line.masked) - 1 if not line.masked.strip(BLANKS) else line.indent


def _divide(part: Section) -> None:
    """Find the end of a declaration: after its last data, and the tags that close its blocks."""
    lines = part.lines
    end = next(
        (number + 1 for number in reversed(range(len(lines))) if lines[number].kind in (Kind.DATA, Kind.LOUD)), 0
    )
    depth = sum(piece.step for line in lines[:end] for piece in line.pieces)
    while depth > 0 and end < len(lines):
        depth += sum(piece.step for piece in lines[end].pieces)
        end += 1
    part.lines, part.gap = lines[:end], lines[end:]


def _is_closed(part: Section) -> bool:
    """Return whether each block of Jinja in a section begins and ends in it."""
    depth = 0
    for piece in (piece for line in part.lines for piece in line.pieces):
        depth += piece.step
        if depth < 0 or (piece.switches and not depth):
            return False
    return not depth


def _look(part: Section, all_kept: LayoutKept | None) -> None:
    """Lay out a section, if possible."""
    if all_kept is not None:
        part.keep(all_kept)
        return
    loose = next((line for line in part.lines if line.loose), None)
    if not part.lines:
        return
    if part.lines[0].text.startswith(_MARKERS):
        part.keep(LayoutKept("it is not a declaration", part.lines[0]))
    elif loose is not None:
        part.keep(LayoutKept("the output of Jinja may have several lines", loose))
    else:
        try:
            part.texts = layout(part.lines, part.gap)
        except LayoutKept as why:
            part.keep(why)


def _joined(parts: Sequence[Section], text: str) -> str:
    """Return the text of all sections in the canonical form."""
    out: list[str] = []
    counts = any(_KEEPS_BLANKS.search(line.masked) for part in parts for line in part.lines)
    for part, following in zip(parts, [*parts[1:], None], strict=True):
        beside_kept = part.kept is not None or (following is not None and following.kept is not None)
        gap = [line.text for line in part.gap] if counts or beside_kept else _gap(part, following)
        out += [*part.texts, *gap]
    joined = "".join(f"{line}\n" for line in out)
    ends = any(_KEEPS_END.search(line.masked) for part in parts for line in part.lines)
    whole = text.endswith("\n") or (parts[-1].kept is None and not ends)
    return joined if whole else joined.removesuffix("\n")


def _gap(part: Section, following: Section | None) -> list[str]:
    """Return the lines between two declarations.

    At least one blank line, never two in a row; no line at the ends of the file.
    """
    texts = [line.text.rstrip(BLANKS) for line in part.gap]
    at = _border(part.gap)
    if part.lines and following is not None and at is not None and "" not in texts:
        texts.insert(at, "")
    kept = [text for number, text in enumerate(texts) if text or (texts[number - 1] if number else part.lines)]
    while following is None and kept and not kept[-1]:
        kept.pop()
    return kept


def _border(gap: Sequence[LayoutLine]) -> int | None:
    """Return the position of a missing blank line: after the tags that end the section.

    None if another branch begins.
    """
    at = 0
    for number, line in enumerate(gap):
        if any(piece.switches for piece in line.pieces):
            return None
        if line.pieces and all(piece.word.startswith("end") for piece in line.pieces) and at == number:
            at = number + 1
    return at

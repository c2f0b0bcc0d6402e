"""The canonical form of a state file. Nothing but white space is ever changed, and none that counts.

A file is taken apart into its declarations: what begins in the first column, up to the next such line. Each is laid out by itself
(`format_layout`), as far as that provably keeps its meaning, whatever its templates put out; else its lines stay as they are. Whatever comes out
is read again and compared with what went in, before anyone sees it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from holdfast.states.errors import CompileError, Place, Problem
from holdfast.states.firstline import split_shebang
from holdfast.states.format_jinja import pieces, same, space
from holdfast.states.format_layout import LayoutKept, layout
from holdfast.states.format_lines import BLANKS, Kind, LayoutLine, lines_of, tangled
from holdfast.states.marks import Document
from holdfast.states.parse import parse_yaml
from holdfast.states.source import Text

_BREAKS = re.compile("\r|\x85|\u2028|\u2029")
"""What ends a line of YAML, but not of anything else here."""
_KEEPS_BLANKS = re.compile(r"[|>][0-9]?\+[0-9]?[ \t]*(#.*)?$")
"""A text that keeps the blank lines behind it; in some branch those may be blank lines anywhere below."""
_KEEPS_END = re.compile(r"[|>]([0-9]?\+?|\+[0-9])[ \t]*(#.*)?$")
"""A text that ends with a newline if it has one."""
_TEXT = re.compile(r"[|>][-+0-9]{0,2}[ \t]*(#.*)?$")
"""What a line ends with when a text of several lines follows."""
_NO_BLANKS = dict.fromkeys(map(ord, " \t\r\n"))
_MARKERS = ("---", "...", "%", "? ", ": ")
"""What a line of the first column may begin with that is no declaration."""
_WELL_FORMED = frozenset({"duplicate-id", "duplicate-key", "yaml-alias", "yaml-merge", "yaml-key", "yaml-tag"})
"""Mistakes in what a text says, not in how it is written: they are nothing to the formatter."""


@dataclass(frozen=True, slots=True)
class Formatted:
    """A text in its canonical form."""

    text: str
    kept: tuple[str, ...] = ()
    """Where the layout was left as it is, and why: sentences for people."""


@dataclass(slots=True)
class Section:
    """One declaration: its lines, and those between it and the next. The first part of a file has only the latter."""

    lines: list[LayoutLine] = field(default_factory=list)
    gap: list[LayoutLine] = field(default_factory=list)
    kept: LayoutKept | None = None
    """Why its layout is left as it is."""
    texts: list[str] = field(default_factory=list)
    """What becomes of its lines."""

    def keep(self, why: LayoutKept) -> None:
        """Leave the layout as it is."""
        self.kept, self.texts = why, [line.text for line in self.lines]

    def equals(self, other: Section) -> bool:
        """Whether what this one became reads as it did, and stays as it is when it is formatted again."""
        return other.kept is None and other.texts == self.texts and self.events() == other.events()

    @property
    def all(self) -> list[LayoutLine]:
        """All its lines."""
        return [*self.lines, *self.gap]

    def events(self) -> list[tuple[object, ...]] | None:
        """What YAML makes of it; None if it cannot read it."""
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
    """The canonical form of a state file's text. `file` is what it is called in messages.

    JSON is returned as it is. Raises `CompileError` for what is no template, or no YAML, or asks for a renderer that there is not.
    """
    pipe, _ = split_shebang(Text(Path(file), text, ""))
    if "json" in pipe:
        return Formatted(text)
    text = text.replace("\r\n", "\n")
    found = _BREAKS.search(text)
    if found is not None:
        place = Place(file, text.count("\n", 0, found.start()) + 1)
        raise CompileError(
            [Problem(place, "format-break", f"cannot format a file with the line break {found[0]!r}", "use newlines")]
        )
    jinja = "jinja" in pipe and any(mark in text for mark in ("{{", "{%", "{#"))
    if not jinja:
        _demand_yaml(text, file)
    return _checked(text, space(text, file) if jinja else text, file, jinja=jinja)


def _demand_yaml(text: str, file: str) -> None:
    """Raises `CompileError` for a text without templates that is no YAML."""
    try:
        parse_yaml(Document(file, text, secret=True), text)
    except CompileError as error:
        if any(problem.code not in _WELL_FORMED for problem in error.problems):
            raise


def _checked(text: str, spaced: str, file: str, *, jinja: bool) -> Formatted:
    """Lay out, and leave alone whatever reads differently afterwards. Raises `CompileError` when even that does not help."""
    old = _parts(_lines(spaced, file, jinja=jinja))
    while True:
        result = _joined(old, spaced)
        new = _parts(_lines(result, file, jinja=jinja))
        if len(old) != len(new) or _differs(text, result, file, jinja=jinja):
            raise CompileError(
                [Problem(Place(file), "format-unsafe", "cannot format this file without changing what it means")]
            )
        moved = [
            part
            for part, other in zip(old, new, strict=True)
            if part.all and part.kept is None and not part.equals(other)
        ]
        if not moved:
            return Formatted(result, tuple(_notes(old, file)))
        for part in moved:
            part.keep(LayoutKept("another would be read differently", part.all[0]))


def _notes(parts: Sequence[Section], file: str) -> Iterator[str]:
    """What is said of the parts whose layout is kept; of what concerns all of them, once."""
    kept = {id(part.kept): part for part in reversed(parts) if part.kept is not None}
    for part in reversed(kept.values()):
        if part.kept is not None:
            yield f"{Place(file, part.kept.line.number)}: the layout of {_name(part)} is kept: {part.kept}"


def _name(part: Section) -> str:
    """What to call a part."""
    return part.lines[0].text.split(": ")[0].rstrip(": ") if part.lines else "the beginning"


def _differs(old: str, new: str, file: str, *, jinja: bool) -> bool:
    """Whether more than white space was changed, or any within Jinja but for its delimiters."""
    return old.translate(_NO_BLANKS) != new.translate(_NO_BLANKS) or (jinja and not same(old, new, file))


def _lines(text: str, file: str, *, jinja: bool) -> list[LayoutLine]:
    return lines_of(text, pieces(text, file) if jinja else [])


def _parts(lines: Sequence[LayoutLine]) -> list[Section]:
    """A file's declarations, each looked at."""
    parts = [Section()]
    for line in lines:
        if (
            line.kind is Kind.DATA
            and line.text[:1] not in (" ", "\t")
            and line.text[:2] not in ("- ", "-")
            and line.text.strip(BLANKS) != "-"
        ):
            parts.append(Section())
        parts[-1].lines.append(line)
    for part in parts:
        _divide(part)
    knot = tangled(lines)
    crossing = next((part.lines[0] for part in parts if part.lines and not _is_closed(part)), None)
    all_kept = None
    if knot is not None:
        all_kept = LayoutKept("in this file a tag with '-' joins lines", knot)
    elif crossing is not None:
        all_kept = LayoutKept("in this file a block of Jinja reaches from one declaration into another", crossing)
    elif (deep := _deep(parts)) is not None:
        all_kept = LayoutKept(
            "in this file what stands between declarations could become a part of a text before it", deep
        )
    for part in parts:
        _look(part, all_kept)
    return parts


def _deep(parts: Sequence[Section]) -> LayoutLine | None:
    """A line between declarations that some branch may put behind a text, and is indented as far as that; None: there is none."""
    if not any(line.pieces for part in parts for line in part.all):
        return None
    starts = [line.indent + 1 for part in parts for line in part.lines if _TEXT.search(line.masked)]
    gaps = (line for part in parts for line in part.gap)
    return next((line for line in gaps if starts and _width(line) >= min(starts)), None)


def _width(line: LayoutLine) -> int:
    """How many columns of a line count for a text before it: all blanks but one of a blank line, or the indentation of a comment."""
    return len(line.masked) - 1 if not line.masked.strip(BLANKS) else line.indent


def _divide(part: Section) -> None:
    """Find where a declaration ends: behind its last data, and what closes blocks that stand open there."""
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
    """Whether each block of Jinja that stands in a declaration begins and ends there."""
    depth = 0
    for piece in (piece for line in part.lines for piece in line.pieces):
        depth += piece.step
        if depth < 0 or (piece.switches and not depth):
            return False
    return not depth


def _look(part: Section, all_kept: LayoutKept | None) -> None:
    """Lay a part out, if that can be done."""
    if all_kept is not None:
        part.keep(all_kept)
        return
    loose = next((line for line in part.lines if line.loose), None)
    if not part.lines:
        return
    if part.lines[0].text.startswith(_MARKERS):
        part.keep(LayoutKept("it is no declaration", part.lines[0]))
    elif loose is not None:
        part.keep(LayoutKept("what a template puts out may have several lines", loose))
    else:
        try:
            part.texts = layout(part.lines, part.gap)
        except LayoutKept as why:
            part.keep(why)


def _joined(parts: Sequence[Section], text: str) -> str:
    """The text of all parts in their canonical form."""
    out: list[str] = []
    counts = any(_KEEPS_BLANKS.search(line.masked) for part in parts for line in part.lines)
    for part, following in zip(parts, [*parts[1:], None], strict=True):
        verbatim = counts or part.kept is not None or (following is not None and following.kept is not None)
        out += [*part.texts, *([line.text for line in part.gap] if verbatim else _gap(part, following))]
    joined = "".join(f"{line}\n" for line in out)
    ends = any(_KEEPS_END.search(line.masked) for part in parts for line in part.lines)
    whole = text.endswith("\n") or (parts[-1].kept is None and not ends)
    return joined if whole else joined.removesuffix("\n")


def _gap(part: Section, following: Section | None) -> list[str]:
    """The lines between two declarations: no two blank ones, and one at least; none at the ends of the file."""
    texts = [line.text.rstrip(BLANKS) for line in part.gap]
    at = _border(part.gap)
    if part.lines and following is not None and at is not None and "" not in texts:
        texts.insert(at, "")
    kept = [text for number, text in enumerate(texts) if text or (texts[number - 1] if number else part.lines)]
    while following is None and kept and not kept[-1]:
        kept.pop()
    return kept


def _border(gap: Sequence[LayoutLine]) -> int | None:
    """Where a blank line belongs that is missing: behind the tags that end what is before; nowhere if another branch begins."""
    at = 0
    for number, line in enumerate(gap):
        if any(piece.switches for piece in line.pieces):
            return None
        if line.pieces and all(piece.word.startswith("end") for piece in line.pieces) and at == number:
            at = number + 1
    return at

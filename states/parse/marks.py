"""Marked data: mappings and lists that know the line of each entry, and the document that contains them.

The data of a state file keeps its marks through all stages, so that all stages can report problems at their lines.
Locations are computed only when a problem is shown.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias

from holdfast.resources.numbers import plain_number
from holdfast.states.errors import Location, Problem
from holdfast.states.parse.line_masking import mask_line

NOT_YOURS = "if these are not your states, name their SLS in `lenient`"
"""A hint for mistakes that Salt accepts."""
NEAR = 20
"""Maximum number of lines below a key in which its value is searched for."""


def or_lenient(hint: str) -> str:
    """Return a hint followed by `NOT_YOURS`; after a question as a sentence of its own."""
    if hint.endswith("?"):
        return f"{hint} {NOT_YOURS[0].upper()}{NOT_YOURS[1:]}"
    return f"{hint}; {NOT_YOURS}" if hint else NOT_YOURS


class Position(Protocol):
    """A position in the text that was parsed, counted from 0; libyaml's own objects are such positions."""

    @property
    def line(self) -> int:
        """The line."""
        ...

    @property
    def column(self) -> int:
        """The column."""
        ...


class At(NamedTuple):
    """A position that libyaml did not make."""

    line: int
    column: int = 0


Mark: TypeAlias = int | Position
"""A position, or a packed one: several are kept for each state, and a number takes 32 bytes instead of 80."""
COLUMN = 24
"""Bits of the column in a packed position. A line cannot be longer than a file (`source.files.LIMIT`)."""


def packed(position: Position) -> int:
    """Return a position as one number, which is greater than 0. A sum would take 16 bytes more than `|`."""
    return position.line + 1 << COLUMN | position.column


def position_of(mark: Mark) -> Position:
    """Return the position of a mark."""
    return At((mark >> COLUMN) - 1, mark & (1 << COLUMN) - 1) if isinstance(mark, int) else mark


class Map(dict[Any, Any]):
    """A mapping of a state file; `marks` has the position of each key."""

    __slots__ = ("marks",)

    def __init__(self, values: Mapping[Any, Any] | None = None, marks: dict[Any, Mark] | None = None) -> None:
        super().__init__(values or ())
        self.marks: dict[Any, Mark] = {} if marks is None else marks


class Seq(list[Any]):
    """A list of a state file; `marks` has the position of each item."""

    __slots__ = ("marks",)

    def __init__(self, values: Sequence[Any] = (), marks: Sequence[Mark | None] | None = None) -> None:
        super().__init__(values)
        self.marks: list[Mark | None] = [*(marks or ())]


def plain(value: Any) -> Any:
    """Return the same data without marks, as ordinary dicts, lists and numbers. Nesting is bounded by the parser."""
    if isinstance(value, dict):
        return {plain_number(key): plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return plain_number(value)


def unmarked(value: Any) -> Any:
    """Return the same data without marks; numbers keep their spelling."""
    if isinstance(value, dict):
        return {key: unmarked(item) for key, item in value.items()}
    return [unmarked(item) for item in value] if isinstance(value, list) else value


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Document:
    """One file as it was read, and the origin of each line that was rendered from it."""

    file: str
    """Path, as shown to people."""
    text: str
    """The content of the file."""
    lines: Sequence[tuple[str, int]] | None = None
    """For each line of the rendered text: file and line (from 1) of its origin. None: the file was not rendered."""
    others: Mapping[str, str] = field(default_factory=dict)
    """File -> text of each included template."""
    secret: bool = False
    """Its lines must not be shown (pillar)."""
    data: bool = False
    """Its top-level keys are not IDs of states (settings, and secret documents)."""
    lenient: bool = False
    """Mistakes in it that Salt accepts are warnings."""
    _ends: dict[str, array[int]] = field(default_factory=dict)
    """File -> offsets of the ends of its lines. The text is not split for each of thousands of places."""

    def location(self, mark: Mark | None) -> Location:
        """Return the location of a mark in the source. The column is known only if no template made the line."""
        if mark is None:
            return Location(self.file)
        position = position_of(mark)
        if self.lines is None:
            return Location(self.file, position.line + 1, position.column + 1)
        if not self.lines:
            return Location(self.file)
        file, line = self.lines[min(position.line, len(self.lines) - 1)]
        source = self.line_text(file, line)
        return Location(file, line, 0 if "{" in source or position.column > len(source) else position.column + 1)

    def beginning(self, data: Any) -> Mark:
        """Return the first position of data that should be a mapping but is not; approximate for rendered data."""
        if self.lines is None:
            for number, line in enumerate(self.text.split("\n")):
                rest = line.removeprefix("---").lstrip()
                if rest and rest[0] not in "#%":
                    return At(number, len(line) - len(rest))
        return (data.marks[0] if isinstance(data, Seq) and data.marks else None) or At(0)

    def line_text(self, file: str, line: int) -> str:
        """Return a line of this document or of a template in it; empty if there is no such line."""
        text, ends = self._text(file), self._line_ends(file)
        if not 0 < line <= len(ends):
            return ""
        return text[ends[line - 2] + 1 if line > 1 else 0 : ends[line - 1]].rstrip("\r")

    def _text(self, file: str) -> str:
        return self.text if file == self.file else self.others.get(file, "")

    def _line_ends(self, file: str) -> array[int]:
        ends = self._ends.get(file)
        if ends is None:
            text = self._text(file)
            ends = self._ends[file] = array("I", [*(found.start() for found in re.finditer("\n", text)), len(text)])
        return ends

    def problem(self, mark: Mark | None, code: str, message: str, hint: str = "") -> Problem:
        """Return a problem at a mark of the rendered text."""
        location = self.location(mark.sought() if isinstance(mark, Beside) else mark)
        if location.file == self.file and location.line > (last := len(self._line_ends(self.file))):
            location = Location(location.file, last)  # the mark of a missing end is after the last line
        return self.problem_at(location, code, message, hint)

    def accepted(self, mark: Mark | None, code: str, message: str, effect: str, hint: str = "") -> Problem:
        """Return a problem that Salt accepts: an error or, in a lenient document, a warning that says the effect."""
        if self.lenient:
            return self.problem(mark, code, f"{message}: {effect}", hint)._replace(waived=True)
        return self.problem(mark, code, message, or_lenient(hint))

    def problem_at(self, location: Location, code: str, message: str, hint: str = "") -> Problem:
        """Return a problem at a location of the source."""
        line = self.line_text(location.file, location.line)[:500]
        text = mask_line(line) if self.secret else line
        return Problem(location, code, message, hint, text)


class Spot(NamedTuple):
    """A position in a document."""

    document: Document
    mark: Mark | None = None

    @property
    def location(self) -> Location:
        """The location in the source."""
        return self.document.location(self.mark)

    def problem(self, code: str, message: str, hint: str = "") -> Problem:
        """Return a problem at this position."""
        return self.document.problem(self.mark, code, message, hint)

    def accepted(self, code: str, message: str, effect: str, hint: str = "") -> Problem:
        """Return a problem at this position that Salt accepts."""
        return self.document.accepted(self.mark, code, message, effect, hint)


class Beside(NamedTuple):
    """The mark of the value of a key.

    Parsing keeps only the marks of keys, so the value is searched for when a problem is shown.
    """

    document: Document
    key: Mark
    word: str

    @property
    def line(self) -> int:
        """The line."""
        return position_of(self.key).line

    @property
    def column(self) -> int:
        """The column."""
        return position_of(self.key).column

    def sought(self) -> Mark:
        """Return the mark of the value: after the key, or below it with only comments between.

        The mark of the key if the value is not found, because a template made it.
        """
        word = rf"[\"']?({re.escape(self.word)})[\"']?"
        if found := re.compile(rf":\s+{word}").search(self._text(self.line), self.column):
            return At(self.line, found.start(1))
        for line in range(self.line + 1, self.line + NEAR):
            text = self._text(line)
            if found := re.fullmatch(rf"\s*{word}\s*(?:#.*)?", text):
                return At(line, found.start(1))
            if text.strip() and not text.lstrip().startswith("#"):
                break
        return self.key

    def _text(self, line: int) -> str:
        location = self.document.location(At(line))
        return self.document.line_text(location.file, location.line)


def descend(value: Any, path: Sequence[Any]) -> Mark | None:
    """Return the mark of the value at `path` (keys and indices), or of the deepest known value on the path."""
    found: Mark | None = None
    for step in path:
        known = isinstance(value, Map) and step in value.marks
        if not known and not (isinstance(value, Seq) and isinstance(step, int) and 0 <= step < len(value.marks)):
            break
        found, value = value.marks[step], value[step]
    return found

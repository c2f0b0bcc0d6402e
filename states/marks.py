"""Where data came from: mappings and lists that know the line of each entry, and the document that they stand in.

The data of a state file keep their marks to the very end, so that whatever is wrong with a value, however late it is
found, is reported at its line. Marks are libyaml's own objects (line and column from 0); nothing is computed until a
problem has to be shown.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

from holdfast.resources.numbers import plain_number
from holdfast.states.errors import Place, Problem
from holdfast.states.line_masking import mask_line

NOT_YOURS = "if these are not your states, name their SLS in `lenient`"
"""A hint for what Salt accepts."""
NEAR = 20
"""Lines below a key among which its text is looked for."""


class Mark(Protocol):
    """A position in the text that was parsed, counted from 0."""

    @property
    def line(self) -> int:
        """The line."""
        ...

    @property
    def column(self) -> int:
        """The column."""
        ...


class At(NamedTuple):
    """A mark made by ourselves."""

    line: int
    column: int = 0


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
    """The same data without marks, as ordinary dicts, lists and numbers. Nesting is bounded by the parser."""
    if isinstance(value, dict):
        return {plain_number(key): plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return plain_number(value)


def unmarked(value: Any) -> Any:
    """The same data without marks; numbers keep their spelling."""
    if isinstance(value, dict):
        return {key: unmarked(item) for key, item in value.items()}
    return [unmarked(item) for item in value] if isinstance(value, list) else value


@dataclass(frozen=True, slots=True, eq=False)
class Document:
    """One file as it was read, and how the lines of what was rendered from it lead back to it."""

    file: str
    """Path, as shown to people."""
    text: str
    """What the file contains."""
    lines: Sequence[tuple[str, int]] | None = None
    """For each line of the rendered text: file and line (from 1) it was made from. None: it was not rendered."""
    others: Mapping[str, str] = field(default_factory=dict)
    """File -> text of the templates that were included."""
    secret: bool = False
    """Its lines must not be shown (pillar)."""
    data: bool = False
    """Its first keys are no IDs of states (settings). Those of what is secret are none either."""
    lenient: bool = False
    """What is wrong in it, and accepted by Salt, is a warning."""
    _ends: dict[str, array[int]] = field(default_factory=dict, repr=False)
    """File -> where its lines end. Thousands of places may be asked for, so the text is not split for each."""

    def place(self, mark: Mark | None) -> Place:
        """Where a mark stands in the source. The column is known only where no template made the line."""
        if mark is None:
            return Place(self.file)
        if self.lines is None:
            return Place(self.file, mark.line + 1, mark.column + 1)
        if not self.lines:
            return Place(self.file)
        file, line = self.lines[min(mark.line, len(self.lines) - 1)]
        source = self.line_text(file, line)
        return Place(file, line, 0 if "{" in source or mark.column > len(source) else mark.column + 1)

    def beginning(self, data: Any) -> Mark:
        """Where data begin that are not the mapping they should be; what a template made is as near as its first item, or line."""
        if self.lines is None:
            for number, line in enumerate(self.text.split("\n")):
                rest = line.removeprefix("---").lstrip()
                if rest and rest[0] not in "#%":
                    return At(number, len(line) - len(rest))
        return (data.marks[0] if isinstance(data, Seq) and data.marks else None) or At(0)

    def line_text(self, file: str, line: int) -> str:
        """A line of this document or of a template in it; empty when there is no such line."""
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
        """Something wrong at a mark of the rendered text."""
        place = self.place(mark.sought() if isinstance(mark, Beside) else mark)
        if place.file == self.file and place.line > (last := len(self._line_ends(self.file))):
            place = Place(place.file, last)  # what is missing at the end is marked behind it
        return self.problem_at(place, code, message, hint)

    def accepted(self, mark: Mark | None, code: str, message: str, effect: str, hint: str = "") -> Problem:
        """Something wrong that Salt accepts: an error or, where the document is lenient, a warning that tells the effect."""
        if self.lenient:
            return replace(self.problem(mark, code, f"{message}: {effect}", hint), waived=True)
        return self.problem(mark, code, message, f"{hint}; {NOT_YOURS}" if hint else NOT_YOURS)

    def problem_at(self, place: Place, code: str, message: str, hint: str = "") -> Problem:
        """Something wrong at a place of the source."""
        line = self.line_text(place.file, place.line)[:500]
        text = mask_line(line) if self.secret else line
        return Problem(place, code, message, hint, text)


class Spot(NamedTuple):
    """A position in a document."""

    document: Document
    mark: Mark | None = None

    @property
    def place(self) -> Place:
        """Where it stands in the source."""
        return self.document.place(self.mark)

    def problem(self, code: str, message: str, hint: str = "") -> Problem:
        """Something wrong right here."""
        return self.document.problem(self.mark, code, message, hint)

    def accepted(self, code: str, message: str, effect: str, hint: str = "") -> Problem:
        """Something wrong right here that Salt accepts."""
        return self.document.accepted(self.mark, code, message, effect, hint)


class Beside(NamedTuple):
    """The mark of the text that a key has: parsing keeps those of keys alone, so it is the key's until something is wrong there."""

    document: Document
    key: Mark
    word: str

    @property
    def line(self) -> int:
        """The line."""
        return self.key.line

    @property
    def column(self) -> int:
        """The column."""
        return self.key.column

    def sought(self) -> Mark:
        """Behind the key or, with nothing but comments between, below it; the key's own mark where it is not seen, as a template makes it."""
        word = rf"[\"']?({re.escape(self.word)})[\"']?"
        if found := re.compile(rf":\s+{word}").search(self._text(self.key.line), self.key.column):
            return At(self.key.line, found.start(1))
        for line in range(self.key.line + 1, self.key.line + NEAR):
            text = self._text(line)
            if found := re.fullmatch(rf"\s*{word}\s*(?:#.*)?", text):
                return At(line, found.start(1))
            if text.strip() and not text.lstrip().startswith("#"):
                break
        return self.key

    def _text(self, line: int) -> str:
        place = self.document.place(At(line))
        return self.document.line_text(place.file, place.line)


def descend(value: Any, path: Sequence[Any]) -> Mark | None:
    """The position of what `path` (keys and indices) leads to in a marked value, as deep as it is known."""
    found: Mark | None = None
    for step in path:
        known = isinstance(value, Map) and step in value.marks
        if not known and not (isinstance(value, Seq) and isinstance(step, int) and 0 <= step < len(value.marks)):
            break
        found, value = value.marks[step], value[step]
    return found

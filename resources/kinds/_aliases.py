"""The text of a file of mail aliases, as in aliases(5) of Postfix, Exim and Sendmail."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from holdfast.resources.kinds._lines import ended
from holdfast.resources.kinds._lines import split as text_lines

_NAME = re.compile(r'(?:"((?:[^"\\]|\\.)*)"|([^\s:#"][^\s:"]*))[ \t]*:')
_TARGET = re.compile(r'(?:"(?:[^"\\]|\\.)*"|[^,])+')
_PLAIN = re.compile(r"[\w.+=@-]+")


@dataclass(slots=True)
class Alias:
    """One entry: the numbers of its lines, its name and its targets."""

    lines: list[int]
    name: str
    text: str = field(default="")
    """The text after the colon, including continuation lines."""

    def targets(self) -> list[str]:
        """Return the targets as the file writes them."""
        return split(self.text)


def split(text: str) -> list[str]:
    """Split a text into targets at the commas outside of double quotes."""
    return [target for target in (found.strip() for found in _TARGET.findall(text)) if target]


def target(text: str) -> str:
    """Return one target as the file writes it: with quotes if it is a command or path with blanks or commas."""
    if text.startswith('"') or not re.search(r'[\s,"\\]', text) or not text.startswith(("|", "/", ":include:")):
        return text
    escaped = re.sub(r'(["\\])', r"\\\1", text)
    return f'"{escaped}"'


def aliases(text: str) -> Iterator[Alias]:
    """Yield the entries. A line that begins with a blank continues the previous entry, also after comments."""
    entry: Alias | None = None
    for number, line in enumerate(text_lines(text)):
        bare = line.strip()
        if not bare or bare.startswith("#"):
            continue
        if line[0] in " \t":
            if entry is not None:
                entry.lines.append(number)
                entry.text += f" {bare}"
            continue
        if entry is not None:
            yield entry
        found = _NAME.match(line)
        entry = None
        if found is not None:
            name = found[2] if found[1] is None else re.sub(r"\\(.)", r"\1", found[1])
            entry = Alias([number], name.lower(), line[found.end() :].strip())
    if entry is not None:
        yield entry


def edited(text: str, name: str, targets: Sequence[str]) -> str:
    """Return the text with one entry of a name, at its first position or at the end; without targets, with none."""
    lines = text_lines(text)
    new = [f"{name if _PLAIN.fullmatch(name) else _quoted(name)}: {', '.join(targets)}\n"] if targets else []
    mine = [entry for entry in aliases(text) if entry.name == name.lower()]
    gone = {number for entry in mine for number in entry.lines}
    if mine and targets and mine[0].targets() == [*targets]:
        gone -= {*mine[0].lines}
        new = []
    place = min(gone) if mine and new else len(lines)
    if place == len(lines) and new:
        lines = text_lines(ended(text))
    return "".join(
        [
            *(line for number, line in enumerate(lines[:place]) if number not in gone),
            *new,
            *(line for number, line in enumerate(lines[place:], place) if number not in gone),
        ]
    )


def _quoted(name: str) -> str:
    escaped = re.sub(r'(["\\])', r"\\\1", name)
    return f'"{escaped}"'

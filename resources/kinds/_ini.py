"""Ini files as lines that keep every byte: sections, options, comments and everything else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from holdfast.resources.kinds._lines import bare, end_of, ended, split

COMMENTS = "#;"
"""Characters that begin a comment."""
TOP = ""
"""The name of the part before the first section."""
BLANKS = " \t"
BOM = "\ufeff"
"""Byte order mark, with which some editors begin a file."""


@dataclass(frozen=True, slots=True)
class IniEntry:
    """One or several lines of a file: an option with its continuation lines, or any other line."""

    section: str
    lines: tuple[str, ...]
    key: str = ""
    """The name of an option; empty for any other line."""
    before: str = ""
    """Text of an option before its value: indentation, name and separator, as in the file."""
    value: str = ""
    header: bool = False
    """Whether the line begins a section."""

    @property
    def indent(self) -> str:
        """The blanks before an option."""
        return self.before[: len(self.before) - len(self.before.lstrip(BLANKS))]


@dataclass(frozen=True, slots=True)
class Style:
    """The notation of options."""

    separator: str = "="
    spaced: bool = True
    """Whether blanks surround the separator of a new line."""

    @property
    def sign(self) -> str:
        """The separator without blanks; empty if the separator is a blank."""
        return self.separator.strip(BLANKS)

    def parts(self, line: str) -> tuple[str, str, str] | None:
        """Return the name, the text before the value, and the value of a line; None if it is not an option."""
        stripped = line.lstrip(BLANKS)
        indent = line[: len(line) - len(stripped)]
        if self.sign:
            name, found, rest = stripped.partition(self.sign)
        else:
            name = stripped.replace("\t", " ").partition(" ")[0]
            rest = stripped[len(name) :]
            found = rest[:1]
        key = name.rstrip(BLANKS)
        if not found or not key:
            return None  # including an option without a value, which is kept like any other line
        value = rest.lstrip(BLANKS)
        return key, indent + stripped[: len(stripped) - len(value)], value.rstrip(BLANKS)

    def start(self, key: str) -> str:
        """Return the text of a new option before its value."""
        return f"{key} " if not self.sign else f"{key} {self.sign} " if self.spaced else f"{key}{self.sign}"


def parse(text: str, style: Style) -> list[IniEntry]:
    """Return the entries of a text in order; their joined lines are the text."""
    entries: list[IniEntry] = []
    section, depth = TOP, 0
    for line in split(text):
        content = bare(line)
        stripped = content.strip(BLANKS)
        last = entries[-1] if entries else None
        if stripped.startswith("[") and stripped.endswith("]") and len(stripped) > 2:
            section, depth = stripped[1:-1], 0
            entries.append(IniEntry(section, (line,), header=True))
        elif not stripped or stripped[0] in COMMENTS:
            entries.append(IniEntry(section, (line,)))
        elif last is not None and last.key and _depth(content) > depth:
            entries[-1] = replace(last, lines=(*last.lines, line), value=f"{last.value}\n{content}")
        elif (parts := style.parts(content)) is not None:
            depth = _depth(content)
            entries.append(IniEntry(section, (line,), *parts))
        else:
            entries.append(IniEntry(section, (line,)))
    return entries


def _depth(line: str) -> int:
    """Return the indentation of a line; a tab counts as four, as in Salt."""
    return len((line[: len(line) - len(line.lstrip(BLANKS))]).replace("\t", "    "))


def joined(entries: Sequence[IniEntry]) -> str:
    """Return the text of entries."""
    return "".join(line for entry in entries for line in entry.lines)


def values(entries: Sequence[IniEntry]) -> dict[str, dict[str, str]]:
    """Return section -> name -> value; the last value of a repeated option counts, as in Salt."""
    found: dict[str, dict[str, str]] = {}
    for entry in entries:
        options = found.setdefault(entry.section, {}) if entry.key or entry.header else {}
        if entry.key:
            options[entry.key] = entry.value
    return found


def plain(value: str) -> str:
    """Return a value without the indentation of its lines, for comparison."""
    return "\n".join(line.strip(BLANKS) for line in value.split("\n"))


class IniText:
    """The entries of one text while it is edited."""

    def __init__(self, text: str, style: Style) -> None:
        self.style = style
        self._mark = BOM if text.startswith(BOM) else ""
        self.entries = parse(text.removeprefix(BOM), style)
        self._end = end_of(text[: text.find("\n") + 1])

    def text(self) -> str:
        """Return the edited text."""
        return self._mark + joined(self.entries)

    def put(self, section: str, key: str, value: str) -> None:
        """Set the value of an option on its first line or on a new line, and remove repetitions."""
        present = [entry for entry in self.entries if entry.section == section and entry.key == key]
        if present and all(plain(entry.value) == plain(value) for entry in present):
            return
        if not present:
            self._insert(section, key, value)
            return
        first = present[0]
        new = IniEntry(section, self._lines(first.before, value, first.indent), key, first.before, value)
        more = {*map(id, present[1:])}  # a repetition may be equal to the first line
        self.entries = [new if entry is first else entry for entry in self.entries if id(entry) not in more]

    def remove(self, section: str, key: str) -> None:
        """Remove an option with all repetitions."""
        self.entries = [entry for entry in self.entries if entry.section != section or entry.key != key]

    def remove_section(self, section: str) -> None:
        """Remove a section with all its lines; from the part before the first section, remove only options.

        Blank lines before a section at the end are removed with it, because adding the section would add them.
        """
        kept = [entry for entry in self.entries if entry.section != section or (section == TOP and not entry.key)]
        if section != TOP and self.entries and self.entries[-1].section == section:
            while kept and not bare(kept[-1].lines[-1]).strip(BLANKS):
                kept.pop()
        self.entries = kept

    def add_section(self, section: str) -> None:
        """Add an empty section at the end, after a blank line, unless there is one."""
        if section == TOP or any(entry.section == section for entry in self.entries):
            return
        self._finish()
        if self.entries and bare(self.entries[-1].lines[-1]).strip(BLANKS):
            self.entries.append(IniEntry(self.entries[-1].section, (self._end,)))
        self.entries.append(IniEntry(section, (f"[{section}]{self._end}",), header=True))

    def _insert(self, section: str, key: str, value: str) -> None:
        """Add a line for an option: below a comment that shows it, otherwise at the end of its section."""
        self.add_section(section)
        place, like = self._place(section, key)
        if place:
            before = self.entries[place - 1]
            self.entries[place - 1] = replace(before, lines=(*before.lines[:-1], ended(before.lines[-1])))
        start = like + self.style.start(key)
        self.entries.insert(place, IniEntry(section, self._lines(start, value, like), key, start, value))

    def _place(self, section: str, key: str) -> tuple[int, str]:
        """Return the position and the indentation of a new option."""
        own = [number for number, entry in enumerate(self.entries) if entry.section == section]
        options = [self.entries[number].indent for number in own if self.entries[number].key]
        like = options[-1] if options else ""
        for number in own:
            content = bare(self.entries[number].lines[0]).strip(BLANKS)
            parts = self.style.parts(content.lstrip(COMMENTS)) if content[:1] and content[0] in COMMENTS else None
            if parts is not None and parts[0] == key and not self._would_continue(number + 1, like):
                return number + 1, like
        while own and not bare(self.entries[own[-1]].lines[-1]).strip(BLANKS):
            own.pop()  # the blank lines before the next section stay there
        return (own[-1] + 1 if own else 0), like

    def _would_continue(self, number: int, indent: str) -> bool:
        """Return whether an entry would continue the value of a preceding option with this indentation."""
        content = bare(self.entries[number].lines[0]) if number < len(self.entries) else ""
        stripped = content.strip(BLANKS)
        return bool(stripped) and stripped[0] not in COMMENTS and _depth(content) > _depth(indent)

    def _lines(self, start: str, value: str, indent: str) -> tuple[str, ...]:
        """Return the lines of an option; lines after the first are indented further, which continues the value."""
        first, *rest = value.split("\n")
        more = [line if _depth(line) > _depth(indent) else f"{indent}    {line.strip(BLANKS)}" for line in rest]
        return tuple(f"{line}{self._end}" for line in (f"{start}{first}" if first else start.rstrip(BLANKS), *more))

    def _finish(self) -> None:
        """Add a line break to the last line of the text."""
        if self.entries:
            last = self.entries[-1]
            self.entries[-1] = replace(last, lines=(*last.lines[:-1], ended(last.lines[-1])))


def changes(old: Mapping[str, Mapping[str, str]], new: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the section and name of each option that differs."""
    for section in dict.fromkeys((*old, *new)):
        before, after = old.get(section, {}), new.get(section, {})
        for key in dict.fromkeys((*before, *after)):
            if before.get(key) != after.get(key):
                yield section, key

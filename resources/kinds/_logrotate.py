"""The configuration of logrotate: defaults, and blocks of directives for log files. All functions are pure.

Only whole lines are changed, so a file is refused if a change would concern a line with several directives or braces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from holdfast.resources.kinds._lines import split

SCRIPTS = frozenset({"prerotate", "postrotate", "firstaction", "lastaction", "preremove"})
"""Directives that begin a script, which ends with `endscript`."""
WORD = re.compile(r"[ \t]*([A-Za-z]+)(?:[ \t]*=[ \t]*|[ \t]+|$)(.*)", re.DOTALL)
NAMES = re.compile(r'"([^"]*)"|\'([^\']*)\'|([^\s"\']+)')
Value = str | bool
"""Value of a directive; true: the directive has no value, false: it is missing."""


class Directive(NamedTuple):
    """One directive."""

    line: int
    word: str
    value: Value


class Block(NamedTuple):
    """The directives of one block, or those outside of all blocks."""

    names: tuple[str, ...]
    directives: tuple[Directive, ...]
    first: int
    """Number of the first line of its header."""
    end: int
    """Number of the line with its closing brace."""

    def value(self, word: str) -> Value:
        """Return the value of a directive; logrotate uses the last value."""
        return next((each.value for each in reversed(self.directives) if each.word == word), False)


class Configuration(NamedTuple):
    """One file."""

    lines: tuple[str, ...]
    defaults: Block
    blocks: tuple[Block, ...]

    def block(self, name: str) -> Block | None:
        """Return the last block for a log file."""
        return next((block for block in reversed(self.blocks) if name in block.names), None)


def parse(text: str) -> Configuration:
    """Parse a file. Raises `ValueError` for a block that is not closed or shares its lines with others."""
    lines = tuple(split(text))
    defaults: list[Directive] = []
    blocks: list[Block] = []
    header: list[int] = []
    rows = _rows(lines)
    for number, row in rows:
        if row.endswith("{"):
            names = _names([lines[each] for each in header] + [row[:-1]])
            blocks.append(_block(names, header[0] if header else number, rows))
            header = []
        elif not row.endswith("}") and _is_header(row):
            header.append(number)
        elif "{" in row or "}" in row:
            raise ValueError(f"line {number + 1}: a brace must be at the end of a line, and be the only one there")
        else:
            defaults.append(_directive(number, row))
    if header:
        raise ValueError(f"line {header[0] + 1}: a block has no opening brace")
    return Configuration(lines, Block((), tuple(defaults), 0, len(lines)), tuple(blocks))


def _is_header(row: str) -> bool:
    """Return whether a line names log files. The value of a directive may be a glob, too: `taboopat + *.v`."""
    return row[0] in "/~\"'" or (WORD.fullmatch(row) is None and any(sign in row for sign in "*?["))


def _rows(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield the lines that are neither comments nor parts of scripts, with their numbers."""
    script = False
    for number, line in enumerate(lines):
        row = line.strip()
        if script:
            script = row != "endscript"
        elif row and not row.startswith("#"):
            script = row in SCRIPTS
            yield number, row


def _block(names: tuple[str, ...], first: int, rows: Iterator[tuple[int, str]]) -> Block:
    directives: list[Directive] = []
    for number, row in rows:
        if row == "}":
            return Block(names, tuple(directives), first, number)
        if "{" in row or "}" in row:
            raise ValueError(f"line {number + 1}: a brace must be at the end of a line, and be the only one there")
        directives.append(_directive(number, row))
    raise ValueError(f"line {first + 1}: the block is not closed")


def _directive(number: int, row: str) -> Directive:
    match = WORD.fullmatch(row)
    if match is None:
        return Directive(number, row, True)
    return Directive(number, match[1], match[2].strip() or True)


def _names(rows: Sequence[str]) -> tuple[str, ...]:
    found = (match.groups() for match in NAMES.finditer(" ".join(rows)))
    return tuple(next(filter(None, groups), "") for groups in found)


def changed(text: str, name: str | None, word: str, value: Value) -> str:
    """Return the text with a directive in a block (`name`) or in the defaults; all other lines stay.

    Raises `ValueError` as `parse` does.
    """
    known = parse(text)
    block = known.defaults if name is None else known.block(name)
    lines = [line if line.endswith("\n") else f"{line}\n" for line in known.lines]
    said = word if value is True else f"{word} {value}"
    if block is None:
        shown = f'"{name}"' if re.search(r"\s", str(name)) else name
        new = "" if value is False else f"{shown} {{\n    {said}\n}}\n"
        return "".join((*lines, "\n" if lines and new else "", new))
    mine = [each.line for each in block.directives if each.word == word]
    if value is False:
        return "".join(line for number, line in enumerate(lines) if number not in mine)
    if mine:
        lines[mine[-1]] = f"{_indent(lines[mine[-1]])}{said}\n"
    else:
        place, indent = _place(known, block, lines)
        lines.insert(place, f"{indent}{said}\n")
    return "".join(lines)


def _place(known: Configuration, block: Block, lines: Sequence[str]) -> tuple[int, str]:
    """Return the line number and the indentation of a new directive.

    Defaults apply only to later lines, so a new default comes before all blocks and before `include`.
    """
    if block.names:
        return block.end, _indent(lines[block.directives[0].line]) if block.directives else "    "
    limits = [each.first for each in known.blocks[:1]]
    limits += [each.line for each in block.directives if each.word == "include"][:1]
    limit = min(limits, default=len(lines))
    before = [each.line + 1 for each in block.directives if each.line < limit]
    return (before[-1] if before else limit), ""


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]

"""Output formats of a lint report: text for people, JSON, annotations for GitHub workflows, SARIF 2.1.0."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from holdfast import __version__
from holdfast.agent.phrases import number_of
from holdfast.resources.visible import clean, escaped, obeyed
from holdfast.states.codes import CODES, Level
from holdfast.states.errors import Location, Problem
from holdfast.states.lint.inspect import LintReport

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
COLOURS = {"error": "1;31", "warning": "1;33", "aside": "2"}
_BLANK = "�"
"""Replaces each control character in a quoted line, so that the mark stays below its column."""
MARGIN = 4
"""Columns before a quoted line."""


def levelled(report: LintReport) -> Iterator[tuple[Level, Problem]]:
    """Yield all findings, errors first."""
    for error in report.errors:
        yield "error", error
    for warning in report.warnings:
        yield "warning", warning


def as_json(report: LintReport) -> dict[str, Any]:
    """Return the stable JSON form."""
    return {
        "errors": [problem.as_dict() for problem in report.errors],
        "warnings": [problem.as_dict() for problem in report.warnings],
        "states": report.states,
    }


def _message(problem: Problem, base: Path) -> str:
    """Return the message of a problem, with paths in it relative to a directory."""
    return clean(problem.message.replace(f"{base}/", ""))


def relative(file: str, base: Path) -> str:
    """Return a path relative to a directory, if it is below that."""
    path = Path(file)
    return str(path.relative_to(base)) if path.is_relative_to(base) else file


# -- for people ------------------------------------------------------------------------------------------------


def text(report: LintReport, base: Path, *, colour: bool = False, width: int = 0) -> Iterator[str]:
    """Yield each finding in the format of the compiler's errors, then a line with counts.

    `width` 0 means no wrapping.
    """
    for level, problem in levelled(report):
        location = Location(
            escaped(relative(problem.location.file, base)), problem.location.line, problem.location.column
        )
        said = _wrapped(f"{location}: {level}: {_message(problem, base)} [{problem.code}]", "", width)
        if colour:
            said = said.replace(f": {level}: ", f": {_paint(level, level)}: ", 1)
            said = said.removesuffix(f"[{problem.code}]") + _paint("aside", f"[{problem.code}]")
        yield said
        yield from (_paint("aside", line) if colour else line for line in _quoted(problem, width))
        if problem.hint:
            yield _wrapped(clean(problem.hint), "  ", width)
        yield ""
    yield _sum(report)


def _sum(report: LintReport) -> str:
    looked = f" in {number_of(report.states, 'state')}" if report.states else ""
    counts = [
        number_of(len(found), noun) for found, noun in ((report.errors, "error"), (report.warnings, "warning")) if found
    ]
    return (", ".join(counts) or "no problems") + looked


def _wrapped(words: str, indent: str, width: int) -> str:
    """Return a sentence wrapped to `width`; continuation lines are indented by two more columns."""
    if not width:
        return indent + words
    return textwrap.fill(
        words,
        max(width, 40),
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _quoted(problem: Problem, width: int) -> Iterator[str]:
    """Yield the line of a finding, with a mark below its column; of a long line only the part around the column."""
    line, column = problem.text.rstrip().replace("\t", " "), problem.location.column
    if not line.strip():
        return
    room = max(width, 40) - MARGIN if width else len(line)
    start = 0 if len(line) <= room or column <= room * 3 // 4 else min(column - room // 2, len(line) - room)
    shown = obeyed().sub(_BLANK, line[start : start + room])
    shown = f"…{shown[1:]}" if start else shown
    yield " " * MARGIN + (f"{shown[:-1]}…" if start + room < len(line) else shown)
    if 0 < column <= len(line):
        yield " " * (MARGIN + column - start - 1) + "^"


def _paint(what: str, words: str) -> str:
    return f"\x1b[{COLOURS[what]}m{words}\x1b[0m"


# -- for GitHub ------------------------------------------------------------------------------------------------


def github(report: LintReport, base: Path) -> Iterator[str]:
    """Yield workflow commands that annotate lines of a change, one for each finding."""
    for level, problem in levelled(report):
        location = problem.location
        properties = {
            "file": relative(location.file, base),
            "line": location.line or 1,
            "col": location.column or None,
            "title": problem.code,
        }
        given = ",".join(
            f"{name}={_escaped(clean(str(value)), ':,')}" for name, value in properties.items() if value is not None
        )
        yield f"::{level} {given}::{_escaped(_whole(problem, base))}"


def _escaped(words: str, more: str = "") -> str:
    """Return text escaped for a workflow command: percent signs, line ends and special characters as numbers."""
    for char in "%\r\n" + more:
        words = words.replace(char, f"%{ord(char):02X}")
    return words


def _whole(problem: Problem, base: Path) -> str:
    """Return the message with the hint."""
    return "\n".join(filter(None, (_message(problem, base), clean(problem.hint))))


# -- SARIF -----------------------------------------------------------------------------------------------------


def sarif(report: LintReport, base: Path) -> dict[str, Any]:
    """Return a SARIF log of one run; paths are relative to `base`."""
    found = list(levelled(report))
    codes = sorted({problem.code for _, problem in found})
    driver = {"name": "holdfast", "semanticVersion": __version__, "rules": [_rule(code) for code in codes]}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"ROOT": {"uri": f"{base.as_uri()}/"}},
        "results": [_result(level, problem, codes.index(problem.code), base) for level, problem in found],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(code: str) -> dict[str, Any]:
    known = CODES[code]
    about = f"{known.meaning[0].upper()}{known.meaning[1:]}."
    silence = f" Silence one with a comment '# holdfast: ignore {code}'." if known.level == "warning" else ""
    return {
        "id": code,
        "shortDescription": {"text": about},
        "fullDescription": {"text": about},
        "help": {"text": about + silence},
        "defaultConfiguration": {"level": known.level},
    }


def _result(level: Level, problem: Problem, index: int, base: Path) -> dict[str, Any]:
    return {
        "ruleId": problem.code,
        "ruleIndex": index,
        "level": level,
        "message": {"text": _whole(problem, base)},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": _artifact(problem.location.file, base),
                    "region": _region(problem),
                }
            }
        ],
    }


def _artifact(file: str, base: Path) -> Mapping[str, str]:
    path = Path(file)
    if path.is_relative_to(base):
        return {"uri": quote(path.relative_to(base).as_posix()) or ".", "uriBaseId": "ROOT"}
    return {"uri": path.absolute().as_uri()}


def _region(problem: Problem) -> dict[str, Any]:
    """Return the location of a finding; a finding about a whole file is shown at its first line."""
    region: dict[str, Any] = {"startLine": problem.location.line or 1}
    if problem.location.column:
        region["startColumn"] = problem.location.column
    if problem.text.strip():
        region["snippet"] = {"text": problem.text}
    return region

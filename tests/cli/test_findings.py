"""The text of `check` on a terminal: lines fit its width, and colours show the severity."""

import re
from pathlib import Path

import pytest

from holdfast.agent.cli.findings import github, text
from holdfast.states.errors import Location, Problem
from holdfast.states.lint.inspect import LintReport

LONG = Problem(
    Location("/srv/states/web/server.sls", 14, 70),
    "managed-twice",
    "pkg.installed[nginx] and pkg.installed[nginx too] (/srv/states/web/more.sls:12:3) both manage the pkg nginx",
    "keep one of the two, and let others require it wherever they have need of it, one and all",
    "  pkg.installed: ".ljust(69, "x") + "|".ljust(90, "x"),
)


def test_lines_fit_a_terminal():
    """Messages are wrapped between words; paths are relative to the working directory.

    The part of a quoted line around the column of the problem is shown.
    """
    lines = "\n".join(text(LintReport((), (LONG,), 2), Path("/srv"), width=80)).split("\n")

    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("states/web/server.sls:14:70: warning: pkg.installed[nginx] and")
    assert lines[1].startswith("  ")
    assert "(states/web/more.sls:12:3)" in " ".join(map(str.strip, lines))
    quoted = next(index for index, line in enumerate(lines) if line.endswith("…"))
    assert lines[quoted].startswith("    …")
    assert lines[quoted][lines[quoted + 1].index("^")] == LONG.text[LONG.location.column - 1] == "|"
    assert lines[-2:] == ["", "1 warning in 2 states"]


@pytest.mark.parametrize("column", [1, 40, 70, 100, 109, 0, 500])
@pytest.mark.parametrize("width", [0, 40, 80, 200])
def test_mark_stays_below_its_column(column, width):
    """The mark stays there at any width. Without a column, or beyond the end of the line, there is no mark."""
    problem = LONG._replace(
        location=Location("/srv/x.sls", 14, column), text="".join(map(chr, range(0x4E00, 0x4E00 + 109)))
    )
    lines = "\n".join(text(LintReport((problem,)), Path("/srv"), width=width)).split("\n")
    marks = [index for index, line in enumerate(lines) if line.strip() == "^"]

    assert len(marks) == (0 < column <= 109)
    for index in marks:
        at = lines[index].index("^")
        assert lines[index - 1][at] == problem.text[column - 1]


def test_colours_change_no_text():
    """Without the escape sequences, the coloured text equals the plain one."""
    report = LintReport((LONG,), (LONG,), 2)
    plain, painted = (["\n".join(text(report, Path("/srv"), colour=colour, width=80))] for colour in (False, True))

    assert "\x1b" not in plain[0]
    assert re.sub(r"\x1b\[[0-9;]*m", "", painted[0]) == plain[0]
    assert "\x1b[1;31merror\x1b[0m" in painted[0]
    assert "\x1b[1;33mwarning\x1b[0m" in painted[0]


def test_control_characters_are_never_printed():
    """Locations, messages, hints and quoted lines are checked.

    The marks of quoted lines stay below their columns.
    """
    place = Location("/states/a\x07.sls", 1, 4)
    problem = Problem(place, "unknown-state", "there is no 'x\x1b[31m'", "write \x9b2J", "a\x1b: b\x1b]0;title\x07")
    shown = "\n".join([*text(LintReport((problem,)), Path("/srv")), str(problem)])
    plain = problem._replace(location=Location("/states/a.sls"))

    assert not set(shown + "".join(github(LintReport((plain,)), Path("/srv")))) & {"\x1b", "\x07", "\x9b"}
    assert "there is no 'x\\x1b[31m' [unknown-state]\n    a�: b�]0;title�\n       ^\n  write \\x9b2J" in shown

"""No control character and no change of text direction of a name or content reaches a terminal or the journal."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click
import pytest
import yaml

from holdfast.agent import logs
from holdfast.agent.cli import explanation, findings, live_view, main, resource_table, terminal
from holdfast.agent.console import Console, to_json
from holdfast.agent.notify import Notifier
from holdfast.agent.pictures.drawing import Drawing, DrawnEdge, DrawnNode
from holdfast.agent.pictures.svg import svg
from holdfast.agent.pictures.texts import dot, mermaid
from holdfast.resources import visible
from holdfast.resources.errors import Permanent
from holdfast.states.errors import Location, Problem
from holdfast.states.lint.inspect import LintReport
from holdfast_process import Tree

DIRECTIONS = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
OBEYED = frozenset((*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, *DIRECTIONS, *range(0xD800, 0xE000)))
BAD = "".join(map(chr, sorted(OBEYED)))
"""Every character that must not reach a terminal."""
EVIL = "a\x1b]0;pwned\x07\x1b[31m" + "".join(letter for letter in BAD if letter < "\ud800") + "\udfff\udc80\ud800z"
SGR = re.compile("\x1b\\[[0-9;]*m")
"""The colour sequences of Holdfast itself."""


def control_characters(text, *, keep="\n\t"):
    """Return the control characters of a text, except line feeds, tabs and colour sequences of Holdfast."""
    return {letter for letter in SGR.sub("", text) if ord(letter) in OBEYED and letter not in keep}


def test_these_characters_are_escaped_and_no_others():
    """Each character of Unicode is escaped in text of one line if, and only if, a terminal may interpret it."""
    assert {code for code in range(0x110000) if visible.obeyed().match(chr(code))} == OBEYED


def test_all_classes_of_control_characters_are_escaped():
    """C0, DEL, C1, direction marks, embeddings, overrides and isolates, separators, surrogates."""
    for letter in "\0\x07\x1b\r\x7f\x85\x9b\u061c\u200e\u200f\u202a\u202e\u2028\u2029\u2066\u2069\ud800\udc80\udfff":
        assert letter in BAD
        assert visible.clean(letter).isascii()
    assert visible.clean("ä\n\tß中🦀") == "ä\n\tß中🦀"
    assert visible.clean("\x1b\x9b\udcff\u202e") == "\\x1b\\x9b\\xff\\u202e"
    assert visible.escaped("a\nb\tc") == "a\\x0ab\\x09c"


ENTRY = {
    "time": 1.0,
    "level": "warning",
    "event": f"failed {EVIL}",
    "resource": EVIL,
    "details": f"+{EVIL}",
    "exception": EVIL,
    EVIL: EVIL,
    "changes": {EVIL: [EVIL]},
}
ROW = {
    "identity": EVIL, "state": "failed", "failed": True, "file": EVIL, "line": 1, "comment": EVIL, "name": "x",
    "sls": EVIL, "pending_refresh": True, "next": 1.0, "last_change": {"at": 1.0, "cause": "drift", "comment": EVIL},
}  # fmt: skip
HEALTH = [{"severity": "error", "text": EVIL, "code": "x"}]
FACTS = {
    "identity": EVIL, "state": "failed", "file": EVIL, "line": 1, "sls": EVIL, "position": 0,
    "reason_for_place": EVIL, "running": False, "running_for": None, "last": {
        "at": 1.0, "ran": True, "attempts": 2, "duration": 1.0, "cause": "drift", "by": [EVIL], "comment": EVIL,
    },
    "last_change": {"at": 1.0, "cause": "drift"}, "waits": [
        {"text": EVIL, "who": [{"identity": EVIL, "state": "ok"}], "more": 1},
    ],
    "blocked_by": [{"identity": EVIL, "state": "ok", "comment": EVIL}], "next": [{"what": "end"}],
    "history": [
        {"at": 1.0, "duration": 1.0, "cause": "drift", "times": 2, "first": 1.0, "comment": EVIL, "what": "failed"},
    ],
    "needs": [{"identity": EVIL, "state": "ok", "requisite": "require", "pending": 0}], "needed_by": [],
}  # fmt: skip
FRAME = {
    "id": EVIL, "counts": {
        "resources": 1, "failed": 1,
    }, "converged": False, "noop": False, "status": EVIL, "health": HEALTH,
    "pass": {"number": 1, "cause": "start", "running": False, "text": EVIL, "at": 1.0},
    "rows": [{"identity": EVIL, "state": "failed", "comment": EVIL}],
    "recent": [{"at": 1.0, "what": "failed", "identity": EVIL, "times": 1, "duration": 1.0, "cause": "drift"}],
}  # fmt: skip
PROBLEM = Problem(Location(EVIL, 1, 1), "yaml-syntax", EVIL, EVIL, EVIL)
DRAWING = Drawing(
    [DrawnNode(EVIL, "test.nop", EVIL), DrawnNode("b", "test.nop", "a")], [DrawnEdge(EVIL, "b", "require")]
)
STATUS = {
    "id": EVIL,
    "converged": False,
    "pid": 1,
    "started": 1.0,
    "status": EVIL,
    "health": HEALTH,
    "resources": [ROW],
}
PAPERS = [terminal.Paper(80, colour=True), terminal.Paper(40), terminal.Paper()]
OUTPUTS = {
    "log": lambda _: Console(colour=True).render(ENTRY).decode(),
    "log as JSON": lambda _: to_json(ENTRY).decode(),
    "status": lambda paper: "\n".join(
        [*resource_table.heading(STATUS, paper), *resource_table.table([ROW], paper, everything=True)]
    ),
    "status --tree": lambda paper: "\n".join(resource_table.tree([ROW], paper, everything=True)),
    "why": lambda paper: "\n".join(explanation.tell(FACTS, paper)),
    "watch": lambda paper: "\n".join(live_view.picture(FRAME, paper, 30, 0)),
    "problem": lambda _: str(PROBLEM),
    "check": lambda _: "\n".join(findings.text(LintReport((PROBLEM,), (), 1), Path("/srv"), width=80)),
    "check for GitHub": lambda _: "\n".join(findings.github(LintReport((PROBLEM,), (), 1), Path("/srv"))),
    "check as JSON": lambda _: json.dumps(findings.as_json(LintReport((PROBLEM,), (), 1))),
    "dot": lambda _: "\n".join(dot(DRAWING)),
    "mermaid": lambda _: "\n".join(mermaid(DRAWING)),
    "svg": lambda _: "\n".join(svg(DRAWING, EVIL)),
}


@pytest.mark.parametrize("paper", PAPERS, ids=["wide", "narrow", "file"])
@pytest.mark.parametrize("output", OUTPUTS)
def test_an_output_shows_control_characters_as_escapes(output, paper):
    """The escape sequence of the name can be read."""
    text = OUTPUTS[output](paper)

    assert not control_characters(text)
    assert "\x1b[31ma" not in text
    assert "a\\x1b]0;" in text or "a\\\\x1b]0;" in text or "a\\u001b" in text or "a#92;x1b" in text


def test_json_keeps_control_characters():
    """A program that reads JSON gets the text of the user unchanged."""
    line = json.loads(to_json({"time": 1.0, "event": EVIL, "changes": {EVIL: EVIL}}))

    assert (line["message"], line["changes"]) == (EVIL, {EVIL: EVIL})


def test_no_field_of_the_journal_has_control_characters(monkeypatch):
    """The message and all other fields are checked, JSON included."""
    fields = {}
    monkeypatch.setattr(logs, "encode_journal", fields.update)
    logs.to_journal(ENTRY)

    assert {"MESSAGE", "RESOURCE", "CHANGES"} <= fields.keys()
    assert not control_characters("".join(fields.values()))


@pytest.mark.parametrize(
    "error",
    [click.UsageError(EVIL), Permanent(EVIL), OSError(2, EVIL, EVIL), RuntimeError(EVIL)],
    ids=lambda error: type(error).__name__,
)
def test_no_error_message_of_a_verb_has_control_characters(error, monkeypatch, capsys):
    """Each type of error is checked, with its traceback."""

    def fail(**_):
        raise error

    monkeypatch.setattr(main, "cli", fail)
    with pytest.raises(SystemExit):
        main.main(["--debug"])

    said = capsys.readouterr().err
    assert "\\x1b" in said
    assert not control_characters(said)


def test_the_status_of_the_unit_has_no_control_characters(monkeypatch):
    """`systemctl status` shows this status on one line, so that line feeds are escaped, too."""
    sent = []
    notifier = Notifier({})
    monkeypatch.setattr(notifier, "_send", sent.append)
    notifier.status(EVIL)

    assert not control_characters(sent[0], keep="")


def test_no_verb_prints_control_characters_of_states(tmp_path):
    """Views of `show`, `plan`, `check` and `apply`; the YAML and JSON of the pillar keep the values."""
    tree = Tree(tmp_path)
    evil = "a\x1b[31m\x85\u202eb\x07"
    tree.sls(
        "web",
        yaml.safe_dump(
            {
                f"{tmp_path}/{evil}": {"file.managed": [{"contents": f"{evil}\n"}, {"require": [{"test": evil}]}]},
                evil: {"test.nop": []},
            }
        ),
    )
    (tree.etc / "pillar/data.sls").write_text(yaml.safe_dump({evil: evil}))
    grains = tmp_path / "grains.yaml"
    grains.write_text(yaml.safe_dump({evil: evil}))
    views = [
        *(["show", view] for view in ("low", "high", "top", "order", "pillar", "graph")),
        ["show", "grains", "--grains", grains],
        ["plan"],
        ["check"],
        ["apply", "--verbose"],
    ]
    for view in views:
        done = tree(*view)
        assert "internal error" not in done.stderr
        assert not control_characters(done.stdout + done.stderr), view
    for view in views[:4]:
        assert "\\x1b" in tree(*view).stdout or "\\e" in tree(*view).stdout or view[1] == "top"
    assert (tmp_path / evil).read_text() == f"{evil}\n"
    assert (
        yaml.safe_load(tree("show", "pillar", check=0).stdout) == tree.json("show", "pillar", check=0) == {evil: evil}
    )

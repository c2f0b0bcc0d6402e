"""Fields of answers that are hidden from viewers."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.agent.control.viewers import AUTHOR, HIDDEN, OPEN_CODES, masked
from holdfast.agent.northbound.privacy import private_fields
from holdfast.agent.records.models import Actor
from holdfast.resources.author import Author

SOURCES = Path(__file__).parents[2] / "agent"


def test_a_field_that_is_not_known_is_hidden():
    """Fields of nested mappings and lists are hidden, too."""
    assert masked({"identity": "a", "new": "x", "history": [{"at": 1, "new": "x"}]}) == {
        "identity": "a",
        "new": HIDDEN,
        "history": [{"at": 1, "new": HIDDEN}],
    }


def test_each_mapping_is_decided_by_itself():
    """A public row may contain the comment of a change that is not public, and the reverse."""
    row = {"public": True, "comment": "open", "last_change": {"public": False, "comment": "closed"}}
    other = {"public": False, "comment": "closed", "last_change": {"public": True, "comment": "open"}}

    assert masked(row)["comment"] == "open"
    assert masked(row)["last_change"]["comment"] == HIDDEN
    assert masked(other)["comment"] == HIDDEN
    assert masked(other)["last_change"]["comment"] == "open"


def test_only_true_makes_a_mapping_public():
    """A text or a number in place of true does not."""
    assert [masked({"public": value, "diff": "x"})["diff"] for value in ("yes", 1, None, [True])] == [HIDDEN] * 4


def test_public_changes_are_shown_whole():
    """The names of changes are not known, but public changes contain only what everyone could read."""
    assert masked({"public": True, "changes": {"mode": {"old": 1, "new": 2}}})["changes"] == {
        "mode": {"old": 1, "new": 2}
    }


def test_a_code_opens_the_text_of_a_message_and_nothing_else():
    """Messages with other codes may quote values."""
    told, other = ({"code": code, "text": "words", "details": "x"} for code in ("watch-polling", "states-broken"))

    assert masked(told) == {"code": "watch-polling", "text": "words", "details": HIDDEN}
    assert masked(other) == {"code": "states-broken", "text": HIDDEN, "details": HIDDEN}


def change_by_a_process(**fields: object) -> dict[str, object]:
    """Return a line of the log about a change that a process has caused."""
    by = Author(7, "vim", "vim -c password", 0, "root", "deploy").fields()
    event = f"repaired x in 3 ms (drift; changed by {Author.of(by)})"
    line = {"event": event, "resource": "x", "what": "repaired", "cause": "drift", "duration": 0.003, "by": by}
    return {**line, "result": "changed", "diff": "+a", "details": "+a", **fields}


def test_a_public_change_by_a_process_is_shown_with_its_verb_its_diff_and_its_author():
    """Viewers see the same fields of the process as in the records."""
    shown = masked(change_by_a_process(public=True))

    assert shown["event"] == "repaired x in 3 ms (drift; changed by vim, pid 7, login user deploy)"
    assert (shown["diff"], shown["details"]) == ("+a", "+a")
    assert shown["by"] == {"pid": 7, "name": "vim", "uid": 0, "user": "root", "login": "deploy", "way": "host"}


def test_another_change_by_a_process_is_shown_without_its_diff():
    """Everyone may see the verb and the author."""
    shown = masked(change_by_a_process(ended="killed"))

    assert shown["event"] == "repaired x in 3 ms (drift; killed; changed by vim, pid 7, login user deploy)"
    assert (shown["diff"], shown.get("details")) == (HIDDEN, None)


def test_a_command_line_is_hidden_everywhere():
    """A command line is the private data of the user who ran it."""
    by = change_by_a_process()["by"]
    shown = masked([change_by_a_process(public=True), {"public": True, "changed_by": by, "ended": "killed"}])

    assert "password" not in str(shown)
    assert shown[1]["changed_by"]["pid"] == 7
    assert shown[1]["ended"] == "killed"


def test_viewers_see_of_a_process_what_they_see_of_it_in_the_records():
    """The log and the tables use the same decision."""
    private, opened = private_fields(Actor)

    assert frozenset(Actor.model_fields) - private == AUTHOR
    assert not opened


@pytest.mark.parametrize(("code", "shown"), [("watch-polling", "the sentence"), ("states-broken", HIDDEN)])
def test_the_status_line_is_hidden_if_it_may_repeat_a_condition(code: str, shown: str):
    """If the states cannot be used, the status line is the error message."""
    health = [{"code": code, "severity": "error", "text": "t", "since": 1.0}]

    assert masked({"status": "the sentence", "health": health})["status"] == shown


def test_a_line_of_the_log_is_told_without_its_comment():
    """The sentence is made of the fields that everyone may see."""
    entry = {
        "event": "failed cmd.run[x] in 3 ms (drift): secret",
        "resource": "cmd.run[x]",
        "result": "failed",
        "cause": "drift",
        "details": "stdout: secret",
        "changes": {"stdout": "secret"},
    }

    assert masked(entry) == {
        "event": "failed cmd.run[x] (drift)",
        "resource": "cmd.run[x]",
        "result": "failed",
        "cause": "drift",
        "changes": HIDDEN,
    }


def test_a_line_without_a_resource_is_hidden_unless_its_code_is_open():
    """The line of a function call, for example, has arguments."""
    assert masked({"event": "called user.set_password bob secret", "called": "user.set_password"})["event"] == HIDDEN
    assert masked({"event": "reloading", "code": "reloading"})["event"] == "reloading"


def test_a_comment_is_left_out_where_nothing_is_wrong():
    """Otherwise, a table of resources would be full of masks."""
    assert masked({"result": True, "comment": "x"})["comment"] == ""
    assert masked({"result": None, "comment": "x"})["comment"] == HIDDEN


def test_rows_that_are_made_later_are_hidden_later():
    """Long answers are iterators, whose parts are made one at a time."""
    made = []
    rows = masked({"resources": (made.append(number) or {"diff": "x"} for number in range(3))})["resources"]

    assert not made
    assert next(rows) == {"diff": HIDDEN}
    assert made == [0]


def test_each_open_code_exists():
    """For a renamed code, the decision must be made again."""
    text = "\n".join(path.read_text() for path in SOURCES.rglob("*.py") if path.name != "viewers.py")

    assert [code for code in sorted(OPEN_CODES) if f'"{code}"' not in text] == []

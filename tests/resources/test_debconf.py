"""Answers for debconf: comparison, values that cannot be passed, and passwords, which are never shown."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from holdfast.resources import registry
from holdfast.resources.errors import HoldfastError
from holdfast.resources.kinds import debconf
from holdfast.resources.kinds._debconf import TYPES, Answer, demand_answer, known, selections
from holdfast.resources.testing import FakeContext

CONFIG = """\
Name: mail/host
Template: mail/host
Value: mail.example.org
Owners: mail, other
Flags: seen

Name: mail/relay
Template: mail/relay
Owners: mail
Variables:
 Value: of a variable

Name: mail/empty
Template: mail/empty
Value:
Owners: mail
"""
PASSWORDS = "Name: mail/password\nTemplate: mail/password\nValue: hunter2\nOwners: mail\n"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that runs a state with a database of its own; the tool writes its input to a file."""
    files = tuple(str(tmp_path / name) for name in ("config.dat", "passwords.dat"))
    Path(files[0]).write_text(CONFIG)
    Path(files[1]).write_text(PASSWORDS)
    monkeypatch.setattr(debconf, "DATABASE", files)

    async def runner(kind: str = "debconf.set", *, apply: bool = False, **given: Any) -> FakeContext:
        cls = registry.find(kind)
        assert cls is not None
        ctx = FakeContext(
            tmp_path,
            facts={"os_family": "Debian"},
            commands={"debconf-set-selections": {"into": str(tmp_path / "input")}},
            sources=given.pop("sources", {}),
        )
        state = cls.declare(given.pop("name", "mail"), **given)
        try:
            assert await state.check_apply(ctx, apply) is (not ctx.report.changes)
        except HoldfastError as error:
            ctx.report.comment = str(error)
        return ctx

    return runner


async def test_the_database_is_away_while_it_is_saved(run, tmp_path):
    """The old file is renamed first. Until there is a new one, nothing differs; if none appears, nothing is set."""
    config = tmp_path / "config.dat"
    config.rename(new := tmp_path / "config.dat-new")
    asyncio.get_running_loop().call_later(0.03, new.rename, config)
    answer = {"mail/host": {"type": "string", "value": "mail.example.org"}}
    assert (await run(data=answer)).report.changes == {}
    config.unlink()
    assert (await run(data=answer)).report.changes == {"mail/host": "mail.example.org"}


async def test_only_what_differs_is_set(run, tmp_path):
    """These are values, missing answers, and questions of another owner; the tool gets them on standard input."""
    answers = {
        "mail/host": {"type": "string", "value": "mail.example.org"},
        "mail/empty": {"type": "string", "value": None},
        "mail/relay": {"type": "string", "value": ""},
        "mail/tls": {"type": "boolean", "value": True},
        "mail/password": {"type": "password", "value": "hunter2"},
    }
    ctx = await run(data=answers)
    assert ctx.report.changes == {"mail/relay": "", "mail/tls": "true"}
    assert ctx.calls == []
    ctx = await run(data=answers, apply=True)
    assert ctx.calls == ["debconf-set-selections"]
    assert (tmp_path / "input").read_text() == "mail mail/relay string \nmail mail/tls boolean true\n"
    told = "still differs after the repair: mail/relay, mail/tls; perhaps another program sets it"
    assert ctx.report.comment.startswith(told), "the fake has set nothing"
    ctx = await run(name="third", data={"mail/host": {"type": "string", "value": "mail.example.org"}})
    assert ctx.report.changes == {"mail/host": "mail.example.org"}


async def test_a_password_is_not_told(run):
    """The report contains neither the new password nor the present one."""
    ctx = await run(data={"mail/password": {"type": "password", "value": "correct horse"}})
    assert ctx.report.changes == {"mail/password": "(password hidden)"}
    state = registry.find("debconf.set").declare("mail", data={"a/b": {"type": "password", "value": "horse"}})
    told = f"{ctx.report} {ctx.log.events} {state!r}"
    assert "hunter2" not in told
    assert "horse" not in told


async def test_answers_from_a_file(run, tmp_path):
    """Comments, continued lines and flags are read as debconf does; the last answer counts."""
    text = "# x\n\nmail mail/host select other\nmail  mail/host string mail.example\\\n.org\n"
    text += "mail mail/host seen true\nmail mail/q note\n"
    ctx = await run("debconf.set_file", name="x", source="salt://a", sources={"salt://a": text})
    assert ctx.report.changes == {"mail/q": ""}
    ctx = await run("debconf.set_file", name="x", source="salt://a", sources={"salt://a": "mail mail/q\n"})
    assert ctx.report.comment == "cannot read salt://a: line 1: an answer is: package question type value"


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"type": "string", "value": "a\nmail mail/x string b"}, "one line"),
        ({"type": "string", "value": "a\\"}, "backslash"),
        ({"type": "string", "value": " a"}, "blanks"),
        ({"type": "boolean", "value": "yes"}, "true or false"),
        ({"type": "strnig", "value": "x"}, "is not a type"),
        ({"type": "string"}, "write {type"),
    ],
)
def test_answers_that_cannot_be_passed_on(answer, told):
    """Such answers are refused before anything runs."""
    with pytest.raises(ValidationError, match=told):
        registry.find("debconf.set").declare("mail", data={"mail/x": answer})


@pytest.mark.parametrize("question", ["#x", "a b", "", "x\ny"])
def test_questions_that_are_not_one_word(question):
    """A line with such a question would have another meaning."""
    with pytest.raises(ValidationError):
        registry.find("debconf.set").declare("mail", data={question: {"type": "string", "value": "x"}})


def test_two_states_of_one_question():
    """Two states contradict each other only if the answers differ."""
    declare = registry.find("debconf.set").declare
    one = declare("mail", data={"a/b": {"type": "string", "value": "x"}, "a/c": {"type": "string", "value": "x"}})
    assert one.contradicts(declare("mail", data={"a/b": {"type": "string", "value": "x"}})) is None
    other = declare("mail", data={"a/b": {"type": "string", "value": "y"}})
    assert one.contradicts(other) == "the answer to a/b differs"
    assert set(one.uids()) & set(other.uids())


@given(
    st.from_regex(r"[a-z][a-z0-9+.-]{0,8}", fullmatch=True),
    st.from_regex(r"[!-~]{1,12}", fullmatch=True).filter(lambda word: word[0] != "#"),
    st.sampled_from(TYPES),
    st.text(max_size=30),
)
def test_a_line_is_read_as_it_was_written(owner, question, type_, value):
    """Every accepted answer reaches debconf exactly."""
    try:
        answer = demand_answer(Answer(owner, question, type_, value))
    except ValueError:
        return
    assert list(selections(answer.line)) == [answer]


def test_the_database_is_read():
    """A question may have no answer, and several owners; variables are not answers."""
    found = known([CONFIG, PASSWORDS])
    assert found["mail/host"] == ("mail.example.org", frozenset({"mail", "other"}))
    assert found["mail/relay"].value is None
    assert found["mail/empty"].value == ""
    assert found["mail/password"].value == "hunter2"

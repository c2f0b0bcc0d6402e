"""`recv`: arguments whose value another state sends.

The compiler reports all mistakes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.states.compile.compiler import Compiler
from holdfast.states.data import Compilation, CompilerInputs
from holdfast.states.errors import CompileError

SENDER = "token:\n  cmd.run: [{name: make-token}]\n"


def compiled(tmp_path: Path, text: str) -> Compilation:
    """Compile one state file."""
    (tmp_path / "a.sls").write_text(text)
    tmp_path.chmod(0o755)
    return Compiler().compile(CompilerInputs(tmp_path, trusted_uids=frozenset({0, tmp_path.stat().st_uid})))


def receiving(recv: str, kind: str = "file.managed") -> str:
    """Return states of a receiver and a sender."""
    return f"/etc/token:\n  {kind}:\n    - recv: {recv}\n{SENDER}"


def test_both_outputs_and_the_combined_one_exclude_each_other(tmp_path: Path):
    """A command has one pipe or two, so one receiver cannot have `combined` and another one `stdout`."""
    both = "other:\n  test.nop: []\n/etc/err:\n  file.managed:\n    - recv: {contents: {cmd: token, key: KEY}}\n"
    with pytest.raises(CompileError) as caught:
        compiled(tmp_path, receiving("{contents: {cmd: token, key: combined}}") + both.replace("KEY", "stderr"))
    (problem,) = caught.value.problems
    assert problem.code == "recv-sender"
    assert "cmd.run[token] cannot send 'combined' and 'stderr': it sends 'combined' instead" in problem.message
    assert problem.location.line == 10

    assert (
        len(
            compiled(
                tmp_path, receiving("{contents: {cmd: token, key: combined}}") + both.replace("KEY", "combined")
            ).calls
        )
        == 4
    )


@pytest.mark.parametrize(
    "recv", ["{contents: {cmd: token, key: stdout}}", "[{contents: {id: make-token, key: stdout}}]"]
)
def test_the_sender_runs_before_the_receiver(tmp_path: Path, recv: str):
    """The sender is named by ID or name, in a mapping or a list; low data keep the text."""
    sender, receiver = compiled(tmp_path, receiving(recv)).calls

    assert sender.identity == "cmd.run[token]"
    assert receiver.requisites == {"recv": (0,)}
    assert receiver.meta.recv[0].key == "stdout"
    assert isinstance(receiver.low["recv"], (dict, list))
    assert receiver.reason == "order 10000"
    assert sender.reason == "pulled forward by file.managed[/etc/token] (recv)"


@pytest.mark.parametrize(
    ("recv", "code", "text"),
    [
        ("{contents: {cmd: tokn, key: stdout}}", "requisite-missing", "did you mean 'token'"),
        (
            "{contents: {cmd: token, key: stdot}}",
            "recv-sender",
            "cmd.run[token] sends no 'stdot'|did you mean 'stdout'",
        ),
        (
            "{content: {cmd: token, key: stdout}}",
            "recv-type",
            "file.managed cannot receive 'content'|did you mean 'contents'",
        ),
        ("{name: {cmd: token, key: stdout}}", "recv-type", "cannot receive 'name'"),
        ("{makedirs: {cmd: token, key: stdout}}", "recv-type", "'makedirs' of file.managed[/etc/token] cannot be text"),
        ("{contents: {cmd: token}}", "argument-value", "the sender, and the key of one of its values"),
        ("{contents: stdout}", "argument-value", "must be given as `contents: {cmd: ID, key: stdout}`"),
        ("[contents]", "argument-value", "is not a mapping"),
        (
            "[{contents: {cmd: token, key: stdout}}, {contents: {cmd: token, key: stderr}}]",
            "argument-value",
            "from one state only",
        ),
        ("{contents: {cmd: 'tok*', key: stdout}}", "", ""),
        ("{source: {cmd: token, key: stdout}}", "", ""),  # some texts are valid sources
    ],
)
def test_an_invalid_recv_is_an_error_with_its_line(tmp_path: Path, recv: str, code: str, text: str):
    """A state, key or argument does not exist, a type does not fit, or a word is missing."""
    if not code:
        assert len(compiled(tmp_path, receiving(recv)).calls) == 2
        return
    with pytest.raises(CompileError) as caught:
        compiled(tmp_path, receiving(recv))

    (problem,) = caught.value.problems
    assert problem.code == code
    assert problem.location.line == 3
    for part in text.split("|"):
        assert part in f"{problem.message} {problem.hint}"


def test_only_one_state_may_send_to_an_argument(tmp_path: Path):
    """A glob that matches two states is ambiguous."""
    with pytest.raises(CompileError, match="would receive from 2 states"):
        compiled(tmp_path, receiving("{contents: {cmd: 'tok*', key: stdout}}") + SENDER.replace("token:", "token2:"))


def test_a_recv_of_a_kind_that_receives_nothing_is_an_error(tmp_path: Path):
    """The argument would otherwise have no effect."""
    with pytest.raises(CompileError, match=r"test.nop receives nothing"):
        compiled(tmp_path, receiving("{x: {cmd: token, key: stdout}}", "test.nop"))


def test_a_recv_from_a_state_that_sends_nothing_is_an_error(tmp_path: Path):
    """The message names that state."""
    with pytest.raises(CompileError, match=r"test.nop\[quiet\] sends no 'stdout'"):
        compiled(tmp_path, receiving("{contents: {test: quiet, key: stdout}}") + "quiet: test.nop\n")


def test_an_argument_for_text_or_a_number_receives_a_number(tmp_path: Path):
    """A written number is valid there, too."""
    text = (
        "app:\n  user.present: []\napp2:\n  user.present:\n"
        "    - recv: {gid: {user: app, key: gid}, shell: {user: app, key: home}}\n"
    )
    assert len(compiled(tmp_path, text).calls) == 2


def test_a_cycle_with_recv_is_reported(tmp_path: Path):
    """The cycle contains a `require`, too."""
    with pytest.raises(CompileError, match="form a cycle"):
        compiled(
            tmp_path,
            receiving("{contents: {cmd: token, key: stdout}}").replace(
                "make-token}]", "make-token}, {require: [{file: /etc/token}]}]"
            ),
        )

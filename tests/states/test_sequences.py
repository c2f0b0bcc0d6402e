"""If lenient states declare one thing, the compiler finds which of them later ones supersede."""

from __future__ import annotations

import pytest

SEQUENCE = """
first:
  file.managed: [{name: /policy}, {contents: exit 101}]
work:
  test.nop: []
last:
  file.absent: [{name: /policy}]
"""


def superseded(compilation):
    """Return the identities of the calls that supersede each call."""
    calls = compilation.calls
    return {call.identity: [calls[at].identity for at in call.superseded.by] for call in calls if call.superseded}


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ("file.managed: [{name: /x}]", "file.absent: [{name: /x}]"),
        ("file.absent: [{name: /x}]", "file.directory: [{name: /x}]"),
        ("file.absent: [{name: /x}]", "file.managed: [{name: /x/y}]"),
        ("file.managed: [{name: /x}, {contents: a}]", "file.managed: [{name: /x}, {contents: b}]"),
        ("file.managed: [{name: /x}, {contents: a}]", "file.append: [{name: /x}, {text: b}]"),
        ("service.dead: [{name: x}]", "service.running: [{name: x}]"),
        ("service.enabled: [{name: x}]", "service.disabled: [{name: x}]"),
        ("pkg.removed: [{name: x}]", "pkg.installed: [{name: x}]"),
        ("user.present: [{name: x}]", "user.absent: [{name: x}]"),
    ],
)
def test_the_earlier_of_two_states_is_superseded_if_it_is_lenient(compile_tree, problems, first, last):
    """A warning at the earlier state says so. If that state is strict, the error names the setting."""
    text = f"a:\n  {first}\nb:\n  {last}\n"
    compiled = compile_tree(text, lenient=("site",))
    (warning,) = [problem for problem in compiled.warnings if problem.waived]

    a, b = (call.identity for call in compiled.calls)
    assert superseded(compiled) == {a: [b]}
    assert (warning.code, warning.location.line) == ("contradiction", 2)
    assert "the later one is maintained" in warning.message
    (problem,) = problems(text)
    assert (problem.code, problem.location.line) == ("contradiction", 4)
    assert problem.hint == "keep one of the two; if these are not your states, name their SLS in `lenient`"


def test_a_strict_state_is_not_superseded_by_a_lenient_one(compile_tree, problems):
    """The agent keeps maintaining the state of the user. A strict state supersedes an earlier lenient one."""
    own, others = "a: {file.managed: [{name: /x}]}", "b: {file.absent: [{name: /x}]}"
    (problem,) = problems(
        {"site.sls": f"include: [others]\n{own}\nc: {{test.nop: []}}", "others.sls": others, "x.sls": ""},
        "others",
        "site",
        lenient=("site",),
    )
    assert problem.code == "contradiction"

    compiled = compile_tree(
        {"site.sls": f"include: [others]\n{own}", "others.sls": others}, "site", lenient=("others",)
    )
    assert superseded(compiled) == {"file.absent[b]": ["file.managed[a]"]}


def test_the_order_of_execution_decides_which_state_is_earlier(compile_tree):
    """The order of the file does not matter."""
    text = "a:\n  file.managed: [{name: /x}, {require: [b]}]\nb:\n  file.absent: [{name: /x}]\n"

    assert superseded(compile_tree(text, lenient=("*",))) == {"file.absent[b]": ["file.managed[a]"]}


def test_states_under_a_condition_supersede_nothing(compile_tree):
    """The compiler does not know which state applies, so both are maintained, with a warning, as in strict states."""
    for condition in ("onlyif: x", "onchanges: [c]", "prereq: [c]"):
        text = (
            f"a:\n  file.managed: [{{name: /x}}, {{{condition}}}]\nc:\n"
            f"  file.managed: [{{name: /y}}]\nb:\n  file.absent: [{{name: /x}}]\n"
        )
        compiled = compile_tree(text, lenient=("*",))

        assert superseded(compiled) == {}
        assert [problem.code for problem in compiled.warnings] == ["contradiction-possible"]


def test_of_three_each_earlier_one_is_superseded(compile_tree):
    """Later states that differ supersede an earlier one; a repetition does not."""
    text = "".join(f"s{n}:\n  file.{what}: [{{name: /x}}]\n" for n, what in enumerate(("managed", "absent", "managed")))

    assert superseded(compile_tree(text, lenient=("*",))) == {
        "file.managed[s0]": ["file.absent[s1]"],
        "file.absent[s1]": ["file.managed[s2]"],
    }


def test_the_version_of_a_sequence_covers_all_its_states(compile_tree):
    """The version includes the states in between, but not those around the sequence, nor its position."""

    def version(text):
        return next(call.superseded.version for call in compile_tree(text, lenient=("*",)).calls if call.superseded)

    before = version(SEQUENCE)
    assert version("other:\n  test.nop: []\n" + SEQUENCE + "more:\n  test.nop: []\n") == before
    for old, new in (("exit 101", "exit 1"), ("test.nop: []", "test.nop: [{color: red}]"), ("last:", "final:")):
        assert version(SEQUENCE.replace(old, new)) != before

"""The compiler checks calls against their kinds: names, values, meta arguments, and two states for one thing."""

from __future__ import annotations

import os

import pytest

from holdfast.resources.meta import Retry

GOOD = "/srv/a:\n  crate.packed:\n    - user: root\n"


@pytest.mark.parametrize(
    ("lines", "code", "line", "words"),
    [
        ("- uesr: x", "unknown-argument", 4, "did you mean 'user'?"),
        ("- requir: [x]", "unknown-argument", 4, "did you mean 'require'?"),
        ("- retri: 5", "unknown-argument", 4, "did you mean 'retry'?"),
        ("- frobnicate: 5", "unknown-argument", 4, "it takes: depth"),
        ("- mode: 0999", "argument-value", 4, "file mode"),
        ("- mode: 493", "argument-value", 4, "file mode"),
        ("- depth: deep", "argument-type", 4, "whole number"),
        ("- depth: -1", "argument-type", 4, "greater than or equal to 0"),
        ("- labels: {a: x, b: 5}", "argument-type", 4, "labels.b"),
        ("- labels:\n        a: x\n        b: []", "argument-type", 6, "labels.b"),
        ("- name: srv", "argument-value", 4, "absolute path"),
        ("- retry: often", "argument-type", 4, "retry"),
        ("- retry: {attempts: 2, wait: 5}", "argument-type", 4, "retry.wait"),
        ("- timeout: soon", "argument-type", 4, "timeout"),
    ],
)
def test_a_wrong_argument_is_reported_at_its_line(problems, lines, code, line, words):
    """The problem has the most similar name, or the valid values."""
    (problem,) = problems(GOOD + f"    {lines}\n")

    assert (problem.code, problem.location.line) == (code, line)
    assert words in f"{problem.message} {problem.hint}"


def test_all_wrong_arguments_of_all_states_are_reported_together(problems):
    """One run is enough to find them."""
    found = problems(
        "/srv/a:\n  crate.packed:\n    - uesr: x\n    - mode: 8\n/srv/b:\n  crate.packed:\n    - user: ROOT\n"
    )

    assert [(problem.location.line, problem.code) for problem in found] == [
        (2, "argument-missing"),
        (3, "unknown-argument"),
        (4, "argument-value"),
        (7, "argument-type"),
    ]
    assert "'user'" in found[0].message


def test_a_wrong_argument_of_an_extension_is_reported_in_the_extension(problems):
    """The location is not that of the extended state."""
    files = {"one.sls": GOOD, "two.sls": "include: [one]\nextend:\n  /srv/a:\n    crate:\n      - mode: rw\n"}
    (problem,) = problems(files)

    assert problem.location.file.endswith("two.sls")
    assert problem.location.line == 5


def test_a_wrong_argument_of_one_name_is_reported_at_its_line(problems):
    """`names` may give each name its own arguments."""
    (problem,) = problems(
        "x:\n  crate.packed:\n    - user: root\n    - names:\n      - /a:\n        - mode: rw\n      - /b\n"
    )

    assert problem.location.line == 6


def test_a_secret_never_appears_in_a_problem(problems):
    """Neither the value nor its line is shown."""
    (problem,) = problems(GOOD + "    - password: short\n")

    assert problem.location.line == 4
    assert "short" not in str(problem).replace("should have at least", "")


def test_messages_about_types_use_the_words_of_state_files(problems):
    """Users do not see the words of the library that checks the types."""
    wrong = "    - parallel: maybe\n    - depth: deep\n    - labels: none\n"
    said = [problem.message.partition("is wrong: ")[2] for problem in problems(GOOD + wrong)]

    assert said == [
        "it must be true or false",
        "it must be a whole number",
        "it must be a mapping",
    ]


def test_an_unknown_name_within_an_argument_is_reported(problems):
    """The argument is a mapping with its own names."""
    (problem,) = problems(GOOD + "    - retry: {attemps: 3}\n")

    assert problem.message.endswith("the argument 'retry.attemps' is wrong: 'attemps' is not a known key")


@pytest.mark.parametrize(
    ("kind", "code", "hint"),
    [
        ("lamp.lti", "unknown-function", "did you mean lamp.lit?"),
        ("lamp.xyzzy", "unknown-function", "available: lamp.dark, lamp.lit"),
        ("lmap.lit", "unknown-state", "did you mean lamp?"),
        ("no-such.thing", "unknown-state", ""),
        ("../x.y", "unknown-state", ""),
    ],
)
def test_an_unknown_state_or_function_has_the_most_similar_name(problems, kind, code, hint):
    """Each state that uses it is reported."""
    found = problems(f"a: {kind}\nb:\n  {kind}: []\n")

    assert [(problem.code, problem.location.line) for problem in found] == [(code, 1), (code, 3)]
    assert hint in found[0].hint


def test_meta_arguments_go_to_meta_unless_the_kind_has_them(compile_tree):
    """`timeout` belongs to a kind that declares it, otherwise to the engine."""
    crate, lamp = compile_tree(
        GOOD + "    - timeout: 5\n    - retry: true\n    - onlyif: test -f /x\nl:\n  lamp.lit:\n    - timeout: 7\n"
    ).calls

    assert (crate.resource.timeout, crate.meta.timeout) == (5, None)
    assert crate.meta.retry == Retry()
    assert crate.meta.onlyif == ("test -f /x",)
    assert lamp.meta.timeout == 7


def test_an_ignored_argument_of_salt_is_a_warning_with_its_reason(compile_tree):
    """The kind declares the reason."""
    (warning,) = compile_tree(GOOD + "    - allow_symlink: true\n").warnings

    assert (warning.code, warning.location.line) == ("argument-ignored", 4)
    assert "symbolic links are always kept" in warning.message


@pytest.mark.parametrize("template", ["", "    - template: jinja\n"], ids=["plain", "template"])
@pytest.mark.parametrize(
    "argument",
    ["signature", "source_hash_sig", "signed_by_any", "signed_by_all", "keyring", "gnupghome", "sig_backend"],
)
def test_a_check_of_signatures_is_refused(problems, argument, template):
    """Without the check, content would be unsafe. A template does not get these arguments as variables, either."""
    (problem,) = problems(f"/f:\n  file.managed:\n    - contents: x\n    - {argument}: x\n{template}")

    assert (problem.code, problem.location.line) == ("unknown-argument", 4)
    assert problem.message == f"file.managed refuses {argument!r}: Holdfast does not check signatures; use source_hash"


def test_a_call_has_a_typed_resource(compile_tree):
    """The engine gets the declared model; low data keep the values as written."""
    (call,) = compile_tree(GOOD + "    - mode: 0644\n").calls

    assert (call.kind, call.identity, call.resource.name, call.resource.mode) == (
        "crate.packed",
        "crate.packed[/srv/a]",
        "/srv/a",
        "0644",
    )
    assert call.low["mode"] == 644
    assert (call.location.line, call.reason) == (2, "order 10000")


def test_two_different_states_of_one_thing_are_an_error_with_both_locations(problems, compile_tree):
    """Two equal declarations are valid."""
    two = GOOD + "b:\n  crate.packed:\n    - name: /srv/a/\n    - user: {}\n"
    (problem,) = problems(two.format("other"))

    assert (problem.code, problem.location.line) == ("contradiction", 5)
    assert "site.sls:2" in problem.message
    assert "user differs" in problem.message
    assert len(compile_tree(two.format("root")).calls) == 2


def test_a_state_with_a_guard_may_contradict_another(compile_tree):
    """The states are alternatives, so a warning reports them."""
    two = GOOD + "b:\n  crate.packed:\n    - name: /srv/a\n    - user: other\n    - onfail: [{crate: /srv/a}]\n"

    assert [
        warning.code
        for warning in compile_tree(
            two.replace("{crate: /srv/a}", "{id: /srv/a}").replace("onfail: [{id: /srv/a}]", "unless: x")
        ).warnings
    ] == ["contradiction-possible"]


def test_a_contradiction_is_found_after_a_state_that_agrees_with_both(problems):
    """The first state leaves the difference open, or has a guard."""
    running = (
        "a:\n  service.running: [{name: n}]\nb:\n  service.enabled: [{name: n}]\nc:\n  service.disabled: [{name: n}]\n"
    )
    assert [(found.code, found.location.line) for found in problems(running)] == [("contradiction", 6)]

    crate = "{}:\n  crate.packed: [{{name: /srv/a}}, {{user: {}}}{}]\n".format
    crates = crate("a", "one", ", {unless: x}") + crate("b", "two", "") + crate("c", "one", "")
    assert [(found.code, found.location.line) for found in problems(crates)] == [("contradiction", 6)]


EDITED = "a:\n  file.managed: [{name: /f}, {contents: x}]\nb:\n  file.append: [{name: /f}, {text: y}%s]\n"


def test_an_edit_of_declared_content_is_a_contradiction(problems, compile_tree):
    """The error has both locations. With a guard, it is a warning; two edits of one file are valid."""
    (problem,) = problems(EDITED % "")
    assert (problem.code, problem.location.line) == ("contradiction", 4)
    assert "site.sls:2" in problem.message
    assert "put it there, or set replace: false" in problem.message

    assert [found.code for found in compile_tree(EDITED % ", {unless: x}").warnings] == ["contradiction-possible"]
    assert not compile_tree(
        "a:\n  file.append: [{name: /f}, {text: x}]\nb:\n  file.append: [{name: /f}, {text: y}]\n"
    ).warnings


@pytest.mark.parametrize(
    ("other", "wrong"),
    [
        ("file.managed: [{name: /d/e/f}]", True),
        ("file.directory: [{name: /d/e}]", True),
        ("file.symlink: [{name: /d/e}, {target: /x}]", True),
        ("file.append: [{name: /d/e}, {text: x}]", True),
        ("file.line: [{name: /d/e}, {mode: delete}, {match: x}, {quiet: true}]", False),
        ("file.absent: [{name: /d/e}]", False),
        ("file.pruned: [{name: /d/e}]", False),
        ("file.managed: [{name: /dd/e}]", False),
        ("file.directory: [{name: /}]", False),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_no_state_may_be_below_an_absent_path(problems, compile_tree, other, wrong, first):
    """The order of the states does not matter."""
    states = ["  file.absent: [{name: /d}]\n", f"  {other}\n", "  file.directory: [{name: /x}]\n"]
    source = "".join(f"s{n}:\n{text}" for n, text in enumerate(states if first else reversed(states)))

    if wrong:
        assert [problem.code for problem in problems(source)] == ["contradiction"]
    else:
        assert len(compile_tree(source).calls) == 3


def test_the_line_of_a_mistyped_or_ignored_secret_is_not_shown(problems, compile_tree):
    """Only its location is shown."""
    (problem,) = problems(GOOD + "    - pasword: hunter2\n")
    (warning,) = compile_tree("a:\n  lamp.lit:\n    - runas_password: hunter2\n").warnings

    assert (problem.location.line, warning.location.line) == (4, 3)
    assert "hunter2" not in f"{problem}{warning}"


def test_an_exception_in_a_kind_is_a_problem_at_the_state(problems):
    """The code of a kind may raise anything. The compiler reports it and continues."""
    (problem,) = problems("a:\n  crate.packed:\n    - name: /srv/a\n    - user: root\n    - weight: [1]\n")

    assert (problem.code, problem.location.line) == ("kind-broken", 2)
    assert problem.message == "crate.packed[a]: the kind cannot check its arguments: TypeError", (
        "the text of the exception may contain a secret argument"
    )


def test_a_meta_argument_without_effect_is_a_warning(tmp_path):
    """The warning is at the line of the argument."""
    from holdfast.states.compile.compiler import Compiler
    from holdfast.states.data import CompilerInputs

    tmp_path.chmod(0o755)
    (tmp_path / "a.sls").write_text("a:\n  test.nop:\n    - fire_event: true\n")
    (warning,) = Compiler().compile(CompilerInputs(tmp_path, trusted_uids=frozenset({os.getuid()}))).warnings

    assert (warning.code, warning.location.line) == ("argument-ignored", 3)

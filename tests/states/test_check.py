"""Calls against their declared kinds: unknown names, wrong values, meta arguments, and two states for one thing."""

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
def test_wrong_argument_is_reported_at_its_line(problems, lines, code, line, words):
    """With the nearest right name, or with what would be right."""
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


def test_argument_of_an_extension_is_reported_where_it_stands(problems):
    """Not where the extended state is."""
    files = {"one.sls": GOOD, "two.sls": "include: [one]\nextend:\n  /srv/a:\n    crate:\n      - mode: rw\n"}
    (problem,) = problems(files)

    assert problem.location.file.endswith("two.sls")
    assert problem.location.line == 5


def test_argument_of_one_name_is_reported_where_it_stands(problems):
    """`names` may give each name arguments of its own."""
    (problem,) = problems(
        "x:\n  crate.packed:\n    - user: root\n    - names:\n      - /a:\n        - mode: rw\n      - /b\n"
    )

    assert problem.location.line == 6


def test_secret_never_appears_in_a_problem(problems):
    """Neither its value nor its line."""
    (problem,) = problems(GOOD + "    - password: short\n")

    assert problem.location.line == 4
    assert "short" not in str(problem).replace("should have at least", "")


def test_pydantic_speaks_our_language(problems):
    """What a value must be is said in the words of those who write states."""
    wrong = "    - parallel: maybe\n    - depth: deep\n    - labels: none\n"
    said = [problem.message.partition("is wrong: ")[2] for problem in problems(GOOD + wrong)]

    assert said == [
        "it must be true or false",
        "it must be a whole number",
        "it must be a mapping",
    ]


def test_a_name_that_an_argument_does_not_have_is_told(problems):
    """Of an argument that is a mapping with names of its own; in words for users."""
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
def test_unknown_state_or_function_comes_with_the_nearest_one(problems, kind, code, hint):
    """For every state that uses it."""
    found = problems(f"a: {kind}\nb:\n  {kind}: []\n")

    assert [(problem.code, problem.location.line) for problem in found] == [(code, 1), (code, 3)]
    assert hint in found[0].hint


def test_meta_arguments_go_to_meta_unless_the_kind_has_them(compile_tree):
    """`timeout` belongs to the kind that declares it, and to the engine elsewhere."""
    crate, lamp = compile_tree(
        GOOD + "    - timeout: 5\n    - retry: true\n    - onlyif: test -f /x\nl:\n  lamp.lit:\n    - timeout: 7\n"
    ).calls

    assert (crate.resource.timeout, crate.meta.timeout) == (5, None)
    assert crate.meta.retry == Retry()
    assert crate.meta.onlyif == ("test -f /x",)
    assert lamp.meta.timeout == 7


def test_ignored_argument_is_accepted_with_a_warning(compile_tree):
    """What Salt has and the kind has not says why."""
    (warning,) = compile_tree(GOOD + "    - allow_symlink: true\n").warnings

    assert (warning.code, warning.location.line) == ("argument-ignored", 4)
    assert "symbolic links are always kept" in warning.message


@pytest.mark.parametrize("template", ["", "    - template: jinja\n"], ids=["plain", "template"])
@pytest.mark.parametrize(
    "argument",
    ["signature", "source_hash_sig", "signed_by_any", "signed_by_all", "keyring", "gnupghome", "sig_backend"],
)
def test_a_check_of_signatures_is_refused_in_plain_words(problems, argument, template):
    """It would be missed if it had no effect; nor does a template get it as a variable."""
    (problem,) = problems(f"/f:\n  file.managed:\n    - contents: x\n    - {argument}: x\n{template}")

    assert (problem.code, problem.location.line) == ("unknown-argument", 4)
    assert problem.message == f"file.managed refuses {argument!r}: Holdfast does not check signatures; use source_hash"


def test_resources_are_typed(compile_tree):
    """What the engine gets is the declared model, from the values as written."""
    (call,) = compile_tree(GOOD + "    - mode: 0644\n").calls

    assert (call.kind, call.identity, call.resource.name, call.resource.mode) == (
        "crate.packed",
        "crate.packed[/srv/a]",
        "/srv/a",
        "0644",
    )
    assert call.low["mode"] == 644
    assert (call.location.line, call.reason) == (2, "order 10000")


def test_two_states_for_one_thing_are_one_error_with_both_places(problems, compile_tree):
    """Two equal declarations are valid."""
    two = GOOD + "b:\n  crate.packed:\n    - name: /srv/a/\n    - user: {}\n"
    (problem,) = problems(two.format("other"))

    assert (problem.code, problem.location.line) == ("contradiction", 5)
    assert "site.sls:2" in problem.message
    assert "user differs" in problem.message
    assert len(compile_tree(two.format("root")).calls) == 2


def test_state_that_applies_only_sometimes_may_contradict_another(compile_tree):
    """An onfail handler, or a state with a guard, is an alternative; lint still names it."""
    two = GOOD + "b:\n  crate.packed:\n    - name: /srv/a\n    - user: other\n    - onfail: [{crate: /srv/a}]\n"

    assert [
        warning.code
        for warning in compile_tree(
            two.replace("{crate: /srv/a}", "{id: /srv/a}").replace("onfail: [{id: /srv/a}]", "unless: x")
        ).warnings
    ] == ["contradiction-possible"]


def test_contradiction_is_found_behind_a_state_that_goes_with_both(problems):
    """The first declares nothing that the others differ in, or applies only sometimes."""
    running = (
        "a:\n  service.running: [{name: n}]\nb:\n  service.enabled: [{name: n}]\nc:\n  service.disabled: [{name: n}]\n"
    )
    assert [(found.code, found.location.line) for found in problems(running)] == [("contradiction", 6)]

    crate = "{}:\n  crate.packed: [{{name: /srv/a}}, {{user: {}}}{}]\n".format
    crates = crate("a", "one", ", {unless: x}") + crate("b", "two", "") + crate("c", "one", "")
    assert [(found.code, found.location.line) for found in problems(crates)] == [("contradiction", 6)]


EDITED = "a:\n  file.managed: [{name: /f}, {contents: x}]\nb:\n  file.append: [{name: /f}, {text: y}%s]\n"


def test_an_edit_of_declared_content_is_a_contradiction(problems, compile_tree):
    """An error with both places; under a condition it is a warning, and two edits of one file are neither."""
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
def test_nothing_can_be_below_what_is_absent(problems, compile_tree, other, wrong, first):
    """In either order; two states below the path do not affect each other."""
    states = ["  file.absent: [{name: /d}]\n", f"  {other}\n", "  file.directory: [{name: /x}]\n"]
    source = "".join(f"s{n}:\n{text}" for n, text in enumerate(states if first else reversed(states)))

    if wrong:
        assert [problem.code for problem in problems(source)] == ["contradiction"]
    else:
        assert len(compile_tree(source).calls) == 3


def test_line_of_a_mistyped_or_ignored_secret_is_not_shown(problems, compile_tree):
    """Its place is."""
    (problem,) = problems(GOOD + "    - pasword: hunter2\n")
    (warning,) = compile_tree("a:\n  lamp.lit:\n    - runas_password: hunter2\n").warnings

    assert (problem.location.line, warning.location.line) == (4, 3)
    assert "hunter2" not in f"{problem}{warning}"


def test_kind_whose_validator_falls_over_is_a_problem(problems):
    """The code of a kind may raise anything: this is reported at the line of the state, and the compiler continues."""
    (problem,) = problems("a:\n  crate.packed:\n    - name: /srv/a\n    - user: root\n    - weight: [1]\n")

    assert (problem.code, problem.location.line) == ("kind-broken", 2)
    assert problem.message == "crate.packed[a]: the kind cannot check its arguments: TypeError", (
        "what it said may hold a secret argument"
    )


def test_a_meta_parameter_without_effect_is_warned_of(tmp_path):
    """It is accepted, and said to do nothing, at its line."""
    from holdfast.states.compile.compiler import Compiler
    from holdfast.states.data import Request

    tmp_path.chmod(0o755)
    (tmp_path / "a.sls").write_text("a:\n  test.nop:\n    - fire_event: true\n")
    (warning,) = Compiler().compile(Request(tmp_path, trusted_uids=frozenset({os.getuid()}))).warnings

    assert (warning.code, warning.location.line) == ("argument-ignored", 3)

"""All mistakes in declarations are reported at once, each with its code, its line and a hint."""

from __future__ import annotations

import pytest
from pydantic import model_validator

from holdfast.resources.contract import Resource


class Pair(Resource, kind="pair.kept"):
    """A kind that takes two arguments or none."""

    left: int | None = None
    right: int | None = None

    @model_validator(mode="after")
    def _both(self):
        if (self.left is None) != (self.right is None):
            raise ValueError("one of the two is missing")
        return self

    async def check_apply(self, ctx, apply):
        """Return that nothing is to be done."""
        return True


INCLUDED = {"one.sls": "a:\n  lamp.lit:\n    - color: red\n", "two.sls": ""}


@pytest.mark.parametrize(
    ("text", "code", "line", "words"),
    [
        ("- a", "sls-shape", 1, "mapping of IDs"),
        ("just text", "sls-shape", 1, "just text"),
        ("0.0", "sls-shape", 1, "the number 0.0"),
        ("# the first\n\n---\n- a", "sls-shape", 4, "mapping of IDs"),
        ("\n[\n  a\n]", "sls-shape", 2, "a list of 1 item"),
        ("{% set x = 'a' %}\n- {{ x }}", "sls-shape", 2, "a list of 1 item"),
        ("{{ 'text' }}", "sls-shape", 1, "the text"),
        ("5: lamp.lit", "id-type", 1, "the number 5"),
        ("yes: lamp.lit", "id-type", 1, "the boolean true"),
        ("a: lamp", "id-shape", 1, "'lamp'"),
        ("a: 5", "id-shape", 1, "the number 5"),
        ("a: [x]", "id-shape", 1, "a list of 1 item"),
        ("a:\n", "id-shape", 1, "nothing"),
        ("a:\n  lamp.lit:", "arguments-shape", 2, "remove the colon"),
        ("a:\n  lamp.lit:\n    color: red", "arguments-shape", 2, "- name: value"),
        ("a:\n  lamp.lit: text", "arguments-shape", 2, ""),
        ("a:\n  5: []\n  lamp.lit: []", "state-type", 2, "the number 5"),
        ("a:\n  lamp.lit: []\n  lamp.dark: []", "state-repeated", 3, "first in line 2"),
        ("a:\n  lamp: [lit]\n  lamp.dark: []", "state-repeated", 3, "first in line 2"),
        ("a:\n  lamp.lit:\n    - 5", "argument-shape", 3, "the number 5"),
        ("a:\n  lamp.lit:\n    - [x]", "argument-shape", 3, "a list"),
        ("a:\n  lamp.lit:\n    - ~", "argument-shape", 3, "nothing"),
        ("a:\n  lamp.lit:\n    - 5: x", "argument-shape", 3, "quote it"),
        ("a:\n  lamp.lit:\n    - color: __slot__:salt:test.echo(x)", "argument-slot", 3, "template"),
        ("a:\n  lamp.lit:\n    - color: x\n    - color: y", "argument-repeated", 4, "first in line 3"),
        ("a:\n  lamp.lit:\n    - require: [b]\n    - require: [b]\nb: bell.rung", "argument-repeated", 4, "merge"),
        ("a:\n  lamp: []", "function-missing", 2, "lamp.function"),
        ("a:\n  lamp:\n    - color: x", "function-missing", 2, ""),
        ("a:\n  lamp:\n    - lit\n    - dark", "function-several", 3, "'lit' and 'dark'"),
        ("a:\n  lamp.lit:\n    - dark", "function-several", 3, ""),
        ("a:\n  lamp:\n    - lit color", "function-shape", 3, "colon"),
        ("a:\n  lamp.lit:\n    - names: x", "names-shape", 3, "list"),
        ("a:\n  lamp.lit:\n    - names:\n      - 5", "names-shape", 4, "the number 5"),
        ("a:\n  lamp.lit:\n    - names:\n      - x: [dark]\n      - y", "argument-shape", 4, "colon"),
        (
            "a:\n  lamp.lit:\n    - names:\n      - x:\n        - require_in: [b]\n      - y",
            "names-shape",
            5,
            "whole state",
        ),
        ("a:\n  crate.packed:\n    - user: u\n    - names:\n      - /x\n      - y", "argument-value", 6, "absolute"),
        ("a:\n  lamp.lit:\n    - names:\n      - x:\n        - size: 1\n      - x", "names-repeated", 6, "'x'"),
        ("a:\n  lamp.lit:\n    - require: b", "requisite-shape", 3, "list"),
        ("a:\n  lamp.lit:\n    - require:\n        lamp: b", "requisite-shape", 3, "list"),
        (
            "a:\n  lamp.lit:\n    - require:\n      - lamp: b\n        bell: c",
            "requisite-shape",
            4,
            "one state to an item",
        ),
        ("a:\n  lamp.lit:\n    - require:\n      - lamp.lit: b", "requisite-shape", 4, "'- lamp: b'"),
        ("a:\n  lamp.lit:\n    - require:\n      - lamp: 5", "requisite-shape", 4, "quote"),
        ("a:\n  lamp.lit:\n    - require_in: b", "requisite-shape", 3, "list"),
        ("a:\n  lamp.lit:\n    - require:", "requisite-shape", 3, "nothing"),
        ("include: x", "include-shape", 1, "list"),
        ("include:\n  - 5", "include-shape", 2, "the number 5"),
        ("include:\n  - dev: one", "include-environment", 2, "'dev'"),
        ("include:\n  - oen", "sls-missing", 2, "did you mean one?"),
        ("include:\n  - ..one", "include-outside", 2, "leads out"),
        ("exclude: x", "exclude-shape", 1, "list"),
        ("exclude:\n  - name: x", "exclude-shape", 2, "'name'"),
        ("extend: x", "extend-shape", 1, "mapping"),
        ("extend:\n  a: x", "extend-shape", 2, "mapping"),
        ("extend:\n  a:\n    lamp:\n      - size: 1", "extend-missing", 2, "include"),
        ("include: [one]\nextend:\n  aa:\n    lamp:\n      - size: 1", "extend-missing", 3, ""),
        ("include: [one]\nextend:\n  red:\n    lamp:\n      - size: 1", "extend-missing", 3, ""),
        ("include: [one]\nextend:\n  a:\n    bell:\n      - size: 1", "extend-missing", 3, "of the type lamp"),
        ("a: lamp.lit\nb:\n  lamp.lit:\n    - require: [{lamp: aa}]", "requisite-missing", 4, ""),
        (
            "apache: lamp.lit\nb:\n  lamp.lit:\n    - require:\n      - lamp: apach",
            "requisite-missing",
            5,
            "did you mean 'apache'?",
        ),
        ("lamp1:\n  lamp.lit:\n    - require:\n      - lamp: lamp2", "requisite-missing", 4, "not included"),
        ("a:\n  lamp.lit:\n    - retry: often", "argument-type", 3, "it must be a mapping"),
        ("a: lamp.lit\nb:\n  lamp.lit:\n    - require:\n      - bell: a", "requisite-missing", 5, "of the type lamp"),
        ("b:\n  lamp.lit:\n    - require:\n      - sls: site2", "requisite-missing", 4, "did you mean 'site'?"),
        ("b:\n  lamp.lit:\n    - require_in:\n      - c", "requisite-missing", 4, ""),
        ("b:\n  lamp.lit:\n    - require_in:\n      - sls: nope", "requisite-missing", 4, "not part of this run"),
        ("b:\n  lamp.lit:\n    - use:\n      - lamp: nope", "requisite-missing", 4, ""),
        ("b:\n  lamp.lit:\n    - listen:\n      - lamp: nope", "requisite-missing", 4, ""),
        (
            "x:\n  lamp.lit:\n    - require_in: [{lamp: n}]\na:\n  lamp.lit: [{name: n}]\nb:\n  lamp.lit: [{name: n}]",
            "requisite-ambiguous",
            3,
            "by its ID",
        ),
        ("a:\n  lamp.lit:\n    - require: [a]", "requisite-loop", 3, "itself"),
        ("a:\n  lamp.lit:\n    - require: [{sls: site}]", "requisite-loop", 3, ""),
        ("a:b:\n  lamp.lit: []\na:\n  lamp.lit:\n    - names: [b, c]", "identity-repeated", 4, "two states"),
    ],
)
def test_a_mistake_has_its_code_its_line_and_a_hint(problems, text, code, line, words):
    """Each mistake is one problem, whose message and hint lead to the fix."""
    (problem,) = problems({**INCLUDED, "site.sls": text}, "site")

    assert (problem.code, problem.location.line) == (code, line)
    assert words in f"{problem.message} {problem.hint}"
    assert problem.location.file.endswith("site.sls")
    assert problem.text == (text.split("\n")[line - 1] if line else "")


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [("- a", 1, 1), ("---\n# x\n  text", 3, 3), ("--- text", 1, 5), ("%YAML 1.1\n---\n- a", 3, 1)],
)
def test_a_file_without_a_mapping_is_marked_where_its_content_starts(problems, text, line, column):
    """The problem has a line and a column, not only the file."""
    (problem,) = problems(text)

    assert (problem.code, problem.location.line, problem.location.column) == ("sls-shape", line, column)


def test_mistakes_of_all_stages_are_reported_together(problems):
    """A file that cannot be read hides neither wrong names nor wrong arguments elsewhere."""
    shapes = {"a.sls": "x: 5\ny: 6", "b.sls": "include: [nope]\nz: 7"}
    assert [problem.code for problem in problems(shapes)] == ["id-shape", "id-shape", "sls-missing", "id-shape"]

    calls = {"a.sls": "x:\n  lamp.lit:\n    - require: [nope]\n", "b.sls": "y: lamp.lti"}
    assert [problem.code for problem in problems(calls)] == ["requisite-missing", "unknown-function"]

    everything = {
        **calls,
        "c.sls": "z:\n  crate.packed:\n    - name: /z\n    - user: u\n    - dpeth: 1\n",
        "w.sls": "k: [",
    }
    assert [problem.code for problem in problems(everything)] == ["unknown-function", "unknown-argument", "yaml-syntax"]


def test_mistakes_of_one_file_are_reported_together(problems):
    """Wrong shapes are reported beside wrong arguments."""
    text = (
        "a:\n  crate.packed:\n    - name: /a\n    - requires: [b]\n    - user: u\n"
        "b:\n  crate.packed:\n    - name: /b\n    - on_changes: [a]\n"
        "    - require: nope\n    - user: u\n    - depth: deep\n"
        "c:\n  crate.packed:\n    - name: /c\n    - user: u\n    - require: [{lamp: gone}]\nd: lmap.lit\n"
    )

    assert [(problem.location.line, problem.code) for problem in problems(text)] == [
        (4, "unknown-argument"),
        (9, "unknown-argument"),
        (10, "requisite-shape"),
        (12, "argument-type"),
        (18, "unknown-state"),
    ]


def test_requisites_of_both_directions_are_reported_together(problems):
    """An extension of a missing state is reported, but not its consequences."""
    assert [
        problem.code
        for problem in problems(
            "a:\n  lamp.lit:\n    - require_in: [b]\nc:\n  lamp.lit:\n    - require: [d]\ne: lmap.lit\n"
        )
    ] == ["requisite-missing", "requisite-missing", "unknown-state"]
    assert [
        problem.code for problem in problems("extend:\n  ax:\n    crate: [user: u]\n/a: crate.packed\nb: lmap.lit\n")
    ] == [
        "extend-missing",
        "unknown-state",
    ]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a:\n  lamp.lit:\n    - require: [{lamp: k}]\n", id="requisite"),
        pytest.param("a:\n  lamp.lit:\n    - require_in: [{lamp: k}]\n", id="requisite from the other end"),
        pytest.param("a:\n  lamp.lit:\n    - use: [{lamp: k}]\n", id="use"),
        pytest.param("extend:\n  k:\n    lamp: [color: red]\n", id="extend"),
        pytest.param("/a: crate.packed\n", id="argument that an extension may bring"),
        pytest.param("a:\n  lamp: [color: red]\n", id="function that an extension may bring"),
        pytest.param(
            "a:\n  crate.packed: [name: /x, user: u]\nb:\n  crate.packed: [name: /x, user: v]\n",
            id="condition that an _in may bring",
        ),
        pytest.param("a:\n  pair.kept: [left: 1]\n", id="argument that another one needs"),
    ],
)
def test_mistakes_that_an_unreadable_file_may_explain_are_not_reported(problems, text):
    """Fixing that file may fix them. Without it, each is a mistake of its own."""
    assert [problem.code for problem in problems({"w.sls": "k: [", "x.sls": text})] == ["yaml-syntax"]

    assert "yaml-syntax" not in [problem.code for problem in problems({"w.sls": "", "x.sls": text})]


def test_a_state_with_a_mistake_is_not_reported_as_missing(problems):
    """The state exists, but is wrong."""
    for text, code in [
        ("a: 5\nb:\n  lamp.lit:\n    - require: [a]\n", "id-shape"),
        ("a:\n  lamp: [lit, dark]\nb:\n  lamp.lit:\n    - require: [a]\n", "function-several"),
        ("a:\n  lamp.lit:\n    - names: [5]\nb:\n  lamp.lit:\n    - require: [{lamp: five}]\n", "names-shape"),
    ]:
        assert [problem.code for problem in problems(text)] == [code]


@pytest.mark.parametrize(
    "items",
    ["- require:\n    - pair: a", "- names:\n    - x\n    - y", "- require_in:\n    - a"],
)
def test_a_list_that_is_not_indented_is_one_mistake(problems, items):
    """Lines that look like arguments or functions, and names that others use, are only consequences."""
    text = f"a: lamp.lit\nb:\n  pair.kept:\n    {items}\nc:\n  lamp.lit:\n    - require: [b]\n"
    assert [problem.location.line for problem in problems(text)] == [4]

    text = f"b:\n  pair.kept: []\nextend:\n  b:\n    pair:\n    {items}\nc:\n  lamp.lit:\n    - require: [b]\n"
    assert [problem.location.line for problem in problems(text)] == [6]


def test_a_cycle_is_reported_beside_an_unreadable_file(problems):
    """An unreadable file does not end the compilation."""
    text = "a:\n  lamp.lit:\n    - require: [b]\nb:\n  lamp.lit:\n    - require: [a]\n"

    assert [problem.code for problem in problems({"w.sls": "k: [", "x.sls": text})] == ["yaml-syntax", "requisite-loop"]


def test_a_cycle_is_reported_with_file_and_line_of_every_edge(problems):
    """The reader needs all edges to break the cycle."""
    files = {
        "a.sls": "a:\n  lamp.lit:\n    - require: [{lamp: b}]\n",
        "b.sls": "b:\n  lamp.lit:\n    - watch: [{bell: c}]\n",
        "c.sls": "c:\n  bell.rung:\n    - onchanges: [{lamp: a}]\nd: lamp.lit\n",
    }
    (problem,) = problems(files)

    assert problem.code == "requisite-loop"
    for edge in (
        "lamp.lit[a] requires lamp.lit[b]",
        "lamp.lit[b] watches bell.rung[c]",
        "bell.rung[c] has onchanges lamp.lit[a]",
    ):
        assert edge in problem.message
    for file in ("a.sls:3", "b.sls:3", "c.sls:3"):
        assert file in problem.message


@pytest.mark.parametrize(
    "text",
    [
        "a:\n  lamp.lit:\n    - prereq: [b]\n    - require: [b]\nb: lamp.lit\n",
        "a:\n  lamp.lit:\n    - prereq: [b]\nb:\n  lamp.lit:\n    - prereq: [a]\n",
        "a:\n  lamp.lit:\n    - prereq: [a]\n",
        (
            "a:\n  lamp.lit:\n    - prereq: [b]\nb:\n  lamp.lit:\n    - require: [c]\nc:\n"
            "  lamp.lit:\n    - require: [a]\n"
        ),
    ],
)
def test_cycles_with_prereq_are_found(problems, text):
    """A prereq runs before its target, but after all that its target requires."""
    assert {problem.code for problem in problems(text)} == {"requisite-loop"}


def test_an_id_in_two_files_is_an_error_with_both_locations(problems):
    """The declarations may be equal."""
    (problem,) = problems({"a.sls": "x: lamp.lit\n", "b.sls": "# b\nx: lamp.lit\n"})

    assert (problem.code, problem.location.file[-5:], problem.location.line) == ("duplicate-id", "b.sls", 2)
    assert "a.sls:1" in problem.message


def test_mistakes_in_a_top_file_have_their_lines(problems):
    """The shape, the targets and the names are checked."""
    for text, code, line in [
        ("- x", "top-shape", 1),
        ("# top\nx", "top-shape", 2),
        ("base: x", "top-shape", 1),
        ("base:\n  '*': x", "top-shape", 2),
        ("'*': [x]", "top-shape", 1),
        ("base:\n  '*': [x]\n'web*':\n  - x", "top-shape", 3),
        ("base:\n  5: [x]", "top-shape", 2),
        ("base:\n  '*':\n    - 5", "top-shape", 3),
        ("base:\n  '*':\n    - dev: x", "top-shape", 3),
        ("base:\n  'a and':\n    - one", "top-shape", 2),
        ("base:\n  '(web1':\n    - match: pcre\n    - one", "top-shape", 2),
        ("base:\n  'x':\n    - match: nope\n    - one", "top-shape", 2),
        ("base:\n  '*':\n    - nope", "sls-missing", 3),
    ]:
        (problem,) = problems({"top.sls": text, "one.sls": "a: lamp.lit"})
        assert (problem.code, problem.location.line) == (code, line), text


def test_a_missing_requested_sls_is_an_error(problems):
    """The hint is the most similar name."""
    (problem,) = problems({"webserver.sls": "a: lamp.lit"}, "webservr")

    assert (problem.code, problem.hint) == ("sls-missing", "did you mean webserver?")


def test_suspicious_declarations_are_warnings(compile_tree):
    """These states compile."""
    files = {
        "site.sls": "a:\n  lamp.lit:\n    - order: soon\n    - fun: x\n    - require:\n"
        "      - lamp: ~\n      - sls: empty\n      - sls: 'x*'\n"
        "    - size: 1000\n    - __env__: [x]\nb:\n  lamp.lit.now: []\n",
        "empty.sls": "",
    }
    result = compile_tree(files)
    warnings = result.warnings

    assert sorted((warning.location.line, warning.code) for warning in warnings) == [
        (3, "order-word"),
        (4, "argument-reserved"),
        (6, "requisite-empty"),
        (7, "requisite-empty"),
        (8, "requisite-empty"),
        (10, "argument-reserved"),
        (12, "function-rest"),
    ]
    assert {call.low["name"] for call in result.calls} == {"a", "b"}
    assert {call.low["name"]: call.low["__env__"] for call in result.calls}["a"] == [
        "x"
    ]  # as in Salt: old formulas set the environment of a command like this


def test_an_sls_requisite_on_a_file_of_includes_means_its_first_includes(compile_tree):
    """Salt counts only the include that loaded a file first."""
    files = {
        "one.sls": "a: lamp.lit",
        "two.sls": "include: [one]",
        "z.sls": "z:\n  lamp.lit:\n    - order: 1\n    - require:\n      - sls: two\n",
    }

    assert [call.identity for call in compile_tree(files, "one", "two", "z").calls] == ["lamp.lit[a]", "lamp.lit[z]"]


def test_disabled_requisites_have_no_effect(compile_tree):
    """`disabled_requisites` is an option of Salt."""
    calls = compile_tree(
        "a:\n  lamp.lit:\n    - require: [{lamp: b}]\nb: lamp.lit\n", options={"disabled_requisites": ["require"]}
    ).calls

    assert [call.low["__id__"] for call in calls] == ["a", "b"]
    assert calls[0].requisites == {}


def test_a_requisite_that_names_nothing_is_reported_once_for_all_names(problems):
    """Each of the `names` has the requisite, but there is one mistake."""
    calls = "b:\n  lamp.lit:\n    - names: [x, y, z]\n    - require: [{lamp: aa}]\na: lamp.lit\n"
    (problem,) = problems(calls)
    assert problem.message == "require of lamp.lit[b] names lamp[aa], which does not exist"

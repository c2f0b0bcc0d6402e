"""In lenient files, mistakes that Salt accepts are warnings; in all other files, they are errors."""

from __future__ import annotations

import os

import pytest

from holdfast.states.compile.compiler import Compiler
from holdfast.states.data import CompilerInputs
from holdfast.states.errors import CompileError

ACCEPTED = {
    "unknown argument": ("a: {crate.packed: [{name: /a}, {user: u}, {color: red}]}", "unknown-argument", {"user": "u"}),
    "argument given twice": ("a: {lamp.lit: [{color: red}, {color: blue}]}", "argument-repeated", {"color": "blue"}),
    "stray item": ("a: {lamp.lit: [{color: red}, 5]}", "argument-shape", {"color": "red"}),
    "boolean guard": ("a: {lamp.lit: [{color: red}, {onlyif: true}]}", "argument-type", {"color": "red"}),
    "boolean in a list of guards": (
        "a: {lamp.lit: [{color: red}, {unless: ['false', true]}]}",
        "argument-type",
        {"color": "red"},
    ),
    "bare ID of a require_in": (
        "a: {lamp.lit: [{color: red}, {require_in: [nobody]}]}",
        "requisite-missing",
        {"color": "red"},
    ),
    "file of a watch_in": (
        "a: {lamp.lit: [{color: red}, {watch_in: [{sls: nobody}]}]}",
        "requisite-missing",
        {"color": "red"},
    ),
    "text of a require_in": (
        "a: {lamp.lit: [{color: red}, {require_in: nobody}]}",
        "requisite-shape",
        {"color": "red"},
    ),
    "require_in of one name": (
        "a: {lamp.lit: [{color: red}, {names: [{b: [{require_in: [a]}]}]}]}",
        "names-shape",
        {"color": "red"},
    ),
    "use of nothing": ("a: {lamp.lit: [{color: red}, {use: [{lamp: nobody}]}]}", "requisite-missing", {"color": "red"}),
}
"""Mistake -> a state with it, its code, and the arguments that apply in spite of it."""


@pytest.mark.parametrize("case", ACCEPTED)
def test_a_mistake_that_salt_accepts_is_a_warning(compile_tree, case):
    """The warning has its location and the effect; the rest of the state applies."""
    text, code, said = ACCEPTED[case]
    compiled = compile_tree(text, lenient=("site",))

    (warning,) = [problem for problem in compiled.warnings if problem.waived]
    assert (warning.code, warning.location.line) == (code, 1)
    assert {key: getattr(compiled.calls[0].resource, key) for key in said} == said


@pytest.mark.parametrize("case", ACCEPTED)
def test_the_error_in_strict_states_names_the_setting(problems, case):
    """A user need not fix the states of others."""
    text, code, _ = ACCEPTED[case]
    (problem,) = problems(text, lenient=("other*",))

    assert (problem.code, problem.waived) == (code, False)
    assert problem.hint.endswith("f these are not your states, name their SLS in `lenient`")


def test_a_suggestion_ends_with_its_question_mark(problems):
    """The advice about the states of others is a separate sentence."""
    (problem,) = problems("a:\n  lamp.lit:\n    - requir: [x]\n")

    assert problem.hint == "did you mean 'require'? If these are not your states, name their SLS in `lenient`"


def test_only_files_with_a_matching_sls_are_lenient(problems):
    """The patterns match the SLS name."""
    wrong = "{}: {{lamp.lit: [{{color: 1}}, {{color: 2}}]}}"
    files = {
        "site.sls": "include: [nginx.conf, mine]",
        "nginx/conf.sls": wrong.format("a"),
        "mine.sls": wrong.format("b"),
    }
    (problem,) = problems(files, "site", lenient=("nginx*",))

    assert problem.location.file.endswith("mine.sls")


@pytest.mark.parametrize(
    "text",
    [
        "a: {lamp.lit: [{require_in: [{lamp: nobody}]}]}",
        "a: {lamp.lit: [{recv: [{color: {lamp: nobody, key: color}}]}]}",
        "a: {lamp.lit: [{require: [b]}]}\nb: {lamp.lit: [{require: [a]}]}",
        "a: {lamp.lit: [{color: red}], lamp.dark: []}",
        "a: {lamp.lit: [{k: 1, k: 2}]}",
        "a: {crate.packed: [{name: relative}, {user: u}]}",
        "a: {lamp.none: []}",
    ],
)
def test_a_mistake_that_salt_refuses_is_an_error_in_lenient_states(problems, text):
    """Lenient states accept no other mistakes."""
    assert problems(text, lenient=("*",))


def test_a_slash_in_an_include_means_a_dot(compile_tree, problems):
    """Formulas for old versions of Salt have such includes."""
    files = {"site.sls": "include: [nginx/conf]", "nginx/conf.sls": "a: {lamp.lit: []}"}
    compiled = compile_tree(files, "site", lenient=("site",))

    assert [call.low["__sls__"] for call in compiled.calls] == ["nginx.conf"]
    assert [problem.code for problem in compiled.warnings] == ["include-shape"]
    (problem,) = problems(files, "site")
    assert problem.hint.startswith("write 'nginx.conf'")


def test_an_argument_that_a_kind_refuses_stays_refused(problems):
    """The argument would have an effect in Salt."""
    (problem,) = problems("/a: {file.managed: [{contents: x}, {signature: x}]}", lenient=("*",))

    assert problem.code == "unknown-argument"


def test_the_setting_may_change_between_two_compilations(tmp_path):
    """No result of the other setting is cached, and warnings are reported each time."""
    (tmp_path / "site.sls").write_text("a: {lamp.lit: [{color: red}, {color: blue}]}")
    compiler, strict = Compiler(), CompilerInputs(tmp_path, trusted_uids=frozenset({os.getuid()}))
    lenient = strict._replace(lenient=("*",))

    for _ in range(2):
        assert len(compiler.compile(lenient).warnings) == 1
        assert len(compiler.compile(lenient).warnings) == 1
        with pytest.raises(CompileError):
            compiler.compile(strict)


INCLUDES = {
    "site.sls": "include: [shop.package]\na: {lamp.lit: [{require: [{sls: shop.package}]}]}",
    "shop/package.sls": "include: [shop.service]\npackage: {lamp.lit: []}",
    "shop/service.sls": (
        "include: [shop.config]\nservice: {lamp.lit: [{watch: [{sls: shop.config}, {sls: shop.package}]}]}"
    ),
    "shop/config.sls": "include: [shop.package]\nconfig: {lamp.lit: [{require: [{sls: shop.package}]}]}",
}
"""The package file includes the service file, as in public formulas: so all states of the service are part of it."""


def test_a_file_that_includes_what_depends_on_it_forms_no_cycle(compile_tree):
    """A requisite on a state file leaves out the states of its includes that wait for the state in turn."""
    compiled = compile_tree(INCLUDES, "site", lenient=("*",))
    warnings = [problem for problem in compiled.warnings if problem.code == "requisite-loop"]

    assert [call.low["__id__"] for call in compiled.calls] == ["package", "config", "service", "a"]
    assert warnings
    assert all(problem.waived for problem in warnings)
    (of_config,) = [problem for problem in warnings if "of lamp.lit[config]" in problem.message]
    assert of_config.message == (
        "requisites form a cycle: require of lamp.lit[config] names the state file 'shop.package', and some of its "
        "states wait for lamp.lit[config] in turn (lamp.lit[service]): it means the other states of the file"
    )
    assert of_config.location.file.endswith("shop/config.sls")


def test_a_cycle_over_state_files_is_an_error_in_strict_states(problems):
    """The hint names the setting, because such cycles are common in formulas."""
    found = problems(INCLUDES, "site")

    assert {problem.code for problem in found} == {"requisite-loop"}
    assert all(problem.hint.endswith("name their SLS in `lenient`") for problem in found)


def test_a_state_that_requires_its_own_file_means_the_other_states_of_it(compile_tree):
    """The state does not wait for itself, so it can run."""
    text = "last: {lamp.lit: [{require: [{sls: site}]}]}\nfirst: {lamp.lit: []}"
    compiled = compile_tree(text, lenient=("*",))

    assert [call.low["__id__"] for call in compiled.calls] == ["first", "last"]
    assert [problem.message.rpartition(", ")[2] for problem in compiled.warnings] == [
        "which contains it: it means the other states of the file"
    ]


def test_only_the_states_of_a_cycle_are_left_out(compile_tree):
    """Other states of the file still come first, and their changes still refresh."""
    compiled = compile_tree(INCLUDES, "site", lenient=("*",))
    requisites = {call.low["__id__"]: dict(call.requisites) for call in compiled.calls}

    assert requisites == {
        "package": {},
        "config": {"require": (0,)},
        "service": {"watch": (1, 0)},
        "a": {"require": (1, 2, 0)},
    }


@pytest.mark.parametrize(
    ("requisite", "why"),
    [
        ("require: [nobody]", "require names 'nobody', which does not exist"),
        ("watch: [{lamp: 'nob*'}]", ""),
        ("onchanges: [{lamp: 'nob*'}]", "onchanges names lamp[nob*], which does not exist"),
        ("require: [{sls: nowhere}]", "require names the state file 'nowhere', which is not part of this run"),
    ],
)
def test_a_requisite_on_nothing_fails_its_state_when_it_runs(compile_tree, requisite, why):
    """Salt does the same. A glob without matches requires nothing, and reports no change."""
    compiled = compile_tree(f"a: {{lamp.lit: [{{color: red}}, {{{requisite}}}]}}", lenient=("*",))
    (warning,) = compiled.warnings

    assert compiled.calls[0].unmet == why
    assert (warning.code, warning.waived) == ("requisite-missing", True)
    assert warning.message.endswith(": the state fails when it runs" if why else ": it has no effect")

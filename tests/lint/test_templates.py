"""The rules inspect templates without running them, so they also find mistakes in branches that are not taken."""

from __future__ import annotations

import pytest

TAIL = "\nx: test.nop\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{% if false %}{{ ^colour }}{% endif %}", "'colour' is not defined"),
        ("{% set colour = 1 %}\n{% if false %}{{ ^color }}{% endif %}", "did you mean colour?"),
        ("{% if false %}\n{{ ^later }}{% set later = 1 %}\n{% endif %}", "'later'"),
        ("{% for a in [] %}{% set b = 1 %}{% endfor %}\n{% if false %}{{ ^b }}{% endif %}", "use a namespace"),
        (
            "{% set root = 'lib' %}{% from root ~ '/map.jinja' import a %}{% if false %}{{ ^inner }}{% endif %}",
            "is defined",
        ),
        ("{% for a in [] %}\n{% else %}{{ ^a if false }}{% endfor %}", "'a'"),
        ("{% macro m(a) %}{{ a }}{{ ^b }}{% endmacro %}", "'b'"),
        ("{% if false %}{% for a in ^xs %}{% endfor %}{% endif %}", "'xs'"),
        ("{% if false %}{{ x | default(^fallback) }}{% endif %}", "'fallback'"),
        ("{% if false %}{{ ^x.y | default(1) }}{% endif %}", "'x'"),
        ("{% if false %}{% set a = ^b %}{% endif %}", "'b'"),
        ("{% with a = 1 %}{% endwith %}\n{% if false %}{{ ^a }}{% endif %}", "'a'"),
        ("{% if false %}{% include ^name ~ '.sls' %}{% endif %}", "'name'"),
    ],
)
def test_name_that_nothing_gives_a_value(text, words, warnings):
    """The warning has the line and, as `^` marks here, the column of the first use in that line."""
    before, _, after = text.partition("^")
    (warning,) = warnings({"site.sls": before + after + TAIL, "lib/map.jinja": "{% set a, inner = 1, 2 %}"})

    assert warning.code == "template-name"
    assert (warning.location.line, warning.location.column) == (
        before.count("\n") + 1,
        len(before.rpartition("\n")[2]) + 1,
    )
    assert words in f"{warning.message} {warning.hint}"


@pytest.mark.parametrize(
    "text",
    [
        "{{ '' if grains.os else sls ~ slspath ~ tpldir ~ saltenv ~ opts.id ~ pillar.x }}",
        "{% if x is defined %}{{ x }}{% endif %}",
        "{% if x is not defined %}{% set x = 1 %}{% endif %}{{ '' if true else x }}",
        "{{ x | default('') }}{{ y | d('') }}",
        "{{ '' if x is none or y is mapping }}",
        "{% if false %}{% set x = 1 %}{% endif %}{% if false %}{{ x }}{% endif %}",
        "{% for a, b in {}.items() %}{{ loop.index }}{{ a }}{{ b }}{% endfor %}",
        "{% for a in [] if a %}{{ a }}{% endfor %}",
        (
            "{% macro m(a, b=1) %}{{ a }}{{ b }}{{ varargs }}{{ kwargs }}{{ late }}{% "
            "endmacro %}{% set late = 1 %}{{ m('') if false }}"
        ),
        "{% macro m() %}{{ caller('') if false }}{% endmacro %}{% call(z) m() %}{{ z }}{% endcall %}",
        "{% set a %}{{ 1 }}{% endset %}{{ '' if a }}",
        "{% set ns = namespace(a=1) %}{% set ns.a = 2 %}{{ '' if ns.a }}",
        "{% load_yaml as data %}\na: 1\n{% endload %}{{ '' if data.a }}",
        "{% import_yaml 'data.yaml' as data %}{{ '' if data.a }}",
        "{% from 'lib.jinja' import a as b, c with context %}{{ '' if b ~ c }}",
        "{% import 'lib.jinja' as lib %}{{ '' if lib.a }}",
        "{% with a = 1 %}{{ '' if a }}{% endwith %}",
        "{% filter upper %}{% set q = 1 %}{% endfilter %}",
        "{% raw %}{{ nothing }}{% endraw %}\n{# {{ nothing }} #}",
        "{% do [].append(1) %}{% for a in [1] %}{% continue %}{% endfor %}",
    ],
)
def test_name_that_has_a_value_or_is_asked_for(text, warnings):
    """The rule knows every way to define a name, to test for it, or to give it a default."""
    files = {
        "site.sls": "{# #}" + text.replace("{% raw %}", "# {% raw %}") + TAIL,
        "data.yaml": "a: 1\n",
        "lib.jinja": "{% set a, c = 1, 2 %}",
    }

    assert warnings(files, "site") == []


def test_what_a_state_file_hands_on_is_known_to_what_it_imports(warnings):
    """A name that no state file defines is still reported, in the imported file."""
    files = {
        "site.sls": "{% set tone = 1 %}{% from 'lib/map.jinja' import a with context %}{{ '' if a }}" + TAIL,
        "lib/map.jinja": "{% set a = tone %}\n{% if false %}{{ ton }}{% endif %}",
    }
    (warning,) = warnings(files)

    assert warning.location.file.endswith("lib/map.jinja")
    assert (warning.location.line, warning.message, warning.hint) == (
        2,
        "'ton' is not defined",
        "did you mean tone?",
    )


@pytest.mark.parametrize(
    "site",
    [
        "{% for user in ['a'] %}{% include 'part.sls' %}{% endfor %}",
        "{% macro m(user) %}{% include 'part.sls' %}{% endmacro %}",
        "{% set name, user = 'part', 1 %}{% include name ~ '.sls' %}",
    ],
)
def test_what_is_included_sees_every_name_of_those_that_include(site, warnings):
    """Names of loops and macros count, too, also in state files."""
    assert (
        warnings({"site.sls": site + TAIL, "part.sls": "{{ '' if user | default('') }}{{ user if false }}"}, "site")
        == []
    )


def test_template_with_a_number_that_python_refuses_is_left_alone(look):
    """Only the compiler reports the number, once."""
    report = look("{{ " + "9" * 5000 + " }}" + TAIL)

    assert ([error.code for error in report.errors], report.warnings) == (["template-error"], ())


def test_template_nested_beyond_measure_is_left_alone(look):
    """No rule fails on it."""
    report = look(
        "{% if false %}{{ 1" + " ~ 1" * 3000 + " }}" + "{{ [" * 300 + "x" + "] }}" * 300 + "{% endif %}" + TAIL
    )

    assert report.warnings == ()


@pytest.mark.parametrize(
    "call",
    [
        "salt['cmd.run']('x')",
        "salt.cmd.run('x')",
        "salt['cmd.shell']('x')",
        "salt['pkg.install']('x')",
        "salt['file.write']('/x')",
        "salt['grains.setval']('a', 1)",
    ],
)
def test_call_that_does_more_than_look(call, warnings):
    """The rule reports each such call at its own line."""
    (warning,) = warnings("{% if false %}{{ " + call + " }}{% endif %}" + TAIL)

    assert (warning.code, warning.location.line) == ("template-effect", 1)
    assert "has side effects" in warning.message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{{ salt['pillar.gte']('x') }}", "did you mean pillar.get?"),
        ("{{ salt['cmd.shells']('x') }}", "cannot call cmd.shells"),
        ("{{ salt.disk.usage() }}", "test for it first: {% if 'disk.usage' in salt %}"),
        ("{{ 1 | ymal }}", "did you mean yaml?"),
        ("{{ 1 is matchh }}", "there is no test 'matchh'"),
    ],
)
def test_word_that_there_is_not(text, words, warnings):
    """The rule reports unknown calls, filters and tests in a branch that is not taken."""
    (warning,) = warnings("{% if false %}" + text + "{% endif %}" + TAIL)

    assert warning.code == "template-unknown"
    assert words in f"{warning.message} {warning.hint}"


def test_call_that_the_template_asks_for_is_its_own_business(warnings):
    """A template that tests `'x.y' in salt` may use the call."""
    assert warnings("{% if 'disk.usage' in salt %}{{ salt['disk.usage']() }}{% endif %}" + TAIL) == []


def test_accumulated_text_is_known_to_the_template_of_a_file(warnings):
    """`accumulator` has the texts of `file.accumulated`; a misspelt name is still reported."""
    states = """
a: {file.accumulated: [{filename: /a, text: b, require_in: [{file: /a}]}]}
/a: {file.managed: [{template: jinja, contents: "{%% raw %%}{{ %s['a'] }}{%% endraw %%}"}]}
"""

    assert warnings(states % "accumulator") == []
    (warning,) = warnings(states % "accumulatr")
    assert (warning.code, warning.hint) == ("template-name", "did you mean accumulator?")


def test_template_that_does_not_render_has_its_error_alone(look):
    """No warning repeats the error of the compiler at its line; other lines have their warnings."""
    report = look("{{ colour }}\n{% if false %}{{ shade }}{% endif %}" + TAIL)

    assert [(error.code, error.location.line) for error in report.errors] == [("template-undefined", 1)]
    assert [(warning.code, warning.location.line) for warning in report.warnings] == [("template-name", 2)]


CONF = (
    "x:\n  file.managed:\n    - name: /x\n    - source: salt://x.conf\n"
    "    - template: jinja\n    - context: {port: 1}\n    - defaults: {host: a}\n"
)


def test_template_of_a_file_and_the_context_of_its_state(warnings):
    """A name without a value in either is reported where the template uses it."""
    (warning,) = warnings(
        {"site.sls": CONF, "x.conf": "a {{ port }} {{ host }}\n{{ name }} {{ grains.id }}\n b = {{ prot }}\n"}
    )

    assert (warning.code, warning.location.line, warning.location.column) == ("template-name", 3, 9)
    assert warning.location.file.endswith("states/x.conf")
    assert "file.managed[x]" in warning.message
    assert warning.hint == "did you mean port?"


@pytest.mark.parametrize("text", ["{{ prot | default(1) }}", "{% set prot = 1 %}{{ prot }}", "no template", "\udcff"])
def test_template_of_a_file_that_is_left_alone(text, warnings, tmp_path):
    """The rules report no name with a value, and nothing about a file that cannot be read."""
    (tmp_path / "states").mkdir()
    (tmp_path / "states" / "x.conf").write_bytes(text.encode(errors="surrogateescape"))
    (tmp_path / "states" / "x.conf").chmod(0o644)

    assert warnings(CONF) == []


def test_file_that_is_no_template_may_look_like_a_broken_one(warnings):
    """A file that is not rendered causes no warning."""
    assert (
        warnings(
            {"site.sls": "x:\n  file.managed:\n    - name: /x\n    - source: salt://x.conf\n", "x.conf": "{{ broken"}
        )
        == []
    )

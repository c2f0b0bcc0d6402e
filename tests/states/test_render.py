"""Templates: what they see, what they may do, and the lines of errors."""

from __future__ import annotations

import os

import pytest

from holdfast.states.errors import CompileError
from holdfast.states.source.files import Tree
from holdfast.states.template.jinja import render_text

LINES = """\
{% set names = ['x', 'y'] -%}
{% macro color() %}
many
lines
{% endmacro %}
# a comment
{% for n in names %}
{{ n }}:
  lamp.lit:
    - color: {{ color() | json }}
    {%- if n == 'x' %}
    - size: 1
    {%- endif %}
{% endfor %}

last:
  lamp.lit:
    - wrong: 1
"""


def location(problem):
    """Return the file name and the line."""
    return problem.location.file.rpartition("/")[2], problem.location.line


def test_locations_are_those_of_the_source(compile_tree, problems):
    """Rendering moves lines, but errors and calls have the lines of the file."""
    (problem,) = problems(LINES)
    assert (problem.code, *location(problem)) == ("unknown-argument", "site.sls", 18)
    assert problem.text == "    - wrong: 1"

    calls = compile_tree(LINES.replace("wrong", "size")).calls
    assert [(call.low["__id__"], call.location.line) for call in calls] == [("x", 9), ("y", 9), ("last", 17)]
    assert calls[0].low["color"] == "\nmany\nlines\n"


def test_a_location_in_an_included_template_names_that_file(problems):
    """The lines are those of the included file."""
    files = {
        "site.sls": "a: lamp.lit\n{% include 'part.jinja' %}\nz: lamp.lit\n",
        "part.jinja": "\nb:\n  lamp.lit:\n    - wrong: {{ 1 }}\n",
    }
    (problem,) = problems(files)

    assert location(problem) == ("part.jinja", 4)
    assert problem.text == "    - wrong: {{ 1 }}"


def test_invalid_yaml_of_a_template_has_the_line_of_the_source(problems):
    """The YAML parser saw only the rendered text."""
    (problem,) = problems("{% for n in [1, 2, 3] %}\na{{ n }}: lamp.lit\n{% endfor %}\nb: [\n")

    assert (problem.code, *location(problem)) == ("yaml-syntax", "site.sls", 4)


@pytest.mark.parametrize(
    ("text", "code", "line", "hint"),
    [
        ("a: 1\n{{ grain }}", "template-undefined", 2, "grains"),
        ("\n\n{{ pillar.nope.deep }}", "template-undefined", 3, "default"),
        ("{% if x %}\na: 1\n", "template-syntax", 1, ""),
        ("\n{{ 1 | jsn }}", "template-syntax", 2, "json"),
        ("\n{{ 1 / 0 }}", "template-error", 2, ""),
        ("\n\n{% include 'nope' %}", "template-missing", 3, "states directory"),
        ("{% from 'nope' import x %}", "template-missing", 1, ""),
        ("{{ ''.__class__.__mro__ }}", "template-forbidden", 1, ""),
        ("\n{{ salt['grain.get']('os') }}", "template-call", 2, "grains.get"),
        ("\n{{ salt['cmd.run']('id') }}", "template-forbidden", 2, "template_commands"),
        ("{{ salt.cmd.run('id') }}", "template-forbidden", 1, ""),
        ("{{ salt.mine.send('x') }}", "template-call", 1, "pillar"),
        ('#jinja2: {"trim_block": true}\na: lamp.lit\n', "template-options", 1, "trim_blocks"),
        ("#!jinja|yaml\n#jinja2: x\na: lamp.lit\n", "template-options", 2, "trim_blocks"),
        ("\n{{ raise('stop here') }}", "template-raise", 2, ""),
        ("\n{% load_yaml as x %}\na: b: c\n{% endload %}", "template-data", 2, ""),
        ("{% include 'site.sls' %}", "template-error", 1, ""),
        ("{% import_yaml '../../etc/passwd' as x %}", "template-missing", 1, ""),
    ],
)
def test_an_error_of_a_template_is_one_problem_with_its_line(problems, text, code, line, hint):
    """Each type of error is tried."""
    (problem,) = problems(text)

    assert (problem.code, *location(problem)) == (code, "site.sls", line)
    assert hint in problem.hint


def test_a_missing_key_or_call_has_a_message_of_holdfast(problems):
    """The message has no words of Python, and does not claim that the use is forbidden."""
    (key,) = problems("{{ pillar.nope.deep }}")
    (call,) = problems("{{ salt['disk.usage']() }}")

    assert key.message == "the template uses an undefined name or key: the mapping pillar has no key 'nope'"
    assert call.message == "templates cannot call disk.usage"
    assert "config" in call.hint
    assert "grains" in call.hint


@pytest.mark.parametrize(
    ("line", "column", "said"),
    [
        ("a: {{ pillar['app']['port'] }}", 7, "the mapping pillar has no key 'app'"),
        ("a.app: {{ pillar.app.port }}", 11, "the mapping pillar has no key 'app'"),
        ("a: {{ dict(y=1, z=2)['app'] }}", 21, "the mapping has no key 'app'"),
        ("{% set x = {'y': {}} %}{{ 1 }}{{ x.y[ \"app\" ] }}", 34, "the mapping x.y has no key 'app'"),
        ("a: {{ app }}", 7, "'app' is undefined"),
        ("a: {{ 'app' if app }}", 16, "'app' is undefined"),
        # no column if the line has several candidates
        ("a: {{ pillar.app }}{{ grains.app }}", 0, "the mapping has no key 'app'"),
        ("{% set k = 'app' %}x.app: {{ pillar[k] }}{{ grains.app if false }}", 0, "the mapping has no key 'app'"),
        ("{{ pillar['a' ~ 'pp'] }}{{ grains.app if false }}", 0, "the mapping has no key 'app'"),
        ("a: {{ app }}{{ app }}", 0, "'app' is undefined"),
    ],
)
def test_a_missing_name_has_the_column_of_its_expression(problems, line, column, said):
    """The problem has a column only if one expression alone can have failed."""
    (problem,) = problems(line)

    assert problem.message == f"the template uses an undefined name or key: {said}"
    assert problem.location.column == column


def test_an_error_in_an_imported_macro_has_the_line_of_the_macro(problems):
    """The error is at the innermost line of a template."""
    files = {
        "site.sls": "{% from './lib.jinja' import m %}\n{{ m() }}\n",
        "lib.jinja": "{% macro m() %}\n\n{{ nope }}\n{% endmacro %}\n",
    }
    (problem,) = problems(files)

    assert location(problem) == ("lib.jinja", 3)
    assert problem.text == "{{ nope }}"


def test_all_broken_files_are_reported_together(problems):
    """One run reports the mistakes of all files."""
    found = problems({"a.sls": "{{ nope }}", "b.sls": "x: [", "c.sls": "- x", "d.sls": "x: 1"})

    assert [(location(problem)[0], problem.code) for problem in found] == [
        ("a.sls", "template-undefined"),
        ("b.sls", "yaml-syntax"),
        ("c.sls", "sls-shape"),
        ("d.sls", "id-shape"),
    ]


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("#!yaml\na: lamp.lit\n", ["a"]),
        ("#!jinja|yaml\n{{ 'a' }}: lamp.lit\n", ["a"]),
        ("#!jinja | yaml\n{{ 'a' }}: lamp.lit\n", ["a"]),
        ('#!json\n{"a": "lamp.lit"}\n', ["a"]),
        ('#!jinja|json\n{"{{ 1 }}": {"lamp.lit": []}}\n', ["1"]),
        ("#!/usr/bin/env salt\na: lamp.lit\n", ["a"]),
        ("a: lamp.lit\r\nb: lamp.lit\r\n", ["a", "b"]),
        ("\ufeffa: lamp.lit\n", ["a"]),
        ("   \n", []),
    ],
)
def test_the_first_line_selects_the_renderers(compile_tree, text, ids):
    """There are four pipelines; a path after `#!` has no meaning."""
    assert [call.low["__id__"] for call in compile_tree(text).calls] == ids


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("#!py", "programs"),
        ("#!pyobjects", "programs"),
        ("#!mako|yaml", "#!jinja|yaml"),
        ("#!yaml|jinja", "#!jinja|yaml"),
    ],
)
def test_an_unknown_renderer_is_an_error(problems, line, hint):
    """Salt would omit the file without a message."""
    (problem,) = problems(f"{line}\na: lamp.lit\n")

    assert (problem.code, problem.location.line) == ("renderer-unknown", 1)
    assert hint in problem.hint


def test_templates_cannot_change_the_pillar_of_others(compile_tree):
    """Each file has copies of grains and pillar."""
    files = {
        "a.sls": "{% do pillar.update({'k': 'changed'}) %}a: lamp.lit",
        "b.sls": "b:\n  lamp.lit:\n    - color: {{ pillar.k }}",
    }

    assert compile_tree(files).calls[1].low["color"] == "v"


def test_line_numbers_leave_no_trace_in_values(compile_tree):
    """Set blocks, filters, calls and imports give exactly the text of the file."""
    text = (
        "{% set x %}one\ntwo{% endset %}\n{% set y | upper %}a\nb{% endset %}\n"
        "{% macro wrap() %}<{{ caller() }}>{% endmacro %}\n{% set z %}{% call wrap() %}in{% endcall %}{% endset %}\n"
        "{% import_text 'plain.txt' as t %}\n"
        "a:\n  lamp.lit:\n    - tags: {{ [x, y, z, t, x|length] | json }}\n"
    )
    call = compile_tree({"site.sls": text, "plain.txt": "p\nq\n"}).calls[0]

    assert call.low["tags"] == ["one\ntwo", "A\nB", "<in>", "p\nq", 7]


def test_included_text_keeps_its_length_in_values(compile_tree):
    """The markers of lines are removed from values."""
    text = (
        "{% set x %}{% include 'plain.txt' %}{% endset %}\n{% set y | upper %}{%- include 'plain.txt' -%}{% endset %}\n"
        "{% macro m() %}{% include 'plain.txt' ignore missing %}{% endmacro %}\n"
        "a:\n  lamp.lit:\n    - tags: {{ [x, y, m(), x|length, x == 'p\nq'] | json }}\n"
    )
    call = compile_tree({"site.sls": text, "plain.txt": "p\nq\n"}).calls[0]

    assert call.low["tags"] == ["p\nq", "P\nQ", "p\nq", 3, True]


def test_a_line_of_options_changes_jinja_for_its_file(compile_tree):
    """The line is the first one, or follows the renderers. Other lines keep their numbers."""
    loop = '{% for x in "ab" %}\n{{ x }}: lamp.lit\n{% endfor %}\n'
    first = compile_tree({"a.sls": '#jinja2: {"trim_blocks": true, "lstrip_blocks": true}\n' + loop})
    second = compile_tree(
        {
            "a.sls": (
                '#!jinja|yaml\n#jinja2: {"variable_start_string": "<<", "variable_end_string": '
                '">>"}\n<< "c" >>: lamp.lit\n'
            )
        }
    )

    assert [(call.low["__id__"], call.location.line) for call in first.calls] == [("a", 3), ("b", 3)]
    assert [(call.low["__id__"], call.location.line) for call in second.calls] == [("c", 3)]


def test_a_line_of_options_is_not_part_of_a_managed_file():
    """The content starts after it, and errors still have their line."""
    text = '#jinja2: {"trim_blocks": true}\n{% if true %}\nx\n{% endif %}\n'

    assert render_text(text, name="x", variables={}, grains={}, pillar={}) == "x\n\n"
    with pytest.raises(CompileError) as caught:
        render_text(text + "{{ nope }}", name="x", variables={}, grains={}, pillar={})
    assert caught.value.problems[0].location.line == 5


def test_an_import_sees_variables_only_with_context(compile_tree, problems):
    """Every import in Jinja needs `with context` for this."""
    files = {"data.yaml": "v: {{ x }}\n"}
    text = "{% set x = 5 %}\n{% import_yaml 'data.yaml' as data WITH %}\na:\n  lamp.lit:\n    - size: {{ data.v }}\n"
    found = compile_tree({**files, "site.sls": text.replace("WITH", "with context")})
    (problem,) = problems({**files, "site.sls": text.replace("WITH", "")})

    assert found.calls[0].low["size"] == 5
    assert location(problem) == ("data.yaml", 1)


def test_tags_for_data_and_for_timing(compile_tree):
    """A variable set within a block of data is local; `profile` prints its content."""
    text = (
        "{% load_yaml as one %}{% set inner = 1 %}v: {{ inner }}{% endload %}\n{% load_json as two %}[1]{% endload %}\n"
        "{% load_text as three %} x {% endload %}\n"
        "{% profile as 'slow' %}\na:\n  lamp.lit:\n"
        "    - tags: {{ [one, two, three, inner is defined] | json }}\n{% endprofile %}\n"
    )

    assert compile_tree(text).calls[0].low["tags"] == [{"v": 1}, [1], " x ", False]


def test_managed_templates_render_with_their_variables():
    """`render_text` serves `template: jinja` of managed files."""
    text = "{{ grains.os }} {{ salt['pillar.get']('a:b') }} {{ port }}\n"

    assert (
        render_text(text, name="x.conf", variables={"port": 80}, grains={"os": "Debian"}, pillar={"a": {"b": 1}})
        == "Debian 1 80\n"
    )


def test_a_managed_template_imports_from_the_states_directory(tmp_path):
    """The caller gives the directory."""
    (tmp_path / "lib.jinja").write_text("{% macro m(x) %}[{{ x }}]{% endmacro %}")
    text = "{% from 'lib.jinja' import m %}{{ m(port) }}"

    trusted = frozenset({os.getuid()})

    assert (
        render_text(text, name="x", variables={"port": 1}, grains={}, pillar={}, tree=Tree(tmp_path, trusted)) == "[1]"
    )


@pytest.mark.parametrize(
    ("name", "text", "rendered"),
    [
        ("salt://web/x.conf", "{% include './part' %}", "web"),
        ("tree://web/x.conf", "{% include '../part' %}", "root"),
        ("salt://web/x.conf", "#jinja2: {}\n{% include './part' %}", "web"),
        ("inline", "{% include './part' %}", "root"),
    ],
)
def test_relative_names_are_relative_to_the_managed_template(name, text, rendered, tmp_path):
    """Names in a template that is not a file of the states are relative to the states directory."""
    (tmp_path / "web").mkdir()
    (tmp_path / "part").write_text("root")
    (tmp_path / "web/part").write_text("web")
    tree = Tree(tmp_path, frozenset({os.getuid()}))

    assert render_text(text, name=name, variables={}, grains={}, pillar={}, tree=tree) == rendered


@pytest.mark.parametrize(("text", "line"), [("a\n{{ nope }}", 2), ("a\n\n{% if %}", 3)])
def test_an_error_of_a_managed_template_has_its_name_and_line(text, line):
    """An operator looks for the template, not for the state."""
    with pytest.raises(CompileError) as caught:
        render_text(text, name="salt://x.conf", variables={}, grains={}, pillar={})

    assert str(caught.value.problems[0].location) == f"salt://x.conf:{line}"

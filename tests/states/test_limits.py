"""Templates come to an end, and what they make has a size."""

from __future__ import annotations

import pytest

from holdfast.states import budget
from holdfast.states.errors import CompileError
from holdfast.states.render import render_text

TWICE = "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(100) }}"
INNER = "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}"
GROWING = "{{% set n = namespace(x='x', l=[1]) %}}{{% for i in range(99) %}}{{% {} %}}{{% endfor %}}"


@pytest.mark.parametrize(
    "text",
    [
        INNER,
        TWICE,
        "{% set x %}" + INNER + "{% endset %}",
        "{% macro m() %}" + INNER + "{% endmacro %}\n{% set x = m() %}",
        "{% for a in range(3) recursive %}{{ loop(range(3)) if loop.depth < 20 }}{% endfor %}",
        "{% macro m() %}{{ caller() }}{{ caller() }}{% endmacro %}" + "{% call m() %}" * 18 + "x" + "{% endcall %}" * 18,
        "{% set n = n | default(0) + 1 %}{% if n < 40 %}{% include 'site.sls' %}{% include 'site.sls' %}{% endif %}",
        "{% block a %}{{ self.b() * 2 }}{% endblock %}{% block b %}{% for x in range(2000) %}{{ x }}{% endfor %}{% endblock %}",
    ],
)
def test_what_repeats_too_often_is_stopped_at_its_line(text, problems, monkeypatch):
    """Loops, macros, calls, includes, blocks: whatever may run again."""
    monkeypatch.setattr(budget, "STEPS", 2_000)
    (problem,) = problems(text)

    assert (problem.code, problem.place.line) == ("template-limit", 1)
    assert "repeats" in problem.message
    assert problem.hint


@pytest.mark.parametrize(
    "text",
    [
        "{{ 'x' * 10**10 }}",
        "{{ 10**10 * ['x'] }}",
        "{{ 10 ** (10**10) }}",
        "{{ '%9999999999d' % 1 }}",
        "{{ '%*d' % (9999999999, 1) }}",
        "{{ 'x'.ljust(9999999999) }}",
        "{{ 'x' | center(9999999999) }}",
        "{{ 'x' | indent(width=9999999999, first=true) }}",
        "{{ [1] | batch(9999999999, 0) | list }}",
        "{{ [1] | slice(9999999999) | list }}",
        "{{ 1 | round(-9999999999) }}",
        "{{ [1] | tojson(indent=9999999999) }}",
        "{{ [1] | json(indent=9999999999) }}",
        GROWING.format("set n.x = n.x ~ n.x"),
        GROWING.format("set n.x = n.x + n.x"),
        GROWING.format("set n.x = n.x * 2"),
        GROWING.format("set n.x = n.x.replace('x', 'xx')"),
        GROWING.format("set n.l = n.l + n.l"),
        GROWING.format("do n.l.extend(n.l)"),
        "{% set x = 'x' * 1000 %}{% for i in range(200) %}{{ x }}{% endfor %}",
        "{% set x = 'x' * 1000 %}{% set y %}{% for i in range(200) %}{{ x }}{% endfor %}{% endset %}",
    ],
)
def test_what_grows_too_large_is_stopped_before_it_is(text, problems, monkeypatch):
    """A text, a list, a number; in one step or by doubling."""
    monkeypatch.setattr(budget, "SIZE", 100_000)
    (problem,) = problems(text)

    assert (problem.code, problem.place.line) in {("template-limit", 1), ("template-limit", 0)}  # 0: the file as a whole
    assert "value" in problem.message


def test_long_texts_joined_again_and_again_cost_more(problems, monkeypatch):
    """None is too large, but all of them together would be."""
    monkeypatch.setattr(budget, "STEPS", 10_000)
    (problem,) = problems("{% set x = 'x' * 100000 %}{% for i in range(99) %}{% do [x ~ i] %}{% endfor %}")

    assert problem.code == "template-limit"


def test_what_takes_too_long_is_stopped(problems, monkeypatch):
    """Few steps may be slow ones."""
    monkeypatch.setattr(budget, "SECONDS", 0.0)
    (problem,) = problems("{% for i in [1] %}{% endfor %}")

    assert problem.code == "template-limit"
    assert "longer than 0 s" in problem.message


def test_limits_are_far_from_what_people_write(compile_tree):
    """10 000 states from one loop; and each file has its own share."""
    text = "{% for i in range(10000) %}\n{{ sls }}-{{ i }}:\n  lamp.lit:\n    - size: {{ i * 2 + 1 }}\n    - color: {{ 'c' ~ i % 7 }}\n{% endfor %}"

    assert len(compile_tree({"a.sls": text, "b.sls": text}).calls) == 20_000


def test_templates_of_managed_files_have_limits_too(monkeypatch):
    """The same sandbox."""
    monkeypatch.setattr(budget, "STEPS", 2_000)
    for _ in range(2):
        with pytest.raises(CompileError) as caught:
            render_text("x\n" + INNER, name="motd", variables={}, grains={}, pillar={})
        assert [(problem.code, problem.place.line) for problem in caught.value.problems] == [("template-limit", 2)]


def test_operators_are_what_they_were(compile_tree):
    """Watched, not changed."""
    text = "a:\n  lamp.lit:\n    - size: {{ [1 + 2, 2 * 3, 2 ** 3, 7 % 4, 'x' * 2, [1] * 2, 'a%sb' % 1, [1] + [2], 1.5 * 2, 'a' ~ 1 ~ none, -2 * 'x'] | json }}\n"

    assert compile_tree(text).calls[0].low["size"] == [3, 6, 8, 3, "xx", [1, 1], "a1b", [1, 2], 3.0, "a1None", ""]

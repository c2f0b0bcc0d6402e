"""Templates have limits of steps, time, memory, and the size of values."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.resources import expressions
from holdfast.states.errors import CompileError
from holdfast.states.filters.collections import OrderedValues
from holdfast.states.parse import loader as parse
from holdfast.states.template.jinja import render_text
from holdfast.states.view import budget

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
        "{% macro m() %}{{ caller() }}{{ caller() }}{% endmacro %}"
        + "{% call m() %}" * 18
        + "x"
        + "{% endcall %}" * 18,
        "{% set n = n | default(0) + 1 %}{% if n < 40 %}{% include 'site.sls' %}{% include 'site.sls' %}{% endif %}",
        (
            "{% block a %}{{ self.b() * 2 }}{% endblock %}{% block b %}{% for x in "
            "range(2000) %}{{ x }}{% endfor %}{% endblock %}"
        ),
    ],
)
def test_a_template_with_too_many_steps_is_stopped_at_its_line(text, problems, monkeypatch):
    """Loops, macros, calls, includes and blocks count as steps."""
    monkeypatch.setattr(budget, "STEPS", 2_000)
    (problem,) = problems(text)

    assert (problem.code, problem.location.line) == ("template-limit", 1)
    assert "loops and macros evaluate more than" in problem.message
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
def test_a_value_that_would_become_too_large_is_not_made(text, problems, monkeypatch):
    """The value is a text, a list or a number, made in one step or by doubling."""
    monkeypatch.setattr(budget, "SIZE", 100_000)
    (problem,) = problems(text)

    assert (problem.code, problem.location.line) in {
        ("template-limit", 1),
        ("template-limit", 0),
    }  # 0: the file as a whole
    assert "value" in problem.message


def test_joining_long_texts_costs_more_steps(problems, monkeypatch):
    """No single text is too large, but all of them together would be."""
    monkeypatch.setattr(budget, "STEPS", 10_000)
    (problem,) = problems("{% set x = 'x' * 100000 %}{% for i in range(99) %}{% do [x ~ i] %}{% endfor %}")

    assert problem.code == "template-limit"


def test_a_template_that_takes_too_long_is_stopped(problems, monkeypatch):
    """A few steps may be slow."""
    monkeypatch.setattr(budget, "SECONDS", 0.0)
    (problem,) = problems("{% for i in [1] %}{% endfor %}")

    assert problem.code == "template-limit"
    assert "longer than 0 s" in problem.message


def test_the_limits_allow_ten_thousand_states_from_a_loop(compile_tree):
    """Each file has its own limits."""
    text = (
        "{% for i in range(10000) %}\n{{ sls }}-{{ i }}:\n  lamp.lit:\n"
        "    - size: {{ i * 2 + 1 }}\n    - color: {{ 'c' ~ i % 7 }}\n{% endfor %}"
    )

    assert len(compile_tree({"a.sls": text, "b.sls": text}).calls) == 20_000


def test_templates_of_managed_files_have_the_same_limits(monkeypatch):
    """Templates of managed files use the sandbox of state files."""
    monkeypatch.setattr(budget, "STEPS", 2_000)
    for _ in range(2):
        with pytest.raises(CompileError) as caught:
            render_text("x\n" + INNER, name="motd", variables={}, grains={}, pillar={})
        assert [(problem.code, problem.location.line) for problem in caught.value.problems] == [("template-limit", 2)]


def test_checked_operators_have_the_results_of_python(compile_tree):
    """The sandbox checks the operands, but not more."""
    text = (
        "a:\n  lamp.lit:\n    - size: {{ [1 + 2, 2 * 3, 2 ** 3, 7 % 4, 'x' * 2, [1] * 2, "
        "'a%sb' % 1, [1] + [2], 1.5 * 2, 'a' ~ 1 ~ none, -2 * 'x'] | json }}\n"
    )

    assert compile_tree(text).calls[0].low["size"] == [3, 6, 8, 3, "xx", [1, 1], "a1b", [1, 2], 3.0, "a1None", ""]


@pytest.mark.parametrize(
    "text",
    [
        "{{ '%9999999999d' | format(1) }}",
        "{{ '{:9999999999}'.format(1) }}",
        "{{ '{:{}}'.format(1, 9999999999) }}",
        "{{ ('x' * 1000).replace('x', 'y' * 1000) }}",
        "{{ ('x' * 1000) | replace('x', 'y' * 1000) }}",
        "{{ ('x' * 1000) | regex_replace('x', 'y' * 1000) }}",
        "{{ ('y' * 1000).join(['a'] * 1000) }}",
        "{{ (['a'] * 1000) | join('y' * 1000) }}",
        "{{ ('\t' * 1000).expandtabs(1000) }}",
        "{{ ('x' * 1000).translate({120: 'y' * 1000}) }}",
        "{{ 9999999999 | random_str }}",
        "{{ salt['random.get_str'](9999999999) }}",
        "{{ '::/0' | network_hosts }}",
        "{{ ('http://x.yz ' * 1000) | urlize }}",
        GROWING.format("set n.l = [n.l, n.l] | sum(start=[])"),
    ],
)
def test_filters_and_methods_cannot_make_large_values(text, problems, monkeypatch):
    """Each would make a large value from a small one."""
    monkeypatch.setattr(budget, "SIZE", 100_000)
    monkeypatch.setattr(expressions, "SIZE", 100_000)
    (problem,) = problems(text)

    assert (problem.code, problem.location.line) == ("template-limit", 1)
    assert "value of more than" in problem.message or "result has more than" in problem.message


@pytest.mark.parametrize(
    "text",
    [
        "range(99) | permutations",
        "range(99) | combinations(40)",
        "range(99) | product(range(99), range(99), range(99))",
    ],
)
def test_each_item_of_an_iterator_costs_a_step(text, problems):
    """Loops, lists and sums consume the items."""
    (problem,) = problems(f"{{{{ {text} | list | length }}}}")

    assert (problem.code, problem.location.line) == ("template-limit", 1)


@pytest.mark.parametrize(
    "text",
    [
        "{{ x | regex_match('(a+)+$') }}",
        "{{ x | regex_search('(a|aa)+$') }}",
        "{{ x | regex_replace('(a+)+$', 'y') }}",
        "{{ x is match('(a+)+$') }}",
        "{{ x | check_whitelist_blacklist(['(a+)+$']) }}",
    ],
)
def test_a_regular_expression_without_end_is_stopped(text, problems, monkeypatch):
    """Another process matches patterns with nested repetitions, with a deadline."""
    monkeypatch.setattr(expressions, "DEADLINE", 0.2)
    (problem,) = problems("{% set x = 'a' * 60 ~ 'b' %}" + text)

    assert problem.code == "template-limit"
    assert "takes longer than 0.2 s on a text of 61 characters" in problem.message


def test_a_regular_expression_of_a_top_file_is_stopped(problems, monkeypatch):
    """Top files match names that others choose."""
    monkeypatch.setattr(expressions, "DEADLINE", 0.2)
    (problem,) = problems(
        {"top.sls": "base:\n  '(a+)+$':\n    - match: pcre\n    - a\n", "a.sls": ""}, minion_id="a" * 60 + "b"
    )

    assert problem.code == "top-shape"
    assert "takes longer than 0.2 s" in problem.message


@given(
    text=st.text("ab0.-\n", max_size=12),
    pattern=st.sampled_from(["(a+b?)+", "((a|b)+0)*", "(?:[a-z]*\\.)+b", "(x*)*$"]),
)
@settings(max_examples=20, deadline=None)
def test_an_expression_has_the_same_result_in_another_process(text, pattern):
    """Groups, no groups, no match and replacements are compared."""
    found = re.search(pattern, text)

    assert expressions.Expression(pattern).search(text) == (found and (found.groups() or (found[0],)))
    assert expressions.Expression(pattern).sub(r"<\g<0>>", text) == re.sub(pattern, r"<\g<0>>", text)


@pytest.mark.parametrize("pattern", ["(a)", "(a+)+"])
def test_an_invalid_replacement_is_an_error_in_every_process(pattern, problems):
    """One pattern is matched here, the other one in another process."""
    (problem,) = problems(f"{{{{ 'aab' | regex_replace('{pattern}', '\\\\2') }}}}")

    assert "invalid group reference 2" in problem.message


def test_rendered_text_has_the_size_limit_of_files(problems, monkeypatch):
    """Its data would take many times as much memory."""
    monkeypatch.setattr(parse, "LIMIT", 1_000)
    (problem,) = problems("# {{ 'x' * 2000 }}\n")

    assert problem.code == "source-size"
    assert problem.hint


@pytest.mark.parametrize(
    "expression",
    [
        "('a', 'b', 'c', 'd') | unique | join",
        "('a', 'b', 'c', 'd') | union(('e', 'f')) | list",
        "('a', 'b', 'c', 'd') | intersect(('d', 'c', 'b')) | list",
        "('a', 'b', 'c', 'd') | difference(('c',))",
        "('a', 'b', 'c', 'd') | symmetric_difference(('e', 'a'))",
        "range(1000) | random",
        "range(1000) | list | random_shuffle",
        "range(1000) | list | random_sample(3)",
    ],
)
def test_rendering_gives_the_same_in_every_process(expression):
    """Neither the seed of Python's hashes nor chance changes a file."""
    script = (
        "from holdfast.states.template.jinja import render_text\n"
        f"print(render_text({'{{ ' + expression + ' }}'!r}, name='x', variables={{}}, grains={{'id': 'web1'}}, "
        f"pillar={{}}))"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": str(seed), "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in (1, 2, 3)
    }

    assert len(said) == 1


def test_a_set_keeps_its_order_when_a_template_adds_to_it():
    """New values come last."""
    ordered = OrderedValues(["b", "a", "b"])
    ordered.add("0")

    assert list(ordered) == ["b", "a", "0"]
    assert (repr(ordered), repr(OrderedValues())) == ("{'b', 'a', '0'}", "set()")


def test_lipsum_is_refused(problems):
    """Its text differs each time."""
    (problem,) = problems("{{ lipsum() }}")

    assert problem.code == "template-undefined"


SHARED = (
    "{% set a = [0] * 1000 %}{% set b = [a] * 50 %}{% set c = [] %}{% for i in "
    "range(50) %}{% do c.append(b) %}{% endfor %}"
)


@pytest.mark.parametrize(
    "text",
    [
        "{{ c }}",
        "{{ c ~ '' }}",
        "{{ {'x': c} }}",
        "{{ '%s' % [c] }}",
        "{{ '%s' | format(c) }}",
        "{{ '{}'.format(c) }}",
        "{{ '{x}'.format(x=c) }}",
        "{{ c | join }}",
        "{{ c | string }}",
        "{{ c | tojson }}",
        "{{ c | json }}",
        "{{ c | yaml }}",
        "{{ c | pprint }}",
        "{{ c | flatten }}",
        "{{ c | sum(start=[]) }}",
        "{{ salt['slsutil.serialize']('json', c) }}",
        "{{ (c * 9) is none }}",
    ],
)
def test_a_shared_value_that_would_be_large_as_text_is_refused(text, problems, monkeypatch):
    """A list that contains another one many times takes little memory, but its text or its items would take much."""
    monkeypatch.setattr(budget, "SIZE", 1 << 20)
    (problem,) = problems(SHARED + text)

    assert (problem.code, problem.location.line) == ("template-limit", 1)
    assert "value of more than 1 MB" in problem.message
    assert "contain each other" in problem.hint


def test_a_list_that_contains_itself_is_refused(problems):
    """The check itself ends, too."""
    (problem,) = problems("{% set a = [] %}{% do a.append(a) %}{{ a | json }}")

    assert problem.code == "template-limit"


@pytest.mark.parametrize(
    "made",
    [
        "[0] * 100000",
        "range(100000) | list",
        "'x' * 1000000",
        "dict.fromkeys(range(50000))",
        "many[:]",
        "many.copy()",
        "many | list",
        "many + many",
        "text[1:]",
        "text | upper",
    ],
)
def test_many_small_values_are_stopped_at_the_limit_of_memory(made):
    """The template stops some megabytes above the limit. A process of its own is measured."""
    text = "{% set many = [0] * 500000 %}{% set text = 'x' * 1000000 %}{% set all = [] %}"
    text += f"{{% for i in range(2000) %}}{{% do all.append({made}) %}}{{% endfor %}}"
    program = f"""
import resource
from holdfast.states.view import budget
from holdfast.states.errors import CompileError
from holdfast.states.template.jinja import render_text
budget.MEMORY = 24 << 20
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    render_text({text!r}, name="x", variables={{}}, grains={{}}, pillar={{}})
except CompileError as error:
    print(error.problems[0].code, error.problems[0].message)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    code, grown = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout.splitlines()

    assert code == "template-limit the template is stopped: it takes more than 24 MB of memory"
    assert int(grown) < 64 << 10


def test_a_sum_of_lists_visits_each_list_once(compile_tree):
    """Other sums have their usual results."""
    text = (
        "{% set many = [[1]] * 100000 %}a:\n  lamp.lit:\n"
        "    - size: {{ [many | sum(start=[]) | length, [1, 2.5] | sum, [[1], [2]] | "
        "sum(start=[0])] | json }}\n"
    )

    assert compile_tree(text).calls[0].low["size"] == [100_000, 3.5, [0, 1, 2]]

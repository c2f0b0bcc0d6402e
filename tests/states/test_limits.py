"""Templates come to an end, and what they make has a size."""

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
def test_what_repeats_too_often_is_stopped_at_its_line(text, problems, monkeypatch):
    """Loops, macros, calls, includes, blocks: whatever may run again."""
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
def test_what_grows_too_large_is_stopped_before_it_is(text, problems, monkeypatch):
    """A text, a list, a number; in one step or by doubling."""
    monkeypatch.setattr(budget, "SIZE", 100_000)
    (problem,) = problems(text)

    assert (problem.code, problem.location.line) in {
        ("template-limit", 1),
        ("template-limit", 0),
    }  # 0: the file as a whole
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
    text = (
        "{% for i in range(10000) %}\n{{ sls }}-{{ i }}:\n  lamp.lit:\n"
        "    - size: {{ i * 2 + 1 }}\n    - color: {{ 'c' ~ i % 7 }}\n{% endfor %}"
    )

    assert len(compile_tree({"a.sls": text, "b.sls": text}).calls) == 20_000


def test_templates_of_managed_files_have_limits_too(monkeypatch):
    """The same sandbox."""
    monkeypatch.setattr(budget, "STEPS", 2_000)
    for _ in range(2):
        with pytest.raises(CompileError) as caught:
            render_text("x\n" + INNER, name="motd", variables={}, grains={}, pillar={})
        assert [(problem.code, problem.location.line) for problem in caught.value.problems] == [("template-limit", 2)]


def test_operators_are_what_they_were(compile_tree):
    """Watched, not changed."""
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
def test_what_a_filter_or_a_method_makes_is_looked_at_first(text, problems, monkeypatch):
    """None of them may make much of little."""
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
def test_iterators_that_hardly_end_cost_what_they_give(text, problems):
    """For each consumer of their items: a loop, a list, a sum."""
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
def test_expressions_that_never_end_are_given_up(text, problems, monkeypatch):
    """A repetition within a repetition is matched by another process, with a deadline."""
    monkeypatch.setattr(expressions, "DEADLINE", 0.2)
    (problem,) = problems("{% set x = 'a' * 60 ~ 'b' %}" + text)

    assert problem.code == "template-limit"
    assert "takes longer than 0.2 s on a text of 61 characters" in problem.message


def test_expressions_of_top_files_are_given_up_too(problems, monkeypatch):
    """They are matched against names that are not ours."""
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
def test_an_expression_finds_apart_what_it_finds_here(text, pattern):
    """Groups, no groups, no match, replacements."""
    found = re.search(pattern, text)

    assert expressions.Expression(pattern).search(text) == (found and (found.groups() or (found[0],)))
    assert expressions.Expression(pattern).sub(r"<\g<0>>", text) == re.sub(pattern, r"<\g<0>>", text)


@pytest.mark.parametrize("pattern", ["(a)", "(a+)+"])
def test_a_replacement_that_does_not_fit_is_an_error_wherever_it_is_made(pattern, problems):
    """Here or in another process."""
    (problem,) = problems(f"{{{{ 'aab' | regex_replace('{pattern}', '\\\\2') }}}}")

    assert "invalid group reference 2" in problem.message


def test_text_of_any_origin_has_a_size(problems, monkeypatch):
    """What a template makes is limited as the file itself is: its data take many times as much."""
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
    """Neither the seed of Python's hashes nor chance changes a file for no reason."""
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
    """What is added comes last."""
    ordered = OrderedValues(["b", "a", "b"])
    ordered.add("0")

    assert list(ordered) == ["b", "a", "0"]
    assert (repr(ordered), repr(OrderedValues())) == ("{'b', 'a', '0'}", "set()")


def test_lipsum_is_refused(problems):
    """It is another text each time."""
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
def test_what_is_small_but_would_be_large_when_written_out_is_stopped(text, problems, monkeypatch):
    """A list that has another one many times takes little memory; its text, or all its items, would take much."""
    monkeypatch.setattr(budget, "SIZE", 1 << 20)
    (problem,) = problems(SHARED + text)

    assert (problem.code, problem.location.line) == ("template-limit", 1)
    assert "value of more than 1 MB" in problem.message
    assert "contain each other" in problem.hint


def test_a_list_in_itself_is_no_text_without_end(problems):
    """Nor does looking at it hang."""
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
def test_many_values_that_are_not_large_are_stopped_when_they_are_together(made):
    """At some megabytes more than the limit. In a process of its own: memory is the whole process's."""
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


def test_lists_are_joined_in_one_go(compile_tree):
    """As many as there are: each is gone through once, and other sums are what they were."""
    text = (
        "{% set many = [[1]] * 100000 %}a:\n  lamp.lit:\n"
        "    - size: {{ [many | sum(start=[]) | length, [1, 2.5] | sum, [[1], [2]] | "
        "sum(start=[0])] | json }}\n"
    )

    assert compile_tree(text).calls[0].low["size"] == [100_000, 3.5, [0, 1, 2]]

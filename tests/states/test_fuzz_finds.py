"""Bugs that fuzzing has found, each as a case, and a short run of the fuzzer."""

from __future__ import annotations

import random

import pytest

from holdfast.states.errors import CompileError
from tree_fuzz import Bench
from tree_mutations import corpus, mutate

HUGE = "0x" + "f" * 5000
ARGUMENT = "a:\n  lamp.lit:\n    - "
NAMES = ",".join(f"n{number}" for number in range(999))
PCRE = "base:\n  '{}':\n    - match: pcre\n    - one\n"

FINDS = {
    "a hexadecimal number that Python would not print": ({"site.sls": f"{ARGUMENT}size: {HUGE}"}, None),
    "one where text belongs": ({"site.sls": HUGE}, ("sls-shape", 1)),
    "one as an order": ({"site.sls": f"{ARGUMENT}order: {HUGE}"}, None),
    "one in a list as an order": ({"site.sls": f"{ARGUMENT}order: [{HUGE}]"}, None),
    "a number of base 60 that takes for ever": ({"site.sls": f"{ARGUMENT}size: 1{':0' * 50_000}"}, None),
    "a float of base 60 that is too large": ({"site.sls": f"{ARGUMENT}size: 1{':0' * 300}.5"}, None),
    "a float of base 60 with a tag": ({"site.sls": f"{ARGUMENT}size: !!float 1{':0' * 300}.5"}, ("yaml-tag", 3)),
    "a regular expression with a number too large": (
        {"top.sls": PCRE.format("x{99999999999999}"), "one.sls": "a: lamp.lit"},
        ("top-shape", 2),
    ),
    "a mark of a line that a template made up": (
        {"site.sls": "a: {{ '\\n\\ufdd0x\\ufdd0%s\\ufdd1' }}" % ("9" * 5000)},
        ("yaml-syntax", 1),
    ),
    "a template that prints where something is in memory": ({"site.sls": "a: {{ salt }}"}, ("id-shape", 1)),
    "one that prints a function": ({"site.sls": "a: {{ salt['pillar.get'] }}"}, ("template-error", 1)),
    "one that prints an iterator": ({"site.sls": "\na: {{ ['b']|map('upper') }}"}, ("template-error", 2)),
    "a carriage return ends a line": ({"site.sls": "\ra: lamp.lit\rb: 5"}, ("id-shape", 3)),
    "also in a template": ({"site.sls": "\ra: lamp.lit\rb: {{ 5 }}"}, ("id-shape", 3)),
    "also when a template makes it": ({"site.sls": "{{ '\\r\\r\\r' }}\nb: 5"}, ("id-shape", 2)),
    "other characters end lines only for YAML": ({"site.sls": "# \x85 \u2028\u2029\nb: 5"}, ("id-shape", 2)),
    "also where a template goes over them": ({"site.sls": "# \x85 \u2028\u2029\n{{ 'b' }}: 5"}, ("id-shape", 2)),
    "a second document that is empty": ({"site.sls": ":}\n---"}, ("yaml-syntax", 2)),
    "text of another template in the middle of a line": (
        {"one.sls": "", "site.sls": "'{% include \"one.sls\" %}': 5"},
        ("id-shape", 1),
    ),
    "JSON with half of a character": ({"site.sls": '#!json\n{"a\\ud800": {"lamp.lit": []}}'}, ("json-syntax", 0)),
    "more loops in loops than Python has": (
        {"site.sls": "{% for a in [1] %}" * 25 + "x" + "{% endfor %}" * 25},
        ("template-error", 0),
    ),
    "an argument with an empty name": ({"site.sls": "a:\n  lamp:\n    - lit\n    - '': 5\n"}, ("argument-shape", 4)),
    "an argument with an empty name in place of the function": (
        {"site.sls": "a:\n  lamp:\n    - ? ''\n"},
        ("argument-shape", 3),
    ),
    "many names that share a large argument": (
        {"site.sls": f"{ARGUMENT}size: &x [{'x,' * 1000}]\n    - color: [{'*x,' * 900}]\n    - names: [{NAMES}]"},
        ("data-size", 2),
    ),
}
"""Description -> the tree, and code and line of its problem (None: it compiles)."""


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    """Return one compiler for all cases."""
    return Bench(tmp_path_factory.mktemp("fuzz") / "states")


@pytest.mark.parametrize("name", FINDS)
def test_a_found_bug_stays_fixed(name, bench, compile_tree):
    """The result is a compilation or a problem with the right line, and the same each time."""
    files, expected = FINDS[name]
    bench.examine({file: text.encode() for file, text in files.items()})

    found = None
    try:
        compile_tree(files)
    except CompileError as error:
        found = error.problems[0].code, error.problems[0].location.line
    assert found == expected


@pytest.mark.parametrize("seed", range(5))
def test_mutated_states_violate_no_property(seed, bench):
    """`scripts/fuzz` runs for longer."""
    trees, rng = corpus(), random.Random(seed)
    for _ in range(60):
        bench.examine(mutate(rng.choice(trees), trees, rng))

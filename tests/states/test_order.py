"""The order of execution is total, respects every requisite, and depends only on the order numbers if they exist."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.states.compile.compiler import Compiler
from holdfast.states.compile.order import LOOPS
from holdfast.states.data import CompilerInputs
from holdfast.states.errors import CompileError
from holdfast.states.requisite_kinds import EARLIER, REQUISITES

FORWARD = tuple(kind for kind in REQUISITES if kind in EARLIER)


def compile_text(text):
    """Compile one file in a directory of its own."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        root.joinpath("site.sls").write_text(text)
        root.joinpath("site.sls").chmod(0o644)
        return Compiler().compile(CompilerInputs(root, trusted_uids=frozenset({os.getuid()})))


def written(states):
    """Return the text of states, given as (ID, order, [(requisite, [IDs])])."""
    lines = []
    for id_, order, requisites in states:
        lines += [f"{id_}:", "  lamp.lit:" + ("" if order is not None or requisites else " []")]
        lines += [f"    - order: {order}"] if order is not None else []
        for kind, targets in requisites:
            lines.append(f"    - {kind}: [{', '.join(f'{{lamp: {target}}}' for target in targets)}]")
    return "\n".join(lines) + "\n"


ORDERS = st.none() | st.integers(-20, 20) | st.sampled_from(["first", "last"])


@st.composite
def trees(draw, kinds=FORWARD, *, acyclic=True):
    """Return random states, each with an order and requisites on earlier IDs (without `acyclic`: on any)."""
    count = draw(st.integers(2, 9))
    ids = draw(st.permutations([f"s{number}" for number in range(count)]))
    states = []
    for index, id_ in enumerate(ids):
        others = ids[:index] if acyclic else ids
        chosen = draw(st.lists(st.sampled_from(kinds), unique=True, max_size=3)) if others else []
        requisites = [
            (kind, draw(st.lists(st.sampled_from(others), min_size=1, max_size=3, unique=True))) for kind in chosen
        ]
        states.append((id_, draw(ORDERS), requisites))
    return draw(st.permutations(states))


@given(trees())
def test_the_order_is_total_and_respects_every_requisite(states):
    """Each call has one position, after those of its targets."""
    calls = compile_text(written(states)).calls
    at = {call.low["__id__"]: call for call in calls}

    assert sorted(at) == sorted(id_ for id_, _, _ in states)
    for id_, _, requisites in states:
        assert {
            kind: {calls[target].low["__id__"] for target in targets} for kind, targets in at[id_].requisites.items()
        } == {kind: set(targets) for kind, targets in requisites}
        assert all(at[target].position < at[id_].position for _, targets in requisites for target in targets)


@given(trees(), st.randoms())
def test_the_order_of_numbered_states_does_not_depend_on_the_file(states, random):
    """If each state has a number, the order of the file has no effect."""
    numbered = [
        (id_, number if order is None else order, requisites)
        for number, (id_, order, requisites) in enumerate(states, 100)
    ]
    shuffled = random.sample(numbered, len(numbered))

    first, second = compile_text(written(numbered)), compile_text(written(shuffled))
    assert [(call.identity, call.requisites) for call in first.calls] == [
        (call.identity, call.requisites) for call in second.calls
    ]


@given(trees())
def test_compiling_twice_gives_the_same_result(states):
    """No set, clock or memory address has an effect."""
    text = written(states)

    assert [(call.identity, call.reason, call.low) for call in compile_text(text).calls] == [
        (call.identity, call.reason, call.low) for call in compile_text(text).calls
    ]


@given(trees(kinds=("require", "watch", "onchanges", "onfail", "listen", "prereq")))
@settings(max_examples=50)
def test_an_in_requisite_equals_the_plain_one_at_the_other_end(states):
    """The requisites are equal and, if all states have numbers, so is the order."""
    numbered = [(id_, index, requisites) for index, (id_, _, requisites) in enumerate(states)]
    plain = [(id_, index, [(kind, targets[:1]) for kind, targets in requisites]) for id_, index, requisites in numbered]
    turned = {id_: (id_, index, []) for id_, index, _ in plain}
    for id_, _, requisites in plain:
        for kind, (target,) in requisites:
            own = dict(turned[target][2])
            own.setdefault(f"{kind}_in", []).append(id_)
            turned[target] = (*turned[target][:2], list(own.items()))

    def outcome(tree):
        try:
            calls = compile_text(written(tree)).calls
        except CompileError as error:
            return {problem.code for problem in error.problems}
        return [(call.identity, {kind: sorted(targets) for kind, targets in call.requisites.items()}) for call in calls]

    assert outcome(plain) == outcome(list(turned.values()))


@given(trees(kinds=FORWARD, acyclic=False))
def test_exactly_the_existing_cycles_are_reported(states):
    """A comparison repeatedly removes states that require nothing."""
    left = {id_: {target for _, targets in requisites for target in targets} for id_, _, requisites in states}
    while free := {id_ for id_, targets in left.items() if not targets & left.keys()}:
        left = {id_: targets for id_, targets in left.items() if id_ not in free}

    if not left:
        assert len(compile_text(written(states)).calls) == len(states)
        return
    with pytest.raises(CompileError) as caught:
        compile_text(written(states))
    for problem in caught.value.problems:
        assert problem.code == "requisite-loop"
        edges = [
            re.split(r" (?:requires|watches|has \w+) ", part.split(" (")[0])
            for part in problem.message.removeprefix("requisites form a cycle: ").split("; ")
        ]
        ids = [edge[0] for edge in edges]
        assert [edge[1] for edge in edges] == ids[1:] + ids[:1]
        assert {id_.removeprefix("lamp.lit[").removesuffix("]") for id_ in ids} <= left.keys()


@given(trees(kinds=REQUISITES, acyclic=False))
def test_prereqs_run_before_their_targets_or_there_is_a_cycle(states):
    """Random states compile to a valid order, or to an error about a cycle."""
    calls, codes = (), {"requisite-loop"}
    try:
        calls = compile_text(written(states)).calls
    except CompileError as error:
        codes = {problem.code for problem in error.problems}
    assert codes == {"requisite-loop"}
    for call in calls:
        for kind, targets in call.requisites.items():
            if kind != "listen":
                assert all((target > call.position) == (kind == "prereq") for target in targets)


WORDS = [
    "a",
    "b",
    ":",
    "lamp.lit",
    "lamp",
    "lit",
    "require",
    "require_in",
    "names",
    "order",
    "include",
    "exclude",
    "extend",
    "use",
    "[",
    "]",
    "{",
    "}",
    "&x",
    "*x",
    "<<",
    "5",
    "~",
    "'",
    '"',
    "#",
    "!",
    "|",
    "sls",
    "site",
]
SNIPPETS = st.lists(
    st.sampled_from([*WORDS, ": ", "\n", "\n  ", "\n    - ", "{{ ", " }}", "{% if a %}", "{% endif %}", "\t", " "]),
    max_size=40,
).map("".join)


@given(SNIPPETS)
@settings(max_examples=300)
def test_no_input_raises_anything_but_compile_error(text):
    """Any text compiles, or has problems with locations."""
    whole = [True]
    try:
        compile_text(text)
    except CompileError as error:
        whole = [bool(problem.location.file and problem.code and problem.message) for problem in error.problems]
    assert whole
    assert all(whole)


@pytest.mark.parametrize("kind", ["require", "require_in", "prereq", "onchanges"])
def test_a_chain_of_twenty_thousand_states_compiles(kind):
    """The compiler has no recursion, so a chain may be of any length."""
    count = 20_000
    text = "".join(
        f"s{number}:\n  lamp.lit:\n    - {kind}: [{{lamp: s{number + 1}}}]\n"
        if number < count - 1
        else f"s{number}: lamp.lit\n"
        for number in range(count)
    )
    order = [call.low["__id__"] for call in compile_text(text).calls]

    forwards = [f"s{number}" for number in range(count)]
    assert order == (forwards if kind in ("require_in", "prereq") else forwards[::-1])


def test_a_cycle_of_twenty_thousand_states_is_reported():
    """The message names all of them."""
    text = "".join(
        f"s{number}:\n  lamp.lit:\n    - require: [{{lamp: s{(number + 1) % 20_000}}}]\n" for number in range(20_000)
    )

    with pytest.raises(CompileError) as caught:
        compile_text(text)
    (problem,) = caught.value.problems
    assert problem.message.count(" requires ") == 20_000


def test_the_number_of_reported_cycles_is_limited():
    """A file that requires itself makes a very large number of cycles."""
    with pytest.raises(CompileError) as caught:
        compile_text("".join(f"s{number}:\n  lamp.lit:\n    - require: [{{lamp: 's*'}}]\n" for number in range(300)))

    assert 0 < len(caught.value.problems) <= LOOPS


@pytest.mark.parametrize("order", ["9" * 400, ".inf", "1.0e+300", "-.inf", "-" + "9" * 400])
def test_names_keep_their_order_with_an_extreme_order_number(order):
    """The state is first or last."""
    calls = compile_text(f"a:\n  lamp.lit:\n    - order: {order}\n    - names: [y, x]\nb: lamp.lit\n").calls

    names = [call.low["name"] for call in calls]
    assert names == (["y", "x", "b"] if order.startswith("-") else ["b", "y", "x"])


def test_the_reason_of_a_position_is_a_number_or_a_requisite():
    """The reason names the state that pulls another one forward."""
    calls = compile_text(
        "a:\n  lamp.lit:\n    - watch: [{bell: b}]\nb: bell.rung\nc:\n  lamp.lit:\n    - order: last\n"
    ).calls

    assert [(call.identity, call.reason) for call in calls] == [
        ("bell.rung[b]", "pulled forward by lamp.lit[a] (watch)"),
        ("lamp.lit[a]", "order 10000"),
        ("lamp.lit[c]", "order 1010100"),
    ]


def test_a_prereq_of_two_dependent_states_comes_before_both():
    """A service stops before its package and its configuration change, without a cycle."""
    calls = compile_text(
        "stop:\n  lamp.lit:\n    - prereq: [pkg, conf]\npkg: lamp.lit\nconf:\n  lamp.lit:\n    - require: [pkg]\n"
    ).calls

    assert [call.low["__id__"] for call in calls] == ["stop", "pkg", "conf"]


def test_thousands_of_requisites_on_one_file_share_their_targets():
    """Requisites of 1 000 states on 1 000 others keep no million of objects."""
    text = "".join(f"a{number}: lamp.lit\n" for number in range(1000))
    more = "".join(f"b{number}:\n  lamp.lit:\n    - require:\n      - lamp: 'a*'\n" for number in range(1000))
    calls = compile_text(text + more).calls

    assert len({id(call.requisites["require"]) for call in calls if call.requisites}) == 1


@pytest.mark.parametrize(
    ("requisite", "words"),
    [("require", "requires"), ("watch", "watches"), ("onchanges", "has onchanges"), ("prereq", "has prereq")],
)
def test_a_cycle_is_reported_with_a_sentence_for_each_edge(requisite, words):
    """Each edge has its line."""
    text = f"a:\n  lamp.lit:\n    - {requisite}: [lamp: b]\nb:\n  lamp.lit:\n    - {requisite}: [lamp: a]\n"
    with pytest.raises(CompileError) as caught:
        compile_text(text)

    assert f"lamp.lit[a] {words} lamp.lit[b] (" in caught.value.problems[0].message

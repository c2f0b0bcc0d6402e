"""What holds for every tree: one order, whatever decides nothing; requisites honoured; loops named.

Equal forms equal.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from holdfast.states.compile.compiler import Compiler
from holdfast.states.data import Request
from holdfast.states.errors import CompileError
from random_trees import FORWARD, TURNABLE, Forest, Link, compiled, essence, forests, on_disk, write

EDGE = re.compile(r"\w+\.\w+\[(\w+)\] (?:(requires|watches)|has (\w+)) \w+\.\w+\[(\w+)\] \((.*?):(\d+):\d+\)")
VERBS = {"requires": "require", "watches": "watch"}
NUMBERED = st.integers(-20, 20)


@given(forests(names=True))
def test_order_is_total_and_every_requisite_is_honoured(forest):
    """Each call has one place; what it has a requisite on (each of its names) has an earlier one."""
    calls = compiled(write(forest).files).calls
    by_id = {state.id: [call for call in calls if call.low["__id__"] == state.id] for state in forest.states}

    assert [call.position for call in calls] == list(range(len(calls)))
    assert [len(by_id[state.id]) for state in forest.states] == [max(1, len(state.names)) for state in forest.states]
    for link in forest.links:
        for call in by_id[link.id]:
            targets = {target.position for target in by_id[link.target]}
            assert targets <= set(call.requisites[link.kind])
            assert max(targets) < call.position


@given(forests(), st.randoms())
def test_order_does_not_depend_on_the_order_of_files_on_disk(forest, random):
    """Neither on that of their creation nor on that in which the system lists them."""
    files = write(forest).files
    expected = essence(compiled(files))
    scandir = os.scandir

    class Shuffled:
        """A listing in another order."""

        def __init__(self, path="."):
            with scandir(path) as found:
                self.entries = list(found)
            random.shuffle(self.entries)

        def __iter__(self):
            return iter(self.entries)

        def __next__(self):
            if not self.entries:
                raise StopIteration
            return self.entries.pop()

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        close = __exit__

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "scandir", Shuffled)
        assert essence(compiled(dict(random.sample(sorted(files.items()), len(files))))) == expected


@given(forests(orders=st.none()), st.randoms())
def test_order_does_not_depend_on_the_order_of_mappings_where_numbers_decide(forest, random):
    """If each state has a number, the order of IDs, arguments, grains and pillar has no effect."""
    numbered = [replace(state, order=number) for number, state in enumerate(forest.states)]
    other = [
        replace(state, arguments=dict(reversed(state.arguments.items())))
        for state in random.sample(numbered, len(numbered))
    ]
    data = {"b": 1, "a": {"d": 1, "c": 2}, "id": "x"}
    turned = {"id": "x", "a": {"c": 2, "d": 1}, "b": 1}
    first = compiled(write(forest.shuffled(numbered)).files, grains=data, pillar=data)
    second = compiled(write(forest.shuffled(other)).files, grains=turned, pillar=turned)

    assert essence(first) == essence(second)


def test_nothing_depends_on_how_python_hashes(tmp_path):
    """The same bytes from processes with different seeds; the text says a lot about names that hash differently."""
    names = ["nginx", "db", "web", "mail", "cron", "dns"]
    text = "".join(
        (
            f"{name}:\n  test.nop:\n    - require:\n      - sls: 'x*'\n"
            f"      - test: '{name[0]}*-dep'\n    - order: {index % 2}\n"
        )
        for index, name in enumerate(names)
    )
    text += "".join(f"{name}-dep:\n  test.nop:\n    - names: [{name}1, {name}2]\n" for name in names)
    text += (
        "{% for key in grains | list + ['a', 'b'] | unique | union(['c', 'a']) %}\n"
        "'{{ key }}': test.nop\n{% endfor %}\n"
    )
    (tmp_path / "x1.sls").write_text("x: test.nop\n")
    (tmp_path / "site.sls").write_text("include: [x1]\n" + text)
    (tmp_path / "grains").write_text("{id: h, os: Debian, roles: [a, b], zeta: 1, alpha: 2}")
    tmp_path.chmod(0o755)
    code = "import sys; from holdfast.agent.cli.main import main; main(sys.argv[1:])"

    def shown(seed, what):
        words = ("show", what, "--states", tmp_path, "--grains", tmp_path / "grains", "--format", "json")
        done = subprocess.run(
            [sys.executable, "-c", code, *map(str, words)],
            capture_output=True,
            check=False,
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    for what in ("low", "order"):
        assert len({shown(seed, what) for seed in (0, 42)}) == 1


@given(forests(kinds=FORWARD), st.data())
def test_loop_put_into_a_good_tree_is_found_and_each_of_its_edges_is_named(forest, data):
    """With kind, file and line of each edge; each reported cycle contains the added edge."""
    assume(forest.links)
    path = [data.draw(st.sampled_from(forest.links))]
    while following := [link for link in forest.links if link.id == path[-1].target]:
        path.append(data.draw(st.sampled_from(following)))
        if data.draw(st.booleans()):
            break
    closing = Link(path[-1].target, data.draw(st.sampled_from(["require", "watch", "onchanges"])), path[0].id)
    assume(closing not in forest.links)
    compiled(write(forest).files)  # the tree without it is never accused
    written = write(replace(forest, links=(*forest.links, closing)))

    with pytest.raises(CompileError) as caught:
        compiled(written.files)
    for problem in caught.value.problems:
        assert problem.code == "requisite-loop"
        found = [
            (Link(match[1], VERBS.get(match[2], match[3]), match[4]), match[5], int(match[6]))
            for match in EDGE.finditer(problem.message)
        ]
        links = [link for link, _, _ in found]
        assert problem.message.count(";") == len(links) - 1
        assert [link.target for link in links] == [link.id for link in (*links[1:], links[0])]
        assert any((link.id, link.target) == (closing.id, closing.target) for link in links)
        for link, file, line in found:
            name, expected = written.places[link]
            assert (file.endswith("/" + name), line) == (True, expected)


@given(forests(kinds=TURNABLE, orders=NUMBERED), st.data())
def test_in_forms_equal_their_plain_forms(forest, data):
    """Requisites at either end are equivalent, except for low data that shows where they are written."""
    turned = frozenset(data.draw(st.sets(st.sampled_from(forest.links)))) if forest.links else frozenset()

    def told(tree: Forest):
        calls = compiled(write(tree).files).calls
        names = [call.low["__id__"] for call in calls]
        plain = [
            {
                key: {*map(str, value)} if key in TURNABLE else value
                for key, value in call.low.items()
                if not key.endswith("_in") and key not in ("listen", "prerequired")
            }
            for call in calls
        ]
        requisites = {
            call.low["__id__"]: {
                kind: {names[target] for target in targets} for kind, targets in call.requisites.items()
            }
            for call in calls
        }
        return sorted(plain, key=lambda low: low["__id__"]), requisites

    assert told(replace(forest, turned=turned)) == told(forest)


@given(forests(), st.data())
def test_compiling_again_after_any_edit_equals_compiling_anew(forest, data):
    """What a compiler keeps of other trees never shows: not after an edit, a removal, or the way back."""
    versions = [forest, forest.shuffled(data.draw(st.permutations(forest.states))), data.draw(forests()), forest]
    kept = Compiler()
    with on_disk({}) as root:
        for version in versions:
            for path in root.rglob("*.sls"):
                path.unlink()
            for name, text in write(version).files.items():
                path = root / name
                path.parent.mkdir(exist_ok=True, mode=0o755)
                path.write_text(text)
                path.chmod(0o644)
            asked = Request(root, trusted_uids=frozenset({os.getuid()}))
            assert essence(kept.compile(asked)) == essence(Compiler().compile(asked))


PIECES = [
    "x{{ n }}",
    "{{ n * 3 }}",
    "{% if n > 1 %}y{% endif %}",
    "\n",
    "  ",
    "{{ grains.a | json }}",
    "{{ m(n) }}",
    "{# no #}",
    "{{ d | yaml }}",
    "é",
]


@given(st.lists(st.sampled_from(PIECES), max_size=12), st.permutations(["a", "b", "c", "d"]))
def test_rendering_twice_gives_the_same_text(pieces, keys):
    """And the same data, whatever order sets and mappings of the host have had."""
    from holdfast.states.template.jinja import render_text

    body = "".join(pieces)
    text = (
        "{% macro m(n) %}<{{ n }}>{% endmacro %}{% set d = {'q': 1, 'p': [2]} %}"
        "{% for n in range(4) %}"
        + body
        + "{% endfor %}{{ grains | dictsort | json }}{{ grains.keys() | sort | join(',') }}"
    )

    def rendered(order):
        return render_text(text, name="x", variables={}, grains={key: {"v": [key]} for key in order}, pillar={})

    assert rendered(keys) == rendered(keys) == rendered(sorted(keys))


@given(forests(orders=st.none()), st.data())
def test_extension_equals_writing_it_in_place(forest, data):
    """An argument that another file lays over a state is the argument."""
    state = data.draw(st.sampled_from(forest.states))
    extension = f"extend:\n  {state.id}:\n    {state.type}:\n      - size: 77\n"
    direct = [
        replace(each, arguments={**each.arguments, "size": 77}) if each is state else each for each in forest.states
    ]

    laid = compiled({**write(forest).files, "z.sls": extension})
    assert essence(laid) == essence(compiled(write(forest.shuffled(direct)).files))


@given(forests(), st.data())
def test_excluded_state_is_as_if_it_had_not_been_written(forest, data):
    """Where nothing names it: the others keep their order, their data and their requisites."""
    named = {link.target for link in forest.links}
    free = [state for state in forest.states if state.id not in named]
    gone = data.draw(st.sampled_from(free))
    others = replace(
        forest,
        states=tuple(state for state in forest.states if state is not gone),
        links=tuple(link for link in forest.links if link.id != gone.id),
    )
    assume(others.states)
    files = write(forest).files

    with_it = compiled({**files, "z.sls": f"exclude:\n  - id: {gone.id}\n"})
    without = compiled(write(others).files)
    assert [(call.identity, call.requisites) for call in with_it.calls] == [
        (call.identity, call.requisites) for call in without.calls
    ]


@given(forests(kinds=("require",), orders=NUMBERED), st.data())
def test_use_means_the_same_from_either_end_and_takes_over_only_what_is_not_there(forest, data):
    """`use` here is `use_in` there: arguments that the user does not have, no requisites, no order."""
    source, user = data.draw(
        st.lists(st.sampled_from(forest.states), min_size=2, max_size=2, unique_by=lambda state: state.id)
    )
    plain = {call.low["__id__"]: call.low for call in compiled(write(forest).files).calls}

    def with_use(at, key, other):
        arguments = {**at.arguments, key: f"[{{{other.type}: {other.id}}}]"}
        states = [replace(state, arguments=arguments) if state is at else state for state in forest.states]
        calls = compiled(write(forest.shuffled(states)).files).calls
        return {
            call.low["__id__"]: {key: value for key, value in call.low.items() if key not in ("use", "use_in")}
            for call in calls
        }

    taken = {key: value for key, value in plain[source.id].items() if key in source.arguments}
    expected = {**plain, user.id: {**taken, **plain[user.id]}}
    assert with_use(user, "use", source) == expected
    assert with_use(source, "use_in", user) == expected


@given(forests(), st.lists(st.sampled_from(["a", "b.c", "d"]), max_size=4), st.booleans())
def test_includes_load_each_file_once(forest, includes, loop):
    """Including what is there already, twice, or in a loop changes neither the states nor their requisites."""
    files = dict(write(forest).files)
    present = [name for name in includes if name.replace(".", "/") + ".sls" in files]
    files["z.sls"] = f"include: [{', '.join([*present, *(['z', 'y'] if loop else [])])}]\n"
    files["y.sls"] = f"include: [{'z' if loop else ''}]\n"

    assert essence(compiled(files)) == essence(compiled(write(forest).files))


MISTAKES = {
    "unknown-argument": lambda state: (
        replace(state, type="crate", function="packed", arguments={"user": "u", "zzz": 1}),
        "zzz",
    ),
    "unknown-function": lambda state: (replace(state, function="zzz"), "zzz"),
    "unknown-state": lambda state: (replace(state, type="zzz"), "zzz"),
    "requisite-missing": lambda state: (replace(state, arguments={"require": "[{lamp: zzz}]"}), "zzz"),
    "requisite-shape": lambda state: (replace(state, arguments={"require": "{lamp: zzz}"}), "require"),
    "names-shape": lambda state: (replace(state, arguments={"names": "zzz"}), "names"),
    "function-missing": lambda state: (replace(state, type="lamp", function="lit: []\n  bell"), "bell"),
    "argument-repeated": lambda state: (replace(state, arguments={"size": "1\n    - size: zzz"}), "zzz"),
    "duplicate-key": lambda state: (replace(state, arguments={"size": "{x: 1, x: zzz}"}), "zzz"),
    "id-shape": lambda state: (replace(state, function="rung: []\nzzz"), "zzz"),
    "sls-missing": lambda state: (
        replace(state, function="rung: []\ninclude: [zzz]\n" + state.id + "2:\n  lamp.lit"),
        "zzz",
    ),
    "template-undefined": lambda state: (replace(state, arguments={"size": "{{ zzz }}"}), "zzz"),
    "yaml-alias": lambda state: (replace(state, arguments={"size": "*zzz"}), "zzz"),
}
"""Code -> puts one mistake into a state; returns it, and a word of its line."""


@pytest.mark.parametrize("code", MISTAKES)
@given(forest=forests(kinds=("onchanges",)), data=st.data())
@settings(max_examples=20)
def test_mistake_in_a_good_tree_is_told_at_a_line_that_has_it(code, forest, data):
    """Whatever is around it; no problem is reported anywhere else."""
    at = data.draw(st.sampled_from(forest.states))
    broken, word = MISTAKES[code](replace(at, order=None))
    links = tuple(link for link in forest.links if at.id not in (link.id, link.target))
    files = write(
        replace(forest, states=tuple(broken if state is at else state for state in forest.states), links=links)
    ).files

    with on_disk(files) as root:
        with pytest.raises(CompileError) as caught:
            Compiler().compile(Request(root, trusted_uids=frozenset({os.getuid()})))
        (problem,) = {
            problem.location.line: problem for problem in caught.value.problems if problem.code == code
        }.values()
        line = Path(problem.location.file).read_text().split("\n")[problem.location.line - 1]
    assert problem.text == line
    assert word in line

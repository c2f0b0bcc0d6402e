"""Properties of every tree: one order, no accidental influence, respected requisites, reported cycles.

Equivalent forms give equal results.
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
from holdfast.states.data import CompilerInputs
from holdfast.states.errors import CompileError
from random_trees import FORWARD, TURNABLE, Forest, Link, compiled, essence, forests, on_disk, write

EDGE = re.compile(r"\w+\.\w+\[(\w+)\] (?:(requires|watches)|has (\w+)) \w+\.\w+\[(\w+)\] \((.*?):(\d+):\d+\)")
VERBS = {"requires": "require", "watches": "watch"}
NUMBERED = st.integers(-20, 20)


@given(forests(names=True))
def test_the_order_is_total_and_every_requisite_is_respected(forest):
    """Each call has one position, after those of its targets (all names of each)."""
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
def test_the_order_does_not_depend_on_the_order_of_files_on_disk(forest, random):
    """Neither the order of creation nor that of a listing has an effect."""
    files = write(forest).files
    expected = essence(compiled(files))
    scandir = os.scandir

    class Shuffled:
        """A listing in a random order."""

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
def test_the_order_of_numbered_states_does_not_depend_on_mappings(forest, random):
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


def test_nothing_depends_on_the_seed_of_hashes(tmp_path):
    """Processes with different seeds print the same bytes. The text has many names with different hashes."""
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
def test_an_added_cycle_is_reported_with_each_of_its_edges(forest, data):
    """An edge has its kind, file and line; each reported cycle contains the added edge."""
    assume(forest.links)
    path = [data.draw(st.sampled_from(forest.links))]
    while following := [link for link in forest.links if link.id == path[-1].target]:
        path.append(data.draw(st.sampled_from(following)))
        if data.draw(st.booleans()):
            break
    closing = Link(path[-1].target, data.draw(st.sampled_from(["require", "watch", "onchanges"])), path[0].id)
    assume(closing not in forest.links)
    compiled(write(forest).files)  # without the added edge, there is no error
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
def test_a_used_compiler_equals_a_new_one_after_any_edit(forest, data):
    """Caches have no effect after an edit, a removal, or a return to the first version."""
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
            asked = CompilerInputs(root, trusted_uids=frozenset({os.getuid()}))
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
    """The order of mappings of the host has no effect."""
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
def test_an_extension_equals_the_argument_in_place(forest, data):
    """An argument of `extend` is an argument of the state."""
    state = data.draw(st.sampled_from(forest.states))
    extension = f"extend:\n  {state.id}:\n    {state.type}:\n      - size: 77\n"
    direct = [
        replace(each, arguments={**each.arguments, "size": 77}) if each is state else each for each in forest.states
    ]

    laid = compiled({**write(forest).files, "z.sls": extension})
    assert essence(laid) == essence(compiled(write(forest.shuffled(direct)).files))


@given(forests(), st.data())
def test_excluding_a_state_equals_removing_it(forest, data):
    """No other state names the state. The others keep their order, data and requisites."""
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
def test_use_equals_use_in_and_adds_only_missing_arguments(forest, data):
    """Neither adds requisites or an order."""
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
    """Including a file again or in a cycle changes neither states nor requisites."""
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
"""Code -> a function that adds one mistake to a state, and returns the state and a word of the wrong line."""


@pytest.mark.parametrize("code", MISTAKES)
@given(forest=forests(kinds=("onchanges",)), data=st.data())
@settings(max_examples=20)
def test_a_mistake_in_a_valid_tree_is_reported_at_its_line(code, forest, data):
    """No problem of this type is reported anywhere else."""
    at = data.draw(st.sampled_from(forest.states))
    broken, word = MISTAKES[code](replace(at, order=None))
    links = tuple(link for link in forest.links if at.id not in (link.id, link.target))
    files = write(
        replace(forest, states=tuple(broken if state is at else state for state in forest.states), links=links)
    ).files

    with on_disk(files) as root:
        with pytest.raises(CompileError) as caught:
            Compiler().compile(CompilerInputs(root, trusted_uids=frozenset({os.getuid()})))
        (problem,) = {
            problem.location.line: problem for problem in caught.value.problems if problem.code == code
        }.values()
        line = Path(problem.location.file).read_text().split("\n")[problem.location.line - 1]
    assert problem.text == line
    assert word in line

"""The pillar: files of one directory, merged for one host, their secrets kept to themselves."""

from __future__ import annotations

import os

import pytest

from holdfast.states.data import Request
from holdfast.states.declare.pillar import PillarCompiler, compile_pillar
from holdfast.states.errors import CompileError


@pytest.fixture
def pillar(tmp_path):
    """Compile a mapping of file names to texts."""

    def run(files, **more):
        root = tmp_path / "pillar"
        root.mkdir(exist_ok=True)
        for name, text in files.items():
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_text(text)
            (root / name).chmod(0o600)
        values = {"grains": {"os": "Debian"}, "minion_id": "web1", "trusted_uids": frozenset({os.getuid()})} | more
        return compile_pillar(root, Request(tmp_path, **values))

    return run


def test_without_top_file_every_file_is_merged_in_sorted_order(pillar):
    """Later over earlier, mapping by mapping; lists replace each other; `_` files are left out."""
    files = {"a.sls": "x: {p: 1, q: 1}\nl: [1]\n", "b.sls": "x: {q: 2}\nl: [2]\n", "_c.sls": "x: 5\n"}

    assert pillar(files).data == {"x": {"p": 1, "q": 2}, "l": [2]}


def test_with_top_file_only_what_it_gives(pillar):
    """For this host."""
    files = {"top.sls": "base:\n  'web*': [a]\n  'db*': [b]\n", "a.sls": "x: 1\n", "b.sls": "y: 2\n"}

    assert pillar(files).data == {"x": 1}


def test_templates_see_grains_and_the_pillar_given(pillar):
    """What the caller gives wins over files."""
    result = pillar({"a.sls": "x: {{ grains.os }}\ny: {{ pillar.k }}\nk: file\n"}, pillar={"k": "given"})

    assert result.data == {"x": "Debian", "y": "given", "k": "given"}
    assert [source.path.name for source in result.sources] == ["a.sls"]


def test_included_files_come_before_the_file_and_only_once(pillar):
    """Relative names too, and loops are harmless."""
    files = {
        "top.sls": "base:\n  '*': [d]\n",
        "d/init.sls": "include: [.x]\nv: own\n",
        "d/x.sls": "include: [d]\nv: included\nw: 1\n",
    }

    assert pillar(files).data == {"v": "own", "w": 1}


def test_all_mistakes_are_reported_and_no_line_is_shown(pillar):
    """Pillar files hold secrets, and logs do not."""
    files = {
        "a.sls": "password: hunter2: x\n",
        "b.sls": "- hunter2\n",
        "c.sls": "{{ nope }} hunter2\n",
        "d.sls": "include: [nope]\n",
    }
    with pytest.raises(CompileError) as caught:
        pillar(files)

    assert [problem.code for problem in caught.value.problems] == [
        "yaml-syntax",
        "sls-shape",
        "template-undefined",
        "sls-missing",
    ]
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "password: *hunter2",
        "password: !hunter2 x",
        "password: !!int hunter2",
        "hunter2",
        "{{ 'hunter2' | load_json }}",
        "{{ 'hunter2' | to_num }}",
        "{{ 'a: *hunter2' | load_yaml }}",
    ],
)
def test_no_message_quotes_a_secret(pillar, text):
    """Neither its line nor a word of it."""
    with pytest.raises(CompileError) as caught:
        pillar({"a.sls": text})

    assert "hunter2" not in str(caught.value)


def test_missing_directory_is_an_empty_pillar(tmp_path):
    """A pillar is not required."""
    assert PillarCompiler(tmp_path / "nowhere").compile(Request(tmp_path)).data == {}


def test_broken_top_file_is_an_error(pillar):
    """As with states."""
    with pytest.raises(CompileError) as caught:
        pillar({"top.sls": "base: 5\n"})

    assert caught.value.problems[0].code == "top-shape"


BOTH = {"a.sls": "l: [1, 2]\nd: {x: 1, y: {p: 1}}\ns: 1\n", "b.sls": "l: [2, 3]\nd: {y: {q: 2}, w: 5}\ns: 2\nt: 3\n"}
DEEP = {"x": 1, "y": {"p": 1, "q": 2}, "w": 5}


@pytest.mark.parametrize(
    ("strategy", "lists", "data"),
    [
        ("smart", False, {"l": [2, 3], "d": DEEP, "s": 2, "t": 3}),
        ("recurse", True, {"l": [1, 2, 3], "d": DEEP, "s": 2, "t": 3}),
        ("none", True, {"l": [2, 3], "d": DEEP, "s": 2, "t": 3}),
        ("overwrite", False, {"l": [2, 3], "d": {"y": {"q": 2}, "w": 5}, "s": 2, "t": 3}),
        ("aggregate", True, {"l": [2, 3], "d": {"y": {"q": 2}, "w": 5}, "s": 2, "t": 3}),
        (
            "list",
            False,
            {"l": [[1, 2], [2, 3]], "d": [{"x": 1, "y": {"p": 1}}, {"y": {"q": 2}, "w": 5}], "s": [1, 2], "t": 3},
        ),
    ],
)
def test_settings_say_how_files_are_merged(pillar, strategy, lists, data):
    """As in Salt, except for `list`, with which Salt loses data that only one file has."""
    options = {"pillar_source_merging_strategy": strategy, "pillar_merge_lists": lists}

    assert pillar(BOTH, options=options).data == data


@pytest.mark.parametrize(
    ("include", "data"),
    [
        ("- c:\n    key: k1:k2\n", {"k1": {"k2": {"name": "you"}}, "own": 1}),
        ("- c:\n    key: users\n    defaults: {who: me}\n", {"users": {"name": "me"}, "own": 1}),
        ("- c:\n    defaults: {who: me}\n", {"name": "me", "own": 1}),
        ("- c:\n", {"name": "you", "own": 1}),
        ("- c:\n- base: d\n", {"name": "you", "d": 1, "own": 1}),
    ],
)
def test_included_data_may_get_keys_and_variables(pillar, include, data):
    """`key` puts them below, `defaults` are variables of the template."""
    files = {
        "top.sls": "base:\n  '*': [a]\n",
        "a.sls": f"include:\n{include}own: 1\n",
        "c.sls": "name: {{ who | default('you') }}\n",
        "d.sls": "d: 1\n",
    }

    assert pillar(files).data == data


def test_what_is_included_twice_counts_at_both_places(pillar):
    """As in Salt: the second time it is laid upon what the first file says."""
    files = {
        "top.sls": "base:\n  '*': [a, b]\n",
        "a.sls": "include: [c]\ns: 1\n",
        "b.sls": "include: [c]\nt: 1\n",
        "c.sls": "s: 5\nt: 5\n",
    }

    assert pillar(files).data == {"s": 5, "t": 1}


@pytest.mark.parametrize("options", ["{key: 5}", "{defaults: [1]}", "{kex: a}"])
def test_include_with_wrong_options_is_an_error(pillar, options):
    """It says what there is."""
    with pytest.raises(CompileError) as caught:
        pillar({"a.sls": f"include:\n- b: {options}\n", "b.sls": ""})

    assert [problem.code for problem in caught.value.problems] == ["include-shape"]
    assert "defaults" in caught.value.problems[0].hint

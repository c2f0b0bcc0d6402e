"""The pillar consists of files of one directory, merged for one host. Errors never show its secrets."""

from __future__ import annotations

import os

import pytest

from holdfast.states.data import CompilerInputs
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
        return compile_pillar(root, CompilerInputs(tmp_path, **values))

    return run


def test_without_top_file_every_file_is_merged_in_sorted_order(pillar):
    """Later files take precedence within mappings; lists replace each other; files with `_` are left out."""
    files = {"a.sls": "x: {p: 1, q: 1}\nl: [1]\n", "b.sls": "x: {q: 2}\nl: [2]\n", "_c.sls": "x: 5\n"}

    assert pillar(files).data == {"x": {"p": 1, "q": 2}, "l": [2]}


def test_with_a_top_file_only_its_files_apply(pillar):
    """Only the targets that match this host count."""
    files = {"top.sls": "base:\n  'web*': [a]\n  'db*': [b]\n", "a.sls": "x: 1\n", "b.sls": "y: 2\n"}

    assert pillar(files).data == {"x": 1}


def test_templates_see_grains_and_the_given_pillar(pillar):
    """The given pillar takes precedence over files."""
    result = pillar({"a.sls": "x: {{ grains.os }}\ny: {{ pillar.k }}\nk: file\n"}, pillar={"k": "given"})

    assert result.data == {"x": "Debian", "y": "given", "k": "given"}
    assert [source.path.name for source in result.sources] == ["a.sls"]


def test_included_files_come_before_the_file_and_only_once(pillar):
    """Names may be relative, and cycles of includes are harmless."""
    files = {
        "top.sls": "base:\n  '*': [d]\n",
        "d/init.sls": "include: [.x]\nv: own\n",
        "d/x.sls": "include: [d]\nv: included\nw: 1\n",
    }

    assert pillar(files).data == {"v": "own", "w": 1}


def test_all_mistakes_are_reported_and_no_line_is_shown(pillar):
    """Pillar files contain secrets, which must not reach a log."""
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
    """Neither the line nor a word of it is shown."""
    with pytest.raises(CompileError) as caught:
        pillar({"a.sls": text})

    assert "hunter2" not in str(caught.value)


def test_a_missing_directory_is_an_empty_pillar(tmp_path):
    """A pillar is optional."""
    assert PillarCompiler(tmp_path / "nowhere").compile(CompilerInputs(tmp_path)).data == {}


def test_an_invalid_top_file_is_an_error(pillar):
    """The checks are those of the top file of states."""
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
def test_settings_select_how_files_are_merged(pillar, strategy, lists, data):
    """The result is that of Salt, except for `list`, with which Salt loses data that only one file has."""
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
def test_an_include_may_have_a_key_and_variables(pillar, include, data):
    """`key` nests the data below a key; `defaults` are variables of the template."""
    files = {
        "top.sls": "base:\n  '*': [a]\n",
        "a.sls": f"include:\n{include}own: 1\n",
        "c.sls": "name: {{ who | default('you') }}\n",
        "d.sls": "d: 1\n",
    }

    assert pillar(files).data == data


def test_a_file_that_is_included_twice_is_merged_twice(pillar):
    """The second time, it takes precedence over the first file, as in Salt."""
    files = {
        "top.sls": "base:\n  '*': [a, b]\n",
        "a.sls": "include: [c]\ns: 1\n",
        "b.sls": "include: [c]\nt: 1\n",
        "c.sls": "s: 5\nt: 5\n",
    }

    assert pillar(files).data == {"s": 5, "t": 1}


@pytest.mark.parametrize("options", ["{key: 5}", "{defaults: [1]}", "{kex: a}"])
def test_an_include_with_wrong_options_is_an_error(pillar, options):
    """The hint names the options."""
    with pytest.raises(CompileError) as caught:
        pillar({"a.sls": f"include:\n- b: {options}\n", "b.sls": ""})

    assert [problem.code for problem in caught.value.problems] == ["include-shape"]
    assert "defaults" in caught.value.problems[0].hint

"""Unusual entries of a states directory give a compilation or problems, in limited time."""

from __future__ import annotations

import os
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.states.compile.compiler import Compiler
from holdfast.states.data import CompilerInputs
from holdfast.states.errors import CompileError
from random_trees import compiled

DEPTHS = (99, 101, 1_000, 100_000)


def result(root, *sls):
    """Return the IDs of a directory, or the codes of its problems."""
    try:
        calls = Compiler().compile(CompilerInputs(root, sls, trusted_uids=frozenset({os.getuid()}))).calls
    except CompileError as error:
        str(error).encode("utf-8", "backslashreplace")
        return sorted({problem.code for problem in error.problems})
    return [call.low["__id__"] for call in calls]


@pytest.fixture
def root(tmp_path):
    """Return a directory with one file, which imports `m`."""
    directory = tmp_path / "states"
    directory.mkdir(mode=0o755)
    (directory / "site.sls").write_text("{% import 'm' as m %}\na: lamp.lit\n")
    return directory


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (os.mkfifo, "template-data"),
        (os.mkdir, "template-data"),
        (lambda path: path.symlink_to("m"), "template-missing"),
        (lambda path: path.symlink_to("/dev/zero"), "template-data"),
    ],
    ids=["fifo", "directory", "link to itself", "device"],
)
def test_an_imported_template_that_is_not_a_file_is_a_problem(root, make, code):
    """The compiler neither waits for it nor reads without end."""
    make(root / "m")

    assert result(root) == [code]


def test_a_directory_named_like_a_state_file_is_a_directory(root):
    """The name of its files contains a dot."""
    (root / "m").write_text("")
    (root / "x.sls").mkdir(mode=0o755)
    (root / "x.sls/y.sls").write_text("b: lamp.lit\n")

    assert result(root) == ["a", "b"]
    assert result(root, "x") == ["source-unreadable"]
    assert result(root, "x.sls.y") == ["b"]


def test_an_error_while_a_file_is_read_is_a_problem(root):
    """A disk may have an error in the middle of a file. The memory of a process fails at its start."""
    (root / "m").write_text("")
    (root / "x.sls").symlink_to("/proc/self/mem")

    assert result(root) == ["source-unreadable"]


def test_a_link_to_the_directory_itself_is_not_followed_without_end(root):
    """Each file is found once, and by a longer name only on request."""
    (root / "m").write_text("")
    (root / "self").symlink_to(".")

    assert result(root) == ["a"]
    assert result(root, ".".join(["self"] * 30) + ".site") == ["a"]
    assert result(root, ".".join(["self"] * 3000) + ".site") == ["sls-missing"]


@pytest.mark.parametrize(
    "name",
    [
        "a\nb",
        "a b",
        "*",
        "[",
        "'",
        '"',
        "é",
        "\x1b[31m",
        "",
        ".",
        "a..b",
        "init",
        "\u202e",
        "\\",
        "a:b",
        "{{ x }}",
        "#",
        "x" * 250,
    ],
)
def test_a_file_of_any_name_compiles_or_is_a_problem(root, name):
    """A glob includes the file, too."""
    (root / "m").write_text("")
    (root / f"{name}.sls").write_text("b: lamp.lit\n")
    (root / "z.sls").write_text("include: ['*']\nz: lamp.lit\n")

    assert {"a", "z"} <= set(result(root))


@pytest.mark.parametrize(
    "name", ["x" * 5000, "a\\0b", "/", "/etc/passwd", "../../etc/passwd", ".." * 500, "a/b", "a.", ".", "", "\\ud800"]
)
def test_an_impossible_name_is_a_problem(root, name):
    """The name is that of an import or an include."""
    (root / "m").write_text("")
    for text in (f'{{% import "{name}" as x %}}', f'{{% include "{name}" %}}', f'include: ["{name}"]'):
        (root / "site.sls").write_text(text)

        (code,) = result(root)
        assert code in {
            "template-missing",
            "template-data",
            "sls-missing",
            "include-outside",
            "include-shape",
            "yaml-syntax",
        }


@given(st.binary(max_size=300))
@settings(max_examples=200)
def test_any_bytes_compile_or_are_problems(tmp_path_factory, content):
    """The bytes need not be text."""
    directory = tmp_path_factory.mktemp("bytes")
    (directory / "site.sls").write_bytes(content)

    assert isinstance(result(directory), list)


@given(
    st.text(alphabet=st.characters(exclude_categories=()), max_size=40),
    st.sampled_from(["{}: lamp.lit", "a: {{lamp.lit: [{{color: {}}}]}}", '"{}": lamp.lit', "{{{{ {} }}}}"]),
)
@settings(max_examples=200)
def test_any_characters_compile_or_are_problems(tmp_path_factory, text, form):
    """The characters are in an ID, a value or a template."""
    directory = tmp_path_factory.mktemp("text")
    (directory / "site.sls").write_text(form.format(text), errors="replace")

    assert isinstance(result(directory), list)


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize(
    "form",
    [
        "a:\n  lamp.lit:\n    - size: {0}{1}",
        '#!json\n{{"a": {0}{1}}}',
        "a:\n  lamp.lit:\n    - size: {{{{ {0}{1} | json }}}}",
        "{2}x{3}",
        "a:\n  lamp.lit:\n    - size: {{{{ '{0}{1}' | load_json | length }}}}",
        "a:\n  lamp.lit:\n    - size: {{{{ '{0}{1}' | load_yaml | length }}}}",
        "{{{{ {4}1 }}}}: lamp.lit",
    ],
    ids=["yaml", "json", "jinja list", "jinja if", "load_json", "load_yaml", "not"],
)
def test_nesting_of_any_depth_compiles_or_is_a_problem(form, depth):
    """The nesting is in YAML, JSON or Jinja, or in data that a template parses."""
    text = form.format("[" * depth, "]" * depth, "{% if true %}" * depth, "{% endif %}" * depth, "not " * depth)
    try:
        compiled({"site.sls": text})
    except CompileError as error:
        (problem,) = error.problems
        assert "Error" not in problem.message


@pytest.mark.parametrize(
    "files",
    [
        {"site.sls": "{% include 'site.sls' %}"},
        {"site.sls": "{% import 'site.sls' as x %}"},
        {"site.sls": "{% extends 'site.sls' %}"},
        {"site.sls": "{% from 'm' import x %}", "m": "{% from 'n' import x %}", "n": "{% from 'm' import x %}"},
        {"site.sls": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"},
        {"site.sls": "{% import_yaml 'site.sls' as x %}"},
    ],
    ids=["include", "import", "extends", "ring", "macro", "import_yaml"],
)
def test_a_template_that_contains_itself_is_a_problem(files):
    """The problem has a line of the file."""
    with pytest.raises(CompileError) as caught:
        compiled(files, "site")

    (problem,) = caught.value.problems
    assert (problem.code, problem.location.line) == ("template-error", 1)


@pytest.mark.parametrize("anchors", [3, 9, 40])
def test_aliases_cannot_expand_to_a_billion_values(anchors):
    """Each line contains the previous one nine times."""
    names = [f"x{number}" for number in range(anchors)]
    text = "x0: &x0 [y]\n" + "".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in pairwise(names))
    with pytest.raises(CompileError) as caught:
        compiled({"site.sls": text})

    assert {problem.code for problem in caught.value.problems} == ({"id-shape"} if anchors == 3 else {"yaml-alias"})


def test_merge_keys_cannot_expand_to_a_billion_values():
    """A mapping is merged into itself by way of others."""
    text = "x0: &x0 {k0: 1}\n" + "".join(
        f"x{n}: &x{n} {{<<: [{', '.join([f'*x{n - 1}'] * 50)}], k{n}: [{', '.join([f'*x{n - 1}'] * 50)}]}}\n"
        for n in range(1, 40)
    )
    with pytest.raises(CompileError) as caught:
        compiled({"site.sls": text})

    assert {problem.code for problem in caught.value.problems} == {"yaml-alias"}

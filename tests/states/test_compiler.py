"""The tests of the whole compiler: caches, problems and speed."""

from __future__ import annotations

import gc
import os

import pytest
import yaml

from effort import effort
from holdfast.states.compile.compiler import Compiler
from holdfast.states.data import CompilerInputs
from holdfast.states.errors import CompileError
from holdfast.states.parse.marks import Document

ME = frozenset({os.getuid()})
FILES = {
    "plain.sls": "a: lamp.lit\n",
    "made.sls": "{% from 'lib.jinja' import word %}\nb:\n  lamp.lit:\n    - color: {{ word }} {{ grains.os }}\n",
    "lib.jinja": "{% set word = 'one' %}",
}


@pytest.fixture
def tree(tmp_path):
    """Return a directory with a plain file, a template, and a file that the template imports."""
    root = tmp_path / "tree"
    root.mkdir(mode=0o755)
    for name, text in FILES.items():
        change(root, name, text)
    return root


def change(root, name, text):
    """Write one file."""
    (root / name).write_text(text)
    (root / name).chmod(0o644)


def colors(compilation):
    """Return the values that the template made."""
    return [call.low["color"] for call in compilation.calls if "color" in call.low]


def test_unchanged_files_are_not_rendered_again(tree):
    """A change of a file renders that file, and one of an import all its importers.

    A change of the grains renders each template that reads them.
    """
    compiler = Compiler()

    def renders(**grains):
        before = compiler.renders
        made = colors(compiler.compile(CompilerInputs(tree, grains={"os": "Debian", **grains}, trusted_uids=ME)))
        return compiler.renders - before, made

    assert renders() == (2, ["one Debian"])
    assert renders() == (0, ["one Debian"])
    change(tree, "plain.sls", "a2: lamp.lit\n")
    assert renders() == (1, ["one Debian"])
    change(tree, "lib.jinja", "{% set word = 'two' %}")
    assert renders() == (1, ["two Debian"])
    assert renders(os="Fedora") == (1, ["two Fedora"])


def test_a_template_that_reads_the_machine_is_rendered_each_time(tree, tmp_path):
    """The result of `file.file_exists` may change without a change of any file of the states."""
    change(tree, "plain.sls", f"a:\n  lamp.lit:\n    - color: {{{{ salt['file.file_exists']('{tmp_path}/flag') }}}}\n")
    compiler = Compiler()
    request = CompilerInputs(tree, ("plain",), trusted_uids=ME)

    assert colors(compiler.compile(request)) == [False]
    (tmp_path / "flag").touch()
    assert colors(compiler.compile(request)) == [True]


def test_a_new_template_is_noticed(tree):
    """`ignore missing` depends on a file that does not exist yet."""
    change(tree, "plain.sls", "{% include 'more.jinja' ignore missing %}\na: lamp.lit\n")
    compiler = Compiler()
    request = CompilerInputs(tree, ("plain",), trusted_uids=ME)

    assert len(compiler.compile(request).calls) == 1
    change(tree, "more.jinja", "z: lamp.lit\n")
    assert len(compiler.compile(request).calls) == 2


def test_a_change_of_an_indirect_import_is_noticed_by_every_file(tree):
    """The template in between is unchanged, but its result is not."""
    between = "{% import 'word.jinja' as words %}{% set word = words.word %}"
    change(tree, "between.jinja", between)
    change(tree, "word.jinja", "{% set word = 'one' %}")
    for name in ("first", "second"):
        change(
            tree,
            f"{name}.sls",
            f"{{% import 'between.jinja' as m %}}\n{name}:\n  lamp.lit:\n    - color: {{{{ m.word }}}}\n",
        )
    compiler, wanted = Compiler(), CompilerInputs(tree, ("first", "second"), trusted_uids=ME)
    assert colors(compiler.compile(wanted)) == ["one", "one"]

    change(tree, "word.jinja", "{% set word = 'two' %}")
    assert colors(compiler.compile(wanted)) == ["two", "two"]


def test_a_change_of_an_imported_list_stays_in_its_file(tree):
    """A second rendering of the same file does not have the change, either."""
    change(tree, "words.jinja", "{% set words = [] %}")
    text = (
        "{% import 'words.jinja' as m %}{% do m.words.append(1) %}\nfirst:\n  lamp.lit:\n    - color: {{ m.words }}\n"
    )
    change(tree, "first.sls", text)
    change(tree, "second.sls", text.replace("first:", "second:"))
    compiler, wanted = Compiler(), CompilerInputs(tree, ("first", "second"), trusted_uids=ME)
    assert colors(compiler.compile(wanted)) == [[1], [1]]

    change(tree, "first.sls", text + "# changed\n")
    assert colors(compiler.compile(wanted)) == [[1], [1]]


def test_additions_to_a_declaration_last_for_one_compilation(tree):
    """A requisite_in adds to another declaration in each compilation anew."""
    change(
        tree,
        "plain.sls",
        "a:\n  lamp.lit:\n    - require: [{lamp: b}]\nx:\n  lamp.lit:\n    - require_in: [{lamp: a}]\n",
    )
    compiler = Compiler()
    request = CompilerInputs(tree, grains={"os": "Debian"}, trusted_uids=ME)

    first, second = compiler.compile(request), compiler.compile(request)
    assert [call.low for call in first.calls] == [call.low for call in second.calls]
    assert first.high == second.high


def test_a_failed_compilation_leaves_the_compiler_usable(tree):
    """The next compilation reads the file again."""
    compiler = Compiler()
    request = CompilerInputs(tree, grains={"os": "Debian"}, trusted_uids=ME)
    change(tree, "plain.sls", "a: [\n")
    with pytest.raises(CompileError):
        compiler.compile(request)
    change(tree, "plain.sls", "a: lamp.lit\n")

    assert len(compiler.compile(request).calls) == 2
    assert gc.isenabled()


def test_a_failed_compilation_keeps_unchanged_calls(tree):
    """Problems found in other files of the broken states leave no trace in the caches."""
    change(tree, "zed.sls", "x: lamp.lit\ny:\n  lamp.lit:\n    - require: [x]\n")
    compiler, wanted = Compiler(), CompilerInputs(tree, ("plain", "zed"), trusted_uids=ME)
    before = compiler.compile(wanted).calls
    change(tree, "plain.sls", "a: [\nb: lmap.lit\n")
    with pytest.raises(CompileError):
        compiler.compile(wanted)
    change(tree, "plain.sls", "a:\n  lamp.lit:\n    - color: red\n")

    assert [old is new for old, new in zip(before, compiler.compile(wanted).calls, strict=True)] == [False, True, True]


def test_high_data_have_the_shape_that_salt_prints(tree):
    """`show high` prints types with lists, the function after the arguments, automatic orders last."""
    change(
        tree,
        "plain.sls",
        (
            "include: [made]\na:\n  lamp.lit:\n    - color: red\n    - names: [x, y]\n"
            "    - require: [{lamp: b}]\n  bell: [rung, {order: 5}]\n"
        ),
    )

    high = Compiler().compile(CompilerInputs(tree, ("plain",), grains={"os": "Debian"}, trusted_uids=ME)).high
    assert high == {
        "a": {
            "__sls__": "plain",
            "__env__": "base",
            "bell": ["rung", {"order": 5}],
            "lamp": [{"color": "red"}, {"names": ["x", "y"]}, {"require": [{"lamp": "b"}]}, "lit", {"order": 10001}],
        },
        "b": {
            "__sls__": "made",
            "__env__": "base",
            "__sls_included_from__": ["plain"],
            "lamp": [{"color": "one Debian"}, "lit", {"order": 10000}],
        },
    }
    assert type(high["a"]["lamp"][1]["names"]) is list


def test_top_lists_the_files_that_apply(tree):
    """`show top` has the names, with globs resolved."""
    change(tree, "top.sls", "base:\n  'web*':\n    - 'p*'\n  'db*':\n    - made\n")

    assert Compiler().compile(CompilerInputs(tree, minion_id="web1", trusted_uids=ME)).top == {"base": ["plain"]}


def test_five_thousand_states_compile_in_less_than_twice_the_time_of_pyyaml(tree):
    """On a quiet machine, compiling takes a third to a half of the time of PyYAML.

    Twice the states take twice the time.
    """

    def text(count):
        return (
            "".join(
                (
                    f"/srv/file-{number}:\n  lamp.lit:\n    - color: text {number}\n    - size: 3\n"
                    f"    - tags: [x]\n    - require:\n      - lamp: /srv/file-{number // 2}x\n"
                ).replace(f"{number // 2}x", f"{number // 2}" if number else "none")
                for number in range(1, count)
            )
            + "/srv/file-0: lamp.lit\n"
        )

    def compiling(name):
        return lambda: Compiler().compile(CompilerInputs(tree, (name,), trusted_uids=ME))

    change(tree, "plain.sls", text(5000))
    change(tree, "twice.sls", text(10_000))

    assert effort(compiling("plain"), 2, than=lambda: yaml.load(text(5000), yaml.CSafeLoader)) < 2
    assert effort(compiling("twice"), 3, than=compiling("plain")) < 3


def test_finding_a_line_of_a_long_file_does_not_split_the_text():
    """Each state asks for a line, so splitting the text each time would take 15 s."""
    text = "".join(f"line {number}\r\n" for number in range(1, 30_000)) + "the last"
    document = Document("x.sls", text)

    def read() -> list[str]:
        again = Document("x.sls", text)
        return [again.line_text("x.sls", number) for number in range(1, 30_000)]

    assert [document.line_text("x.sls", number) for number in (0, 1, 2, 30_000, 30_001)] == [
        "",
        "line 1",
        "line 2",
        "the last",
        "",
    ]
    assert read() == [f"line {number}" for number in range(1, 30_000)]
    assert effort(read, 6) < 6

"""State files: the files that are read, the files that are refused, and the reasons."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from holdfast.states.compile.compiler import Compiler
from holdfast.states.data import CompilerInputs
from holdfast.states.errors import CompileError
from holdfast.states.source.files import Tree

ME = os.getuid()


@pytest.fixture
def root(tmp_path):
    """Return a states directory with one valid file."""
    directory = tmp_path / "tree"
    directory.mkdir(mode=0o755)
    file(directory / "good.sls", "a: lamp.lit\n")
    return directory


def file(path, content):
    """Write a file that only its owner may write."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    path.chmod(0o644)
    return path


def compile_it(root, *sls, uid=ME):
    """Compile a directory, and return the IDs."""
    compilation = Compiler().compile(CompilerInputs(root, sls, trusted_uids=frozenset({uid})))
    return [call.low["__id__"] for call in compilation.calls]


def refused(root, *sls, uid=ME):
    """Return the only problem of a directory."""
    with pytest.raises(CompileError) as caught:
        compile_it(root, *sls, uid=uid)
    (problem,) = caught.value.problems
    return problem


@pytest.mark.parametrize(
    ("content", "code", "line"),
    [
        (b"a:\n  x\0y: 1\n", "source-binary", 2),
        (b"\x7fELF\x02\x01\0\0", "source-binary", 1),
        (b"a: 1\n\xff\xfe: 2\n", "source-encoding", 2),
    ],
)
def test_binary_and_other_encodings_are_refused_with_the_line(root, content, code, line):
    """A state file is UTF-8 text."""
    path = file(root / "bad.sls", content)

    problem = refused(root)
    assert (problem.code, problem.location.file, problem.location.line) == (code, str(path), line)


@pytest.mark.parametrize(("mode", "word"), [(0o646, "o-w"), (0o666, "o-w"), (0o602, "o-w")])
def test_a_file_that_any_user_may_write_is_refused(root, mode, word):
    """Who can write a state file can do anything. The hint has the command that fixes the mode."""
    (root / "good.sls").chmod(mode)

    problem = refused(root)
    assert problem.code == "source-writable"
    assert word in problem.hint


def test_a_file_that_another_group_may_write_is_refused(root):
    """The private group of the owner is trusted like the owner."""
    path = root / "good.sls"
    path.chmod(0o664)
    if ME == 0:
        os.chown(path, 0, 50)
        assert refused(root).code == "source-writable"
        os.chown(path, 0, 0)
    assert compile_it(root) == ["a"]


def test_a_file_of_an_untrusted_owner_is_refused(root):
    """Only the given owners are trusted."""
    problem = refused(root, uid=ME + 1)

    assert problem.code == "source-owner"
    assert "chown" in problem.hint


def test_a_directory_that_any_user_may_write_is_refused(root):
    """A user could replace its files, but not with the sticky bit."""
    root.chmod(0o777)
    assert refused(root).code == "source-writable"

    root.chmod(0o1777)
    assert compile_it(root) == ["a"]


def test_an_unreadable_file_is_refused():
    """The reason is the message of the system.

    Root reads everything, so a child process without permissions tries it.
    """
    code = (
        "import os, sys, pathlib\n"
        "from holdfast.states.compile.compiler import Compiler\n"
        "from holdfast.states.data import CompilerInputs\n"
        "from holdfast.states.errors import CompileError\n"
        "root = pathlib.Path(sys.argv[1])\n"
        "if os.getuid() == 0: os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "try: Compiler().compile(CompilerInputs(root, trusted_uids=frozenset({0, int(sys.argv[2])})))\n"
        "except CompileError as error: print(error.problems[0].code, error.problems[0].message)\n"
    )
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:  # its parents belong to root and are sticky
        root = Path(name)
        root.chmod(0o755)
        file(root / "good.sls", "a: lamp.lit\n").chmod(0o200)
        done = subprocess.run(
            [sys.executable, "-c", code, str(root), str(ME)], capture_output=True, text=True, check=True
        )

    assert done.stdout == "source-unreadable cannot use this file: cannot read the file: Permission denied\n"


def test_an_entry_that_is_not_a_regular_file_is_refused_at_once(root):
    """A fifo would block, a directory has no text, and a link may lead nowhere or to itself."""
    for make in (os.mkfifo, os.mkdir, lambda path: path.symlink_to("nowhere"), lambda path: path.symlink_to("bad.sls")):
        path = root / "bad.sls"
        make(path)
        assert refused(root, "bad").code == "source-unreadable"
        (path.rmdir if path.is_dir() else path.unlink)()


def test_a_file_that_is_too_large_is_refused(root):
    """The limit is 8 MB. No data of such a file are kept."""
    with file(root / "huge.sls", "").open("r+b") as huge:
        huge.truncate(9 << 20)

    assert refused(root).code == "source-size"


def test_five_megabytes_of_states_compile(root):
    """A large file is valid."""
    text = "".join(f"id-{number}:\n  lamp.lit:\n    - color: {'x' * 500}\n" for number in range(10_000))
    assert len(text) > 5_000_000
    file(root / "large.sls", text)

    assert len(compile_it(root, "large")) == 10_000


def test_a_name_that_is_not_utf8_is_refused_and_printed_with_escapes(root):
    """Such a name cannot be written in a state file, either."""
    file(root / os.fsdecode(b"\xff.sls"), "a: lamp.lit\n")

    problem = refused(root)
    assert problem.code == "source-name"
    assert "\\xff.sls" in str(problem)


def test_without_top_file_every_file_applies_in_the_order_of_paths(root):
    """`init.sls` has the name of its directory; files and directories that begin with `_` or `.` are left out."""
    for name in (
        "z.sls",
        "b/init.sls",
        "b/a.sls",
        "_off.sls",
        ".hidden.sls",
        "_dir/x.sls",
        ".git/x.sls",
        "b/notes.txt",
    ):
        (root / name).parent.mkdir(exist_ok=True, mode=0o755)
        file(root / name, f"{name}: lamp.lit\n")

    assert compile_it(root) == ["b/a.sls", "b/init.sls", "a", "z.sls"]
    assert list(Tree(root).names()) == ["_dir.x", "_off", "b.a", "b", "good", "z"]


def test_a_file_with_the_sls_name_of_another_is_a_warning(root):
    """`good.sls` comes before `good/init.sls`, which never applies."""
    (root / "good").mkdir(mode=0o755)
    file(root / "good" / "init.sls", "b: lamp.lit\n")

    compilation = Compiler().compile(CompilerInputs(root, trusted_uids=frozenset({ME})))
    assert [warning.code for warning in compilation.warnings] == ["source-hidden"]


def test_a_missing_directory_is_an_error(tmp_path):
    """A wrong path does not mean that there are no states."""
    assert refused(tmp_path / "nowhere").code == "source-unreadable"


def test_an_empty_directory_is_an_empty_compilation(tmp_path):
    """An empty directory is valid."""
    tmp_path.chmod(0o755)
    assert compile_it(tmp_path) == []


def test_sources_list_all_files_that_were_read(root):
    """Each has a path and a SHA-256 digest, templates included."""
    file(root / "good.sls", "{% import_yaml 'data.yaml' as d %}\na: lamp.lit\n")
    file(root / "data.yaml", "x: 1\n")

    sources = Compiler().compile(CompilerInputs(root, trusted_uids=frozenset({ME}))).sources
    assert [source.path.name for source in sources] == ["data.yaml", "good.sls"]
    assert all(len(source.digest) == 64 for source in sources)


def test_a_directory_that_cannot_be_listed_is_an_error(root, monkeypatch):
    """A directory may vanish or be closed during the search. Without an error, all states would be removed."""
    real, failures = os.scandir, [FileNotFoundError(2, "No such file or directory", str(root))]

    def scandir(path):
        if failures:
            raise failures.pop()
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    problem = refused(root)

    assert (problem.code, problem.location.file) == ("source-unreadable", str(root))
    assert compile_it(root) == ["a"]


@pytest.mark.parametrize(
    "name", ["//etc/hostname", "salt:////etc/hostname", "/etc/hostname", "../secret", "a/../../secret"]
)
def test_no_template_outside_the_states_directory_is_read(root, name):
    """A name with two slashes, which are a root of their own, is refused, too."""
    with pytest.raises(FileNotFoundError):
        Tree(root).template(name)


def test_a_sticky_directory_of_an_untrusted_owner_is_refused(root):
    """Its owner can remove and rename the entries of others."""
    root.chmod(0o1755)

    assert refused(root, uid=ME + 1).location.file == str(root)


def test_of_two_files_with_one_name_the_warning_names_the_unused_one(root):
    """`a/b.sls` takes precedence over `a.b.sls`, whatever their order."""
    (root / "a").mkdir(mode=0o755)
    file(root / "a" / "b.sls", "straight: lamp.lit\n")
    dotted = file(root / "a.b.sls", "dotted: lamp.lit\n")

    compilation = Compiler().compile(CompilerInputs(root, trusted_uids=frozenset({ME})))
    assert [call.low["__id__"] for call in compilation.calls] == ["straight", "a"]
    assert [warning.location.file for warning in compilation.warnings] == [str(dotted)]


def test_a_relative_include_of_an_init_file_is_relative_to_its_directory(root):
    """`a.init` is another name of the file `a/init.sls`."""
    (root / "a").mkdir(mode=0o755)
    file(root / "a" / "init.sls", "include: [.b]\n")
    file(root / "a" / "b.sls", "beside: lamp.lit\n")

    assert compile_it(root, "a") == compile_it(root, "a.init") == ["beside"]

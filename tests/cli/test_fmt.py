"""`fmt`: which files it formats, from where, and what it leaves as it is."""

import os
import stat

import pytest
from click.testing import CliRunner

from holdfast.agent.host import files
from holdfast.agent.verbs.fmt import fmt
from holdfast_process import Tree, holdfast, in_process

UGLY = "a:\n    test.nop:   []\nb:\n    test.nop: []\n"
NEAT = "a:\n  test.nop: []\n\nb:\n  test.nop: []\n"


@pytest.fixture
def tree(tmp_path):
    """A states directory with one file to format and one that is already formatted."""
    tree = Tree(tmp_path)
    tree.sls("ugly", UGLY)
    tree.sls("neat", NEAT)
    return tree


def test_fmt_without_a_path_formats_the_states_directory(tree):
    """The states mean the same afterwards. A second run changes nothing."""
    before = tree.json("show", "low", "ugly", check=0)

    assert tree("fmt", check=0).stdout == f"formatted {tree.etc}/states/ugly.sls\n"
    assert (tree.etc / "states/ugly.sls").read_text() == NEAT
    assert tree.json("show", "low", "ugly", check=0) == before
    assert tree("fmt", check=0).stdout == ""
    assert "2 files already formatted" in tree("fmt", check=0).stderr


def test_check_names_files_and_changes_nothing(tree):
    """The exit code is 2, as that of `plan`."""
    done = tree("fmt", "--check", check=2)

    assert done.stdout == f"would format {tree.etc}/states/ugly.sls\n"
    assert (tree.etc / "states/ugly.sls").read_text() == UGLY
    tree("fmt", "--check", tree.etc / "states/neat.sls", check=0)


def test_diff_prints_a_unified_diff_and_changes_nothing(tree):
    """The diff also shows a missing newline at the end of a file."""
    ugly = tree.sls("ugly", UGLY.rstrip())
    done = tree("fmt", "--diff", check=2)

    assert done.stdout.startswith(f"--- {ugly}\n+++ {ugly}\n@@")
    assert "-    test.nop:   []\n" in done.stdout
    assert "+  test.nop: []\n" in done.stdout
    assert "No newline at end of file" in done.stdout
    assert ugly.read_text() == UGLY.rstrip()


def test_a_dash_formats_standard_input(tmp_path):
    """Editors use this. A text that cannot be formatted is printed unchanged, so that no editor loses it."""
    assert holdfast("fmt", "-", input=UGLY, check=0).stdout == NEAT
    assert in_process("fmt", "-", "--check", input=UGLY, check=2).stdout == "would format <stdin>\n"
    assert in_process("fmt", "-", "--check", input=NEAT, check=0).stdout == ""
    assert "+++ <stdin>" in in_process("fmt", "-", "--diff", input=UGLY, check=2).stdout
    broken = in_process("fmt", "-", input="a: [\n", check=3)
    assert broken.stdout == "a: [\n"
    assert "<stdin>:1" in broken.stderr
    assert "excludes other paths" in in_process("fmt", "-", tmp_path, check=64).stderr


def test_a_file_that_cannot_be_formatted_does_not_stop_the_others(tree):
    """The exit code is 3.

    The message has file, line and reason, but not the line itself, which may be part of a pillar.
    """
    broken = tree.sls("broken", "a:\n  password: [hunter2\n")
    done = tree("fmt", check=3)

    assert f"{broken}:2" in done.stderr
    assert "yaml-syntax" in done.stderr
    assert "hunter2" not in done.stderr
    assert broken.read_text() == "a:\n  password: [hunter2\n"
    assert (tree.etc / "states/ugly.sls").read_text() == NEAT
    assert "1 cannot be formatted" in done.stderr


def test_verbose_names_parts_that_keep_their_layout(tree):
    """The message has the line and the reason."""
    tree.sls("neat", "a:\n  {{ m() }}\n")

    assert "neat.sls:2: the layout of a is kept" in tree("fmt", "-v", check=0).stderr
    assert "is kept" not in tree("fmt", check=0).stderr


def test_mode_and_links_are_kept(tree, tmp_path):
    """A named link is followed; a link within a directory is left alone, wherever it leads."""
    ugly, target = tree.etc / "states/ugly.sls", tmp_path / "elsewhere.sls"
    ugly.chmod(0o640)
    target.write_text(UGLY)
    link = tree.etc / "states/link.sls"
    link.symlink_to(target)
    tree("fmt", check=0)

    assert stat.S_IMODE(ugly.stat().st_mode) == 0o640
    assert target.read_text() == UGLY
    tree("fmt", link, check=0)
    assert target.read_text() == NEAT
    assert link.is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_the_owner_is_kept(tree):
    """A file of a user does not become a file of root."""
    ugly = tree.etc / "states/ugly.sls"
    os.chown(ugly, 1234, 2345)
    tree("fmt", check=0)

    assert (ugly.stat().st_uid, ugly.stat().st_gid) == (1234, 2345)


def test_a_file_with_hard_links_is_not_written(tree):
    """A replacement would separate the two names."""
    ugly = tree.etc / "states/ugly.sls"
    (tree.root / "other").hardlink_to(ugly)
    done = tree("fmt", check=1)

    assert "hard links" in done.stderr
    assert ugly.read_text() == UGLY


def test_only_state_files_of_a_directory_are_formatted(tree):
    """Templates and hidden files are left alone; a named file is formatted whatever its name."""
    states = tree.etc / "states"
    (states / ".git").mkdir()
    others = [states / "map.jinja", states / ".hidden.sls", states / ".git/x.sls"]
    for path in others:
        path.write_text(UGLY)
    tree("fmt", states, check=0)

    assert [path.read_text() for path in others] == [UGLY] * 3
    tree("fmt", others[0], check=0)
    assert others[0].read_text() == NEAT


@pytest.mark.parametrize("content", [b"\xff\n", b"a: \0\n"], ids=["not UTF-8", "binary"])
def test_a_file_that_is_not_text_is_refused(tree, content):
    """The message has the line."""
    (tree.etc / "states/bad.sls").write_bytes(content)

    assert "bad.sls:1" in tree("fmt", check=3).stderr


def test_a_missing_file_or_directory_is_refused(tree):
    """A device is refused, too."""
    assert "cannot read the file" in tree("fmt", tree.root / "none.sls", check=3).stderr
    assert "not a regular file" in tree("fmt", "/dev/null", check=3).stderr
    assert "none" in tree("fmt", "--states", tree.root / "none", check=3).stderr


def test_a_file_that_changes_meanwhile_is_not_overwritten(tmp_path, monkeypatch):
    """Another process writes the file after the replacement was prepared. No temporary file remains."""
    path = tmp_path / "x.sls"
    path.write_text(UGLY)
    fill = files.Replacement.fill

    def slow(replacement):
        fill(replacement)
        path.write_text("mine: {}\n")

    monkeypatch.setattr(files.Replacement, "fill", slow)
    done = CliRunner().invoke(fmt, [str(path)])

    assert done.exit_code == 1
    assert "it has just been changed" in done.output
    assert path.read_text() == "mine: {}\n"
    assert list(tmp_path.iterdir()) == [path]

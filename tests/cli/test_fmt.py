"""`fmt`: files, directories and standard input; what is written, and what is not."""

import os
import stat

import pytest
from click.testing import CliRunner

from holdfast.agent.host import files
from holdfast.agent.verbs.fmt import fmt
from holdfast_process import Tree, holdfast

UGLY = "a:\n    test.nop:   []\nb:\n    test.nop: []\n"
NEAT = "a:\n  test.nop: []\n\nb:\n  test.nop: []\n"


@pytest.fixture
def tree(tmp_path):
    """A states directory with a file that is not as it should be, and one that is."""
    tree = Tree(tmp_path)
    tree.sls("ugly", UGLY)
    tree.sls("neat", NEAT)
    return tree


def test_it_formats_the_states_directory(tree):
    """Without a path, the one that the settings name; again, there is nothing to do."""
    before = tree.json("show", "low", "ugly", check=0)

    assert tree("fmt", check=0).stdout == f"formatted {tree.etc}/states/ugly.sls\n"
    assert (tree.etc / "states/ugly.sls").read_text() == NEAT
    assert tree.json("show", "low", "ugly", check=0) == before
    assert tree("fmt", check=0).stdout == ""
    assert "2 files already formatted" in tree("fmt", check=0).stderr


def test_check_names_files_and_changes_nothing(tree):
    """Exit code 2, as `plan` has it."""
    done = tree("fmt", "--check", check=2)

    assert done.stdout == f"would format {tree.etc}/states/ugly.sls\n"
    assert (tree.etc / "states/ugly.sls").read_text() == UGLY
    tree("fmt", "--check", tree.etc / "states/neat.sls", check=0)


def test_diff_shows_and_changes_nothing(tree):
    """A unified diff, of a file without a newline at its end too."""
    ugly = tree.sls("ugly", UGLY.rstrip())
    done = tree("fmt", "--diff", check=2)

    assert done.stdout.startswith(f"--- {ugly}\n+++ {ugly}\n@@")
    assert "-    test.nop:   []\n" in done.stdout
    assert "+  test.nop: []\n" in done.stdout
    assert "No newline at end of file" in done.stdout
    assert ugly.read_text() == UGLY.rstrip()


def test_standard_input_becomes_standard_output(tmp_path):
    """For editors; what cannot be formatted is passed on as it is, so that no editor loses a text."""
    assert holdfast("fmt", "-", input=UGLY, check=0).stdout == NEAT
    assert holdfast("fmt", "-", "--check", input=UGLY, check=2).stdout == "would format <stdin>\n"
    assert holdfast("fmt", "-", "--check", input=NEAT, check=0).stdout == ""
    assert "+++ <stdin>" in holdfast("fmt", "-", "--diff", input=UGLY, check=2).stdout
    broken = holdfast("fmt", "-", input="a: [\n", check=3)
    assert broken.stdout == "a: [\n"
    assert "<stdin>:1" in broken.stderr
    assert "excludes other paths" in holdfast("fmt", "-", tmp_path, check=64).stderr


def test_what_cannot_be_formatted_is_left_and_the_others_are_not(tree):
    """Exit code 3; file, line and why; never the line itself, which may be a pillar's."""
    broken = tree.sls("broken", "a:\n  password: [hunter2\n")
    done = tree("fmt", check=3)

    assert f"{broken}:2" in done.stderr
    assert "yaml-syntax" in done.stderr
    assert "hunter2" not in done.stderr
    assert broken.read_text() == "a:\n  password: [hunter2\n"
    assert (tree.etc / "states/ugly.sls").read_text() == NEAT
    assert "1 cannot be formatted" in done.stderr


def test_verbose_tells_what_keeps_its_layout(tree):
    """With the line and the reason."""
    tree.sls("neat", "a:\n  {{ m() }}\n")

    assert "neat.sls:2: the layout of a is kept" in tree("fmt", "-v", check=0).stderr
    assert "is kept" not in tree("fmt", check=0).stderr


def test_mode_and_links_are_kept(tree, tmp_path):
    """A link that is named is followed; one in a directory is left alone, wherever it leads."""
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
    """A user's file does not become root's."""
    ugly = tree.etc / "states/ugly.sls"
    os.chown(ugly, 1234, 2345)
    tree("fmt", check=0)

    assert (ugly.stat().st_uid, ugly.stat().st_gid) == (1234, 2345)


def test_a_file_with_several_names_is_not_written(tree):
    """To replace it would make two files of it."""
    ugly = tree.etc / "states/ugly.sls"
    (tree.root / "other").hardlink_to(ugly)
    done = tree("fmt", check=1)

    assert "hard links" in done.stderr
    assert ugly.read_text() == UGLY


def test_only_state_files_are_looked_for_in_directories(tree):
    """No templates, nothing hidden; a file that is named is formatted, whatever it is called."""
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
def test_what_is_no_text_is_refused(tree, content):
    """With its line."""
    (tree.etc / "states/bad.sls").write_bytes(content)

    assert "bad.sls:1" in tree("fmt", check=3).stderr


def test_what_is_not_there_is_refused(tree):
    """A file, or the states directory itself."""
    assert "cannot read the file" in tree("fmt", tree.root / "none.sls", check=3).stderr
    assert "not a regular file" in tree("fmt", "/dev/null", check=3).stderr
    assert "none" in tree("fmt", "--states", tree.root / "none", check=3).stderr


def test_what_others_write_meanwhile_is_not_lost(tmp_path, monkeypatch):
    """Neither before the new text is written beside the file, nor while it is; nothing is left behind."""
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

"""Removing states with `reverse: true` restores the files as they were."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from holdfast_process import Agent, Tree

STATES = """
HOST/new:
  file.managed: [{contents: ours}, {reverse: true}]
HOST/old:
  file.managed: [{contents: ours}, {mode: '0640'}, {reverse: true}]
HOST/leads/astray:
  file.managed: [{contents: ours}, {reverse: true}]
HOST/link:
  file.symlink: [{target: new}, {reverse: true}]
HOST/newlink:
  file.symlink: [{target: new}, {reverse: true}]
HOST/dir:
  file.directory: [{mode: '0700'}, {reverse: true}]
HOST/newdir:
  file.directory: [{reverse: true}]
HOST/newdir/inside:
  file.managed: [{contents: ours}, {reverse: true}]
HOST/used:
  file.directory: [{reverse: true}]
HOST/gone:
  file.absent: [{reverse: true}]
HOST/kept:
  file.managed: [{contents: ours}]
"""


def seen(root: Path) -> dict[str, tuple[object, ...]]:
    """Return the entries below a directory: path -> type and mode, owner, content."""
    found = {}
    for path in sorted(root.rglob("*")):
        info = path.lstat()
        content = path.readlink() if path.is_symlink() else path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(root))] = (stat.filemode(info.st_mode), info.st_uid, content)
    return found


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A host with files that existed before."""
    tree = Tree(tmp_path)
    tree.sls("other", "other: test.nop\n")  # an empty states directory would undo nothing
    host = tree.host
    (host / "old").write_bytes(b"theirs \xff\0, no text")
    (host / "old").chmod(0o604)
    (host / "elsewhere").write_text("theirs")
    (host / "leads").mkdir()
    (host / "leads/astray").symlink_to("../elsewhere")
    (host / "link").symlink_to("nowhere")
    (host / "dir").mkdir(mode=0o755)
    (host / "dir/file").write_text("theirs")
    (host / "gone").write_text("theirs")
    return tree


@pytest.mark.parametrize("running", [True, False])
def test_files_links_and_directories_are_as_before(tree: Tree, running: bool):
    """The state file is removed while the agent runs, or while no agent runs.

    A new directory with other files remains.
    """
    before = seen(tree.host)
    sls = tree.sls("ours", STATES)
    agent = Agent(tree)
    agent.wait_log("converged in")
    assert (tree.host / "elsewhere").read_text() == "ours\n"
    (tree.host / "used/file").write_text("theirs")
    after = {name: value for name, value in seen(tree.host).items() if name in ("kept", "used", "used/file")}

    if running:
        sls.unlink()
    else:
        agent.stop()
        sls.unlink()
        agent = Agent(tree)
    agent.wait(lambda: agent.log.count("is undone") == 10, "the end of all reversals")
    agent.wait(lambda: seen(tree.host) == before | after, "the restored files")

    assert "is undone" in agent.log
    assert not list((tree.root / "state").rglob("before*")), "the copies are removed"
    assert agent.stop() == 0


def test_a_state_that_moves_to_another_file_restores_both_contents(tmp_path: Path):
    """The second file is copied before the first one is restored."""
    tree = Tree(tmp_path)
    for name in "ab":
        (tree.host / name).write_text(f"theirs {name}\n")
    before = seen(tree.host)
    text = "conf:\n  file.managed: [{{name: HOST/{}}}, {{contents: ours}}, {{reverse: true}}]\n"
    tree.sls("other", "other: test.nop\n")
    sls = tree.sls("conf", text.format("a"))
    with Agent(tree) as agent:
        tree.sls("conf", text.format("b"))
        agent.wait_log("is undone")
        agent.wait(lambda: (tree.host / "b").read_text() == "ours\n", "the second file")
        assert (tree.host / "a").read_text() == "theirs a\n"

        sls.unlink()
        agent.wait(lambda: agent.log.count("is undone") == 2, "both undone")
        assert seen(tree.host) == before

"""The disk of the state directory becomes read-only: by an error, as the kernel does it, or by an administrator."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast_process import Agent, Tree

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount an image of a disk")


def mount(*words: str | Path) -> None:
    """Mount something."""
    subprocess.run(["mount", *words], check=True, capture_output=True)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A configuration with two files, and with a service that is told of changes of one of them."""
    found = Tree(tmp_path)
    found.file("alone")
    found.sls(
        "told",
        "HOST/watched:\n  file.managed:\n    - contents: right\n"
        "told:\n  cmd.wait:\n    - name: echo told >> HOST/told\n    - watch: [{file: HOST/watched}]\n",
    )
    return found


@pytest.fixture
def disk(tree: Tree) -> Iterator[Path]:
    """The file by which the kernel is made to find an error on the disk of the state directory."""
    state, image = tree.root / "state", tree.root / "image"
    state.mkdir(mode=0o700)
    image.touch()
    os.truncate(image, 16 << 20)
    subprocess.run(["mkfs.ext4", "-qF", image], check=True, capture_output=True)
    mount("-o", "loop,errors=remount-ro", image, state)
    state.chmod(0o700)
    source = subprocess.run(["findmnt", "-no", "SOURCE", state], check=True, capture_output=True, text=True)
    yield Path("/sys/fs/ext4", Path(source.stdout.strip()).name, "trigger_fs_error")
    subprocess.run(["umount", "--lazy", state], check=True)


def test_an_agent_repairs_and_tells_while_its_disk_is_read_only(tree: Tree, disk: Path) -> None:
    """What others watch waits, because its refresh could be lost; everything else is repaired. The history is read.

    The test takes some seconds: it makes a file system.
    """
    with Agent(tree) as agent:
        agent.wait(lambda: len(tree.json("history")["history"]) == 4, "the records of the first pass")
        disk.write_text("1")
        (tree.host / "alone").write_text("drifted")
        (tree.host / "watched").write_text("drifted")
        agent.wait(lambda: (tree.host / "alone").read_text() == "hello\n", "the repair")
        codes = {"journal-unwritable", "records-unwritable"}
        agent.wait(lambda: {each["code"] for each in tree.json("status")["health"]} >= codes, "both reports")

        assert (tree.host / "watched").read_text() == "drifted"
        texts = {each["code"]: each["text"] for each in tree.json("status")["health"]}
        assert "file system" in texts["journal-unwritable"]
        assert "repairs continue, and their history is written later" in texts["records-unwritable"]
        assert len(tree.json("history", check=0)["history"]) == 4
        assert tree("db", "check", check=0)


def test_nothing_starts_on_a_disk_that_is_read_only(tree: Tree) -> None:
    """The error of the agent and of `apply` says what to do. `plan`, `history` and `drift` only read."""
    state = tree.root / "state"
    state.mkdir(mode=0o700)
    mount("-t", "tmpfs", "-o", "mode=0700", "none", state)
    try:
        with Agent(tree) as agent:
            (tree.host / "alone").write_text("drifted")
            agent.wait(lambda: tree.json("drift", "list")["drifts"], "the record of the drift")
        mount("-o", "remount,ro", state)
        (tree.host / "alone").write_text("drifted")

        for verb in ("run", "apply"):
            said = tree(verb, check=1).stderr
            assert f"cannot use {state}/lock: Read-only file system; make its file system writable" in said
        assert (tree.host / "alone").read_text() == "drifted"
        assert "would change" in tree("plan", check=2).stdout
        assert len(tree.json("history", check=0)["history"]) == 6
        assert len(tree.json("drift", "list", check=0)["drifts"]) == 1
    finally:
        subprocess.run(["umount", "--lazy", state], check=True)


def test_a_state_directory_that_cannot_be_made_says_what_to_do(tree: Tree) -> None:
    """The disk is read-only before the first start."""
    above = tree.root / "disk"
    above.mkdir()
    mount("-t", "tmpfs", "-o", "ro,mode=0755", "none", above)
    try:
        for verb in ("run", "apply"):
            said = tree(verb, "--state-dir", above / "state", check=1).stderr
            wanted = f"cannot keep state in {above}/state: Read-only file system; make its file system writable"
            assert said == f"holdfast: {wanted}\n"
    finally:
        subprocess.run(["umount", "--lazy", above], check=True)

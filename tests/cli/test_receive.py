"""`recv` on the command line: the output of a command becomes the content of a file, in `apply` and in `plan`."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast_process import Tree

STATES = """
token:
  cmd.run:
    - name: cat HOST/secret
    - onlyif: test -e HOST/secret
HOST/token:
  file.managed:
    - recv: {contents: {cmd: token, key: stdout}}
    - mode: '0600'
    - show_changes: false
"""


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A configuration with a sender and a receiver."""
    tree = Tree(tmp_path)
    (tree.host / "secret").write_text("hunter2")
    tree.sls("a", STATES)
    return tree


def test_a_file_receives_the_output_of_a_command(tree: Tree):
    """The result of the receiver does not show the value."""
    plan = tree.json("plan")
    assert [result["result"] for result in plan["results"]] == [None, None]
    assert "unknown until cmd.run[token] has run" in plan["results"][1]["comment"]
    text = tree("plan", check=2).stdout
    assert f"\nunknown file.managed[{tree.host}/token] until cmd.run[token] has run and sent stdout\n" in text
    assert ": 1 would change, 1 unknown\n" in text

    applied = tree.json("apply")

    assert (tree.host / "token").read_text() == "hunter2\n"
    assert [result["result"] for result in applied["results"]] == [True, True]
    assert "hunter2" not in str(applied["results"][1])


def test_combined_output_is_in_the_order_of_writing(tree: Tree):
    """`key: combined` sends both streams through one pipe, so that lines stay in the order of writing.

    The command then reports no error output of its own.
    """
    script = "for n in 1 2 3 4 5; do echo out $n; echo err $n >&2; done"
    tree.sls("a", STATES.replace("cat HOST/secret", script).replace("key: stdout", "key: combined"))

    applied = tree.json("apply")

    wanted = "".join(f"out {n}\nerr {n}\n" for n in range(1, 6))
    assert (tree.host / "token").read_text() == wanted
    changes = applied["results"][0]["changes"]
    assert (changes["stdout"], changes["stderr"]) == (wanted.rstrip("\n"), "")


def test_a_sender_that_did_not_run_is_named_with_the_reason(tree: Tree):
    """The reason is that of its guard."""
    (tree.host / "secret").unlink()

    done = tree("apply", check=1)

    assert "cmd.run[token] has sent no stdout: onlyif condition is false" in done.stdout + done.stderr

"""`recv` on the command line: a command's output in a file, for real and in a plan."""

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
    """A tree with a sender and a receiver."""
    tree = Tree(tmp_path)
    (tree.host / "secret").write_text("hunter2")
    tree.sls("a", STATES)
    return tree


def test_a_file_holds_what_a_command_printed(tree: Tree):
    """The value is nowhere to be seen but where it belongs, and in what the command itself reports."""
    plan = tree.json("plan")
    assert [result["result"] for result in plan["results"]] == [None, None]
    assert "unknown until cmd.run[token] has run" in plan["results"][1]["comment"]

    applied = tree.json("apply")

    assert (tree.host / "token").read_text() == "hunter2\n"
    assert [result["result"] for result in applied["results"]] == [True, True]
    assert "hunter2" not in str(applied["results"][1])


def test_combined_output_is_in_the_order_of_writing(tree: Tree):
    """Both streams go into one pipe then, so that lines stand where they were written.

    The command reports no error output of its own.
    """
    script = "for n in 1 2 3 4 5; do echo out $n; echo err $n >&2; done"
    tree.sls("a", STATES.replace("cat HOST/secret", script).replace("key: stdout", "key: combined"))

    applied = tree.json("apply")

    wanted = "".join(f"out {n}\nerr {n}\n" for n in range(1, 6))
    assert (tree.host / "token").read_text() == wanted
    changes = applied["results"][0]["changes"]
    assert (changes["stdout"], changes["stderr"]) == (wanted.rstrip("\n"), "")


def test_a_sender_that_did_not_run_is_named_with_the_reason(tree: Tree):
    """Its guard says why."""
    (tree.host / "secret").unlink()

    done = tree("apply", check=1)

    assert "cmd.run[token] has sent no stdout: onlyif condition is false" in done.stdout + done.stderr

"""A patch of a state file gives a state other arguments, and changes nothing else. `patch` applies it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent.cli.state_patch import NoPatchError, state_patch
from holdfast.agent.configuration import ConfigurationCompiler
from holdfast.agent.settings import load
from holdfast.states.data import Call
from holdfast_process import Tree

FORMS = {
    "plain": "{ID}:\n  file.managed:\n    - contents: hello\n    - mode: '0644'\n",
    "without more": "{ID}:\n  file.managed:\n  - contents: hello",
    "quoted": "# about\n{ID}:\n  file.managed:\n    - mode: '0644'\n    - contents: \"hello\"   # why\nb: test.nop\n",
    "block": "{ID}:\n  file.managed:\n    - contents: |\n        hello\n        there\n\n    # x\n    - mode: '0644'\n",
    "kept block": "{ID}:\n  file.managed:\n    - contents: |+\n        hello\n\n\n\nb: test.nop\n",
    "folded": "{ID}:\n  file.managed:\n    - contents: >-\n        hello\n        there\nb:\n  test.nop: []\n",
    "several lines": "{ID}:\n  file.managed:\n    - contents: hello\n        there\n    - mode: '0644'\n",
    "flow": "{ID}:\n  file.managed: [{{contents: hello}}, {{mode: '0644'}}]\n",
    "old": "{ID}:\n  file:\n    - managed\n    - contents: hello\n",
    "two functions": "{ID}:\n  file.managed:\n    - contents: hello\n  test.nop: []\n",
    "by ID": "motd:\n  file.managed:\n    - name: {ID}\n    - contents: hello\n",
    "windows": "{ID}:\r\n  file.managed:\r\n    - contents: hello\r\n    - mode: '0644'\r\n",
}
CONTENTS = [
    *("by hand\n", "by hand", "", "\n", " first\nsecond\n", "a: 'b' # c\n- d\n", "tab\there\n \n", "ends\n\n\n"),
    *("é ü €\n", "yes", "[1, 2]", "\x1b[31m\n", "#!/bin/sh\nset -e\n", "x" * 200 + " " + "y" * 200, "null", "0644"),
]


def compiled(tree: Tree, path: Path) -> list[Call]:
    """Return the calls of the states in a directory."""
    settings = load(tree.config, {"states": path})
    return list(ConfigurationCompiler().compile(settings, grains={"id": "web1"}).compilation.calls)


def of_file(calls: list[Call]) -> Call:
    """Return the call of the file."""
    (call,) = (each for each in calls if each.kind == "file.managed")
    return call


def patched(tree: Tree, arguments: dict[str, Any]) -> list[Call]:
    """Apply the patch to the states, and return their calls."""
    states = tree.etc / "states"
    text = state_patch(of_file(compiled(tree, states)), arguments, states)
    argv = ["patch", "-p1", "--binary", "-d", str(states)]
    done = subprocess.run(argv, input=text + "\n", text=True, capture_output=True, check=False, encoding="utf-8")
    assert done.returncode == 0, done.stdout
    return compiled(tree, states)


def described(calls: list[Call]) -> dict[str, Any]:
    """Return what the states declare."""
    hidden = {"__sls__", "order", "__env__"}
    return {each.identity: {key: value for key, value in each.low.items() if key not in hidden} for each in calls}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("contents", CONTENTS, ids=ascii)
def test_other_contents_are_declared_and_nothing_else_changes(tmp_path: Path, form: str, contents: str) -> None:
    """Patches work for each form of a state, and for any contents."""
    tree = Tree(tmp_path)
    path = tree.etc / "states/all.sls"
    path.write_bytes(FORMS[form].format(ID="/etc/motd").encode())
    before = described(compiled(tree, tree.etc / "states"))
    identity = next(name for name in before if name.startswith("file"))
    before[identity]["contents"] = contents

    assert described(patched(tree, {"contents": contents})) == before


def test_several_arguments_are_one_patch_and_new_ones_are_added(tmp_path: Path) -> None:
    """New arguments are, for example, the mode, and that no newline is added."""
    tree = Tree(tmp_path)
    tree.sls("all", FORMS["plain"].format(ID="/etc/motd"))
    arguments = {"contents": "by\nhand", "contents_newline": False, "mode": "0600"}
    low = of_file(patched(tree, arguments)).low

    assert {name: low[name] for name in arguments} == arguments


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("# {# about #}\n/m:\n  file.managed: [{contents: hello}]\n", "is a template"),
        ("#!yaml\n/m:\n  file.managed: [{contents: hello}]\n", "is a template"),
        ("m:\n  file.managed: [{names: [/m]}, {contents: hello}]\n", "an unusual form"),
        ("/m:\n  file.managed: [mode: '0644']\nextend:\n  /m:\n    file: [{contents: hello}]\n", "not written there"),
        ("/m:\n  file.managed: [{contents: &x hello}]\nb:\n  test.nop: [{name: *x}]\n", "plain values"),
        ("/m:\n  file.managed: [{name: /m}, {contents: [hello]}]\n", "not written there"),
    ],
)
def test_a_state_that_is_written_otherwise_has_no_patch(tmp_path: Path, text: str, why: str) -> None:
    """The result has the reason."""
    tree = Tree(tmp_path)
    tree.sls("all", text)

    with pytest.raises(NoPatchError, match=why):
        patched(tree, {"contents": "by hand"})


def test_contents_with_marks_of_jinja_have_no_patch(tmp_path: Path) -> None:
    """The state file would become a template."""
    tree = Tree(tmp_path)
    tree.sls("all", FORMS["plain"].format(ID="/etc/motd"))

    with pytest.raises(NoPatchError, match="put it between"):
        patched(tree, {"contents": "{{ x }}"})

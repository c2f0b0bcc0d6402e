"""Templates end commands that time out, with their child processes, and continue without delay."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from deadline import DEADLINE
from holdfast.states.helpers.commands import _run
from holdfast.states.view.host_view import HostView


def test_the_process_group_is_ended(tmp_path: Path):
    """A child that keeps the output open is killed, and does not delay the result."""
    view = HostView({}, {}, {"template_commands": True}, "x")
    began = time.monotonic()
    with pytest.raises(ValueError, match=r"the command did not end within 0.3 s: sleep 41 & "):
        _run(view, f"sleep 41 & echo $! >{tmp_path}/pid; wait", timeout=0.3)

    assert time.monotonic() - began < DEADLINE
    child = Path("/proc", (tmp_path / "pid").read_text().strip(), "stat")
    while child.exists() and child.read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() - began < DEADLINE


def test_input_and_output_are_passed_on(tmp_path: Path):
    """A command need not read its input, and may leave a process without output."""
    view = HostView({}, {}, {"template_commands": True}, "x")
    assert _run(view, "cat; echo bad >&2; exit 3", stdin="fed\n").stdout == "fed\n"
    done = _run(view, f"sleep 0.1 >{tmp_path}/out 2>&1 & exit 3", stdin="x" * (1 << 20))
    assert (done.returncode, done.stdout, done.stderr) == (3, "", "")

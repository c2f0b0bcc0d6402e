"""`apply` on a terminal shows running resources, progress and the output of commands, and at the end only results."""

import asyncio
import json
import os
import signal
import sys
from contextlib import contextmanager

import pytest

from holdfast.agent.cli import progress
from holdfast.agent.cli.progress import Progress, legible, picture
from holdfast.agent.widths import columns
from holdfast.resources.secrets import Redactor
from holdfast_process import COMMAND, Tree, environment
from terminal import Terminal, screen

NOTHING = Redactor()


@pytest.fixture
def tree(tmp_path):
    """A file, and a command that prints a line and waits for the test."""
    tree = Tree(tmp_path)
    tree.pillar("app:\n  password: correct-horse\n")
    tree.sls(
        "site",
        "HOST/file:\n  file.managed:\n    - contents: x\n"
        "slow:\n  cmd.run:\n    - name: >-\n        echo first; printf '\\033[31m'correct-'horse\\033[0m\\007'; "
        "printf '10%%\\r99%%\\n';\n"
        "        touch HOST/up; while [ ! -e HOST/go ]; do sleep 0.02; done; echo last\n",
    )
    return tree


def apply(tree, *words, width=80, **variables):
    """Start `apply` on a terminal."""
    return Terminal([*COMMAND, "apply", *words, "--config", str(tree.config)], {**environment(), **variables}, width)


def test_running_states_and_their_output_are_shown_at_once(tree):
    """Below the output, a line has position, name and time.

    Secrets are masked, control characters are not printed, and only the results remain at the end.
    """
    terminal = apply(tree)
    terminal.until("    first\r\n")
    assert not (tree.host / "go").exists()
    terminal.until("[2/2] cmd.run[slow] 1 s", (tree.host / "go").touch)
    assert terminal.end() in (0, 2)

    left = screen(terminal.written)
    assert left[-2].startswith("converged in ")
    assert left[-2].endswith(": 1 created, 1 changed")
    assert [line.strip() for line in left if line.startswith("    ")][-3:] == ["first", "99%", "last"]
    assert left[-3].startswith("ran cmd.run[slow] in ")  # the output is above this line, and not repeated below
    assert b"correct-horse" not in terminal.written
    assert b"\x07" not in terminal.written
    assert not any("[2/2]" in line for line in left)


def test_quiet_shows_failures_and_the_summary(tree):
    """`--quiet` shows no successes, no output and no progress; a failure names the line of its state."""
    (tree.host / "go").touch()
    tree.sls("bad", "bad:\n  test.fail_without_changes: []\n")
    terminal = apply(tree, "--quiet")

    assert terminal.end() == 1
    first, *wrapped, last = [line for line in screen(terminal.written) if line]
    assert (first.split(" ")[0], last.split(" ")[0]) == ("failed", "not")
    assert "bad.sls:2)" in wrapped[-1]  # the terminal wraps a long line
    assert "cmd.run" not in "".join(wrapped)
    assert b"\x1b[J" not in terminal.written


def test_a_pipe_and_a_dumb_terminal_get_plain_lines(tree):
    """No progress is drawn, and the output of a command comes with its result."""
    (tree.host / "go").touch()
    terminal = Terminal(["/usr/bin/env", "TERM=dumb", *COMMAND, "apply", "--config", str(tree.config)], environment())

    terminal.end()
    assert b"\x1b" not in terminal.written
    assert "    stdout:" in screen(terminal.written)
    assert "\x1b" not in tree("apply").stdout


@pytest.mark.parametrize("how", ["ctrl-c", "gone"])
def test_ctrl_c_and_a_lost_terminal_end_the_running_command(tree, how):
    """The run ends in order, and after Ctrl-C names the command."""
    tree.sls("site", "slow:\n  cmd.run:\n    - name: echo $$ > HOST/pid; echo up; exec sleep 1000\n")
    terminal = apply(tree)
    terminal.until("    up\r\n")
    pid = int((tree.host / "pid").read_text())
    if how == "gone":
        os.close(terminal.descriptor)
        _, status = os.waitpid(terminal.pid, 0)
        assert os.waitstatus_to_exitcode(status) == 130
    else:
        os.write(terminal.descriptor, b"\x03")
        assert terminal.end() == 130
        left = " ".join(screen(terminal.written))
        assert "interrupted: cmd.run[slow] was ended after" in left
        assert "[1/1]" not in left
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_nohup_keeps_a_run_going_after_its_terminal_is_lost(tree):
    """A process that was started to ignore SIGHUP continues."""
    ignoring = (
        "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN); os.execv(sys.executable, sys.argv[1:])"
    )
    terminal = Terminal(
        [sys.executable, "-c", ignoring, *COMMAND, "apply", "--config", str(tree.config)], environment()
    )
    terminal.until("cmd.run[slow] 0 s")
    os.kill(terminal.pid, signal.SIGHUP)
    (tree.host / "go").touch()

    assert terminal.end() in (0, 2)


@pytest.mark.parametrize("width", [10, 20, 40, 80])
def test_progress_lines_are_narrower_than_the_terminal(width):
    """Four of many resources are shown, the oldest first."""
    running = {f"file.managed[/srv/{'ä' * 50}/{number}]": float(10 - number) for number in range(7)}
    lines = picture(running, 3, 5000, 100.0, width)

    assert len(lines) == 5
    assert all(columns(line) < width for line in lines)
    assert lines[0].startswith("[4/5000]"[: width - 2])
    assert lines[0].endswith((" 1 min", "…"))


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (b"\x1b[1;31mred\x1b[0m\x1b]0;title\x07", "red"),
        (b"10%\r50%\r100%\r", "100%"),
        (b"a\tb\x07\xff", "a        b\\x07\ufffd"),
        (b"pass \x1b[1mcorrect-\x1b[0mhorse", "pass ********"),
        ("\u202eabc".encode(), "\\u202eabc"),
        (b"x" * 10_000, "x" * progress.WIDEST),
    ],
)
def test_lines_are_made_legible(line, shown):
    """Lines have no control characters, no secrets and a limited length."""
    assert legible(line, Redactor({"password": "correct-horse"})) == shown


@contextmanager
def drawn():
    """The write end of a pipe, and a bytearray that has all written bytes at the end of the block."""
    inside, outside = os.pipe()
    found = bytearray()
    try:
        yield outside, found
        os.close(outside)
        while data := os.read(inside, 65536):
            found += data
    finally:
        os.close(inside)


def test_output_of_several_commands_has_names_and_a_limit():
    """Each line names its resource. Of many lines at once, the last ones are shown, with the number of the others.

    Output of resources with secrets is not shown.
    """

    async def run(outside):
        shown = Progress(3, NOTHING, {"cmd.run[secret]"}.__contains__, descriptor=outside)
        shown.started("cmd.run[a]")
        shown.output("cmd.run[a]", "stdout", b"alone\nbegin")
        shown.started("cmd.run[b]")
        shown.output("cmd.run[a]", "stdout", b"ning\n")
        shown.output("cmd.run[b]", "stderr", b"no end")
        shown.output("cmd.run[b]", "stderr", b"")
        shown.output("interface[pkg]", "stdout", b"Setting up\n")
        shown.output("cmd.run[secret]", "stdout", b"treasure\n")
        shown.clear()
        shown.output("cmd.run[b]", "stdout", b"".join(b"%d\n" % number for number in range(1000)))
        shown.ended("cmd.run[a]")
        shown.ended("cmd.run[b]")
        shown.started("cmd.run[secret]")
        shown.output("interface[pkg]", "stdout", b"treasure\n")
        shown.close()
        assert shown.told == {"cmd.run[a]": True, "cmd.run[b]": False, "interface[pkg]": True}

    with drawn() as (outside, found):
        asyncio.run(run(outside))
    lines = [line.strip() for line in found.decode().split("\n")]
    assert lines[:4] == ["alone", "cmd.run[a]: beginning", "cmd.run[b]: no end", "pkg: Setting up"]
    assert lines[4:6] == ["[800 lines are not shown]", "cmd.run[b]: 800"]
    assert b"treasure" not in found


def test_output_is_not_shown_with_no_log_or_hide_output(tree):
    """Neither argument lets output reach the terminal."""
    tree.sls(
        "site",
        "a:\n  cmd.run:\n    - name: echo trea''sure\n    - no_log: true\n"
        "b:\n  cmd.run:\n    - name: echo trea''sure\n    - hide_output: true\n",
    )
    terminal = apply(tree)

    terminal.end()
    assert b"treasure" not in terminal.written


def test_a_plan_shows_mode_and_owner_of_what_would_be_created(tree):
    """A plan shows declared and default values."""
    tree.sls(
        "site",
        "HOST/a:\n  file.managed:\n    - mode: '0640'\n    - group: daemon\nHOST/b:\n  file.directory: []\nHOST/c:\n"
        "  file.append:\n    - text: x\n",
    )
    told = tree("plan").stdout

    for name, kind, mode, owner in (
        ("a", "managed", "0640", "daemon"),
        ("b", "directory", "0755", "root"),
        ("c", "append", "0644", "root"),
    ):
        assert f"would create file.{kind}[{tree.host}/{name}] with mode {mode}, owner root:{owner}\n" in told
    assert "3 would be created" in told
    assert json.loads(tree("plan", "--format", "json").stdout)["results"][1]["comment"].endswith("owner root:root")

"""The verbs that look into a running agent, as its users call them."""

import json
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import termios
import time
import urllib.request
from fcntl import ioctl

import psutil
import pytest

from holdfast_process import COMMAND, Agent, Tree, environment

STATES = """\
HOST/conf:
  file.managed:
    - contents: x
fail:
  cmd.run:
    - name: echo out of paper >&2; exit 3
below:
  test.nop:
    - require: [{cmd: fail}]
secret:
  cmd.run:
    - name: echo sesame > HOST/secret
    - no_log: true
    - watch: [{file: HOST/conf}]
"""


CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture
def tree(tmp_path):
    """A configuration in which one state fails, and one is nobody's business."""
    tree = Tree(tmp_path)
    tree.sls("web", STATES)
    return tree


def test_why_names_the_culprit_and_the_line(tree):
    """For people, and for programs."""
    with Agent(tree):
        told = tree("why", "test.nop[below]", check=0).stdout
        facts = tree.json("why", "cmd.run[fail]", check=0)

    assert re.search(r"declared +\S+/web.sls:8 \(sls web\)", told)
    assert re.search(r"blocked by +cmd.run\[fail\] \(failed\): .*out of paper", told)
    assert [entry["what"] for entry in facts["history"]] == ["failed"]
    assert facts["needed_by"] == [{"requisite": "require", "identity": "test.nop[below]", "state": "blocked"}]


def test_an_id_or_a_name_is_enough_where_only_one_has_it(tree):
    """Names without brackets, which are patterns in shells: `why` shows all matches, `trigger` demands one."""
    tree.sls("twice", "same: {test.nop: [], file.exists: [{name: HOST}]}\n")
    with Agent(tree):
        assert tree("why", "below", check=0).stdout.startswith("test.nop[below]  blocked\n")
        assert tree("why", tree.host, check=0).stdout.startswith("file.exists[same]  ok\n")
        heads = [line for line in tree("why", "same", check=0).stdout.splitlines() if "[same]  ok" in line]
        assert heads == ["test.nop[same]  ok", "file.exists[same]  ok"]
        assert [each["identity"] for each in tree.json("why", "same", check=0)] == [
            "test.nop[same]",
            "file.exists[same]",
        ]
        assert "which one?" in tree("trigger", "same", check=1).stderr
        assert tree("trigger", tree.host, check=0).stdout.startswith("ok file.exists[same]")


def test_the_end_of_a_path_is_enough_where_only_one_has_it(tree):
    """A file is spoken of by its name; whole parts of the path count, and an absolute path is whole already."""
    tree.sls(
        "more",
        "HOST/etc/app.conf: {file.exists: []}\nHOST/etc/my.app.conf: {file.exists: []}\n"
        "echo bin/true conf: {cmd.run: []}\n",
    )
    with Agent(tree):
        assert tree("why", "app.conf", check=0).stdout.startswith(f"file.exists[{tree.host}/etc/app.conf]")
        assert tree("trigger", "etc/my.app.conf", check=1).stderr == ""
        assert tree("trigger", "host/conf", check=0).stdout.startswith(f"ok file.managed[{tree.host}/conf]")
        tree.sls("twice", "HOST/other/conf: {file.exists: []}\n")
        tree("reload", check=0)
        both = tree("why", "conf", check=0).stdout
        assert all(
            f"{each}]" in both for each in (f"file.exists[{tree.host}/other/conf", f"file.managed[{tree.host}/conf")
        )
        assert all(
            "there is no such resource" in tree("why", each, check=1).stderr
            for each in ("pp.conf", "/etc/app.conf", "true conf", "")
        )


def test_the_shell_completes_what_the_agent_knows(tree):
    """IDs, and identities where an ID would not do; nothing when no agent answers."""
    tree.sls("twice", "same: {test.nop: [], file.exists: [{name: HOST}]}\nwith blank: test.nop\n")

    def complete(word):
        line = f"holdfast why --config {tree.config} {word}"
        asked = {**environment(), "HOLDFAST_LINE": line, "HOLDFAST_WORD": word, "_HOLDFAST_COMPLETE": "bash_complete"}
        done = subprocess.run(COMMAND, env=asked, capture_output=True, text=True, timeout=20, check=True)
        return [each.removeprefix("plain,") for each in done.stdout.splitlines() if each]

    assert complete("") == []
    with Agent(tree):
        assert set(complete("")) == {
            f"{tree.host}/conf",
            "fail",
            "below",
            "secret",
            "with\\ blank",
            "file.exists[same]",
            "test.nop[same]",
        }
        assert complete("be") == ["below"]
        assert set(complete("test.nop[")) == {"test.nop[below]", "test.nop[same]", "test.nop[with\\ blank]"}
        assert set(complete("f")) == {"fail", f"file.managed[{tree.host}/conf]", "file.exists[same]"}
        assert complete("cmd.run[f") == ["cmd.run[fail]"]


def test_why_tells_what_is_true_of_commands(tree):
    """One without a guard is not looked at for an event, nor with everything else.

    One whose product is gone runs again at once.
    """
    tree.sls(
        "acts", "once: {cmd.run: [{name: 'true'}]}\nmade: {cmd.run: [{name: touch HOST/made}, {creates: HOST/made}]}\n"
    )
    with Agent(tree) as agent:
        agent.wait((tree.host / "made").exists, "the first run")
        once, made, failed = (tree.json("why", f"cmd.run[{name}]") for name in ("once", "made", "fail"))
        assert [step["what"] for step in once["next"]] == ["action"]
        assert [step["what"] for step in made["next"]] == ["event", "recheck"]
        assert [step["what"] for step in failed["next"]] == ["action", "recheck"]
        assert "run again when its declaration changes or a requisite asks for it" in " ".join(
            tree("why", "once").stdout.split()
        )
        (tree.host / "made").unlink()
        agent.wait((tree.host / "made").exists, "the command to run again")


def test_a_mistyped_identity_gets_a_hint(tree):
    """Nearly spelt; `trigger` says the same."""
    with Agent(tree):
        assert "did you mean test.nop[below]?" in tree("why", "test.nop[belov]", check=1).stderr
        assert "did you mean cmd.run[fail]?" in tree("why", "cmd.rum[fail]", check=1).stderr
        assert "did you mean cmd.run[fail]?" in tree("trigger", "cmd.run[fial]", check=1).stderr
        assert "did you mean below?" in tree("why", "belov", check=1).stderr


def test_secrets_stay_masked_everywhere(tree):
    """What `no_log` keeps out of the log no other view shows."""
    with Agent(tree) as agent:
        (tree.host / "conf").write_text("drift")
        agent.wait(lambda: len(tree.json("why", "cmd.run[secret]")["history"]) > 1, "the second run")
        shown = [
            tree(*words).stdout
            for words in (["why", "cmd.run[secret]"], ["trace"], ["metrics"], ["status"], ["status", "--tree"])
        ]
        shown += [json.dumps(tree.json(*words)) for words in (["why", "cmd.run[secret]"], ["status"])]

    assert (tree.host / "secret").exists()
    assert not any("sesame" in text for text in shown)


def test_the_live_graph_has_states(tree):
    """In every form; names of SLS make no sense with it."""
    with Agent(tree):
        found = tree.json("show", "graph", "--live", check=0)
        shown = {
            form: tree("show", "graph", "--live", "--format", form, check=0).stdout
            for form in ("svg", "dot", "mermaid")
        }
        assert tree("show", "graph", "web", "--live", check=64).stderr

    states = {node["identity"]: node["state"] for node in found["nodes"]}
    assert (states["cmd.run[fail]"], states["test.nop[below]"]) == ("failed", "blocked")
    assert {"from": "cmd.run[fail]", "to": "test.nop[below]", "kind": "require"} in found["edges"]
    assert shown["svg"].startswith("<svg ")
    assert "1 blocked" in shown["svg"]
    assert "fillcolor" in shown["dot"]
    assert ":::failed" in shown["mermaid"]


def test_trace_goes_to_a_file(tree):
    """One that a viewer can read; passes that are not kept are refused."""
    path = tree.root / "trace.json"
    with Agent(tree):
        assert re.search(r"pass 1 \(start\), \d+ runs", tree("trace", "--pass", "1", "-o", path, check=0).stderr)
        assert "pass 99 is not kept" in tree("trace", "--pass", "99", check=1).stderr
        assert tree("trace", "--last", "--pass", "1", check=64).stderr

    events = json.loads(path.read_text())["traceEvents"]
    assert {"cmd.run[fail]", "cmd.run[secret]"} <= {event["name"] for event in events if event["ph"] == "X"}


def test_metrics_are_served_as_the_settings_say_and_no_longer(tree):
    """Also when the settings change while it runs."""
    assert "metrics" not in tree.config.read_text()
    with Agent(tree) as agent:
        agent.wait(lambda: "holdfast_up 1" in tree("metrics", check=0).stdout, "metrics")
        with socket.create_server(("127.0.0.1", 0)) as taken:
            free = taken.getsockname()[1]
        tree.settings(f"metrics: {{listen: '127.0.0.1:{free}', textfile: ../host.prom}}\n")
        agent.wait((tree.root / "host.prom").exists, "the file")
        with urllib.request.urlopen(f"http://127.0.0.1:{free}/metrics") as page:
            assert re.search(r'^holdfast_failures_total\{kind="cmd.run"\} [1-9]$', page.read().decode(), re.MULTILINE)
        tree.settings("")
        process = psutil.Process(agent.process.pid)
        agent.wait(lambda: not process.net_connections(kind="tcp"), "the end of the server")


def _own_terminal():
    """In the child: Ctrl-C in this terminal is for us."""
    os.setsid()
    ioctl(0, termios.TIOCSCTTY, 0)


class Terminal:
    """A verb in a terminal of its own, of 80 columns and 24 lines."""

    def __init__(self, tree, *words, term="xterm"):
        self.master, slave = pty.openpty()
        self.resize(80, 24)
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        command = [*COMMAND, *words, "--config", str(tree.config)]
        self.process = subprocess.Popen(
            command,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**environment(), "TERM": term},
            preexec_fn=_own_terminal,  # noqa: PLW1509 - there are no threads here
        )
        self.seen = ""

    def resize(self, width, height):
        """Make it as large as this."""
        ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def read(self, wanted, timeout=20):
        """Read until something stands there; what was read since the last time."""
        until, text = time.monotonic() + timeout, ""
        while wanted not in text:
            assert time.monotonic() < until, text
            if select.select([self.master], [], [], 0.1)[0]:
                text += os.read(self.master, 65536).decode()
        self.seen += text
        return text

    def press(self, keys):
        """Type."""
        os.write(self.master, keys.encode())

    def close(self):
        """Let go of it."""
        self.process.kill()
        self.process.wait()
        for end in (self.master, self.slave):
            os.close(end)


@pytest.fixture
def terminal(tree):
    """The live view of a running agent."""
    with Agent(tree):
        terminal = Terminal(tree, "watch")
        yield terminal
        terminal.close()


def test_watch_follows_what_happens(tree, terminal):
    """Failures and what they block, then a repair as it is made. Drawn over, not erased.

    In the size that the terminal has now.
    """
    shown = terminal.read("cmd.run[secret]")
    assert shown.startswith("\x1b[?1049h")
    assert "\x1b[2J" not in shown.partition("\x1b[2J")[2]
    assert "blocked   test.nop[below]" in shown
    (tree.host / "conf").write_text("drift")
    terminal.read("repaired")
    terminal.resize(60, 10)
    lines = terminal.read("q ends").rpartition("\x1b[H")[2].split("\r\n")
    while len(lines) != 10:
        lines = terminal.read("q ends").rpartition("\x1b[H")[2].split("\r\n")
    terminal.resize(40, 10)
    while max(widths := [len(CONTROL.sub("", line).strip("\r")) for line in lines]) > 40:
        lines = terminal.read("q ends").rpartition("\x1b[H")[2].split("\r\n")
    assert max(widths) == 39  # a letter in the last column would go with what is erased behind it


@pytest.mark.parametrize(("end", "code"), [("q", 0), ("\x03", 0), (signal.SIGTERM, 0)], ids=["q", "Ctrl-C", "SIGTERM"])
def test_watch_gives_the_terminal_back(terminal, end, code):
    """The old screen, the cursor, and the line discipline, however it ends."""
    terminal.read("q ends")
    if isinstance(end, str):
        terminal.press(end)
    else:
        terminal.process.send_signal(end)
    rest = terminal.read("\x1b[?1049l")

    assert terminal.process.wait(10) == code
    assert "\x1b[?25h" in rest
    assert termios.tcgetattr(terminal.slave) == terminal.before


def test_watch_ends_with_the_agent(tree):
    """It says so, on the screen that was there before."""
    with Agent(tree) as agent:
        terminal = Terminal(tree, "watch")
        terminal.read("q ends")
        agent.stop()
        text = terminal.read("has stopped")

        assert text.index("\x1b[?1049l") < text.index("has stopped")
        assert terminal.process.wait(10) == 69  # no agent answers
        terminal.close()


def test_watch_is_the_log_on_a_dumb_terminal(tree):
    """One that cannot draw gets lines."""
    with Agent(tree):
        terminal = Terminal(tree, "watch", term="dumb")
        shown = terminal.read("converged")
        terminal.close()

    assert "\x1b" not in shown


def test_watch_is_the_log_where_there_is_no_terminal(tree):
    """In a pipe."""
    with Agent(tree):
        process = subprocess.Popen(
            [*COMMAND, "watch", "--config", str(tree.config)], stdout=subprocess.PIPE, env=environment(), text=True
        )
        first = process.stdout.readline()
        process.kill()
        process.communicate()

    assert "holdfast" in first
    assert "\x1b" not in first

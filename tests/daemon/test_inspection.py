"""The verbs that show the state of a running agent: `why`, `status`, `trace`, `metrics`, `watch` and the live graph."""

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

from deadline import DEADLINE
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
    """A configuration with a failing command, a dependent of it, and a command with `no_log`."""
    tree = Tree(tmp_path)
    tree.sls("web", STATES)
    return tree


def test_why_names_the_failed_resource_and_the_line(tree):
    """The text is for people, the JSON for programs."""
    with Agent(tree):
        told = tree("why", "test.nop[below]", check=0).stdout
        facts = tree.json("why", "cmd.run[fail]", check=0)

    assert re.search(r"declared +\S+/web.sls:8 \(sls web\)", told)
    assert re.search(r"blocked by +cmd.run\[fail\] \(failed\): .*out of paper", told)
    assert [entry["what"] for entry in facts["history"]] == ["failed"]
    assert facts["needed_by"] == [{"requisite": "require", "identity": "test.nop[below]", "state": "blocked"}]


def test_a_unique_id_or_name_needs_no_kind(tree):
    """Brackets are patterns in shells. `why` shows all matches; `trigger` requires a single one."""
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


def test_a_unique_end_of_a_path_is_enough(tree):
    """Only whole components of the path match, and an absolute path is always complete."""
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


def test_completion_offers_ids_or_identities_of_the_agent(tree):
    """Identities replace IDs that are not unique. Without an agent there are no words."""
    tree.sls("twice", "same: {test.nop: [], file.exists: [{name: HOST}]}\nwith blank: test.nop\n")

    def complete(word):
        line = f"holdfast why --config {tree.config} {word}"
        asked = {**environment(), "HOLDFAST_LINE": line, "HOLDFAST_WORD": word, "_HOLDFAST_COMPLETE": "bash_complete"}
        done = subprocess.run(COMMAND, env=asked, capture_output=True, text=True, timeout=DEADLINE, check=True)
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


def test_why_names_the_next_causes_of_a_command(tree):
    """A command without a guard is not checked on events or rechecks.

    A command whose product was removed runs again at once.
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
    """The hint of `why` and `trigger` is the most similar name."""
    with Agent(tree):
        assert "did you mean test.nop[below]?" in tree("why", "test.nop[belov]", check=1).stderr
        assert "did you mean cmd.run[fail]?" in tree("why", "cmd.rum[fail]", check=1).stderr
        assert "did you mean cmd.run[fail]?" in tree("trigger", "cmd.run[fial]", check=1).stderr
        assert "did you mean below?" in tree("why", "belov", check=1).stderr


def test_no_verb_shows_the_output_of_a_resource_with_no_log(tree):
    """The log and all verbs omit it."""
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
    """Each format shows the states. SLS names cannot be combined with `--live`."""
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


def test_trace_writes_a_file_for_viewers(tree):
    """A pass that is no longer kept is an error."""
    path = tree.root / "trace.json"
    with Agent(tree):
        assert re.search(r"pass 1 \(start\), \d+ runs", tree("trace", "--pass", "1", "-o", path, check=0).stderr)
        assert "pass 99 is not kept" in tree("trace", "--pass", "99", check=1).stderr
        assert tree("trace", "--last", "--pass", "1", check=64).stderr

    events = json.loads(path.read_text())["traceEvents"]
    assert {"cmd.run[fail]", "cmd.run[secret]"} <= {event["name"] for event in events if event["ph"] == "X"}


def test_metrics_are_served_while_the_settings_say_so(tree):
    """New settings start and stop the server while the agent runs."""
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
    """Make the terminal the controlling one of the child, which then gets SIGINT of Ctrl-C."""
    os.setsid()
    ioctl(0, termios.TIOCSCTTY, 0)


class Terminal:
    """A verb on a terminal of 80 columns and 24 lines."""

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
        """Change the size of the terminal."""
        ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def read(self, wanted, timeout=60):
        """Read until a text appears. Returns what was read since the last call."""
        until, text = time.monotonic() + timeout, ""
        while wanted not in text:
            assert time.monotonic() < until, text
            if select.select([self.master], [], [], 0.1)[0]:
                text += os.read(self.master, 65536).decode()
        self.seen += text
        return text

    def press(self, keys):
        """Type these keys."""
        os.write(self.master, keys.encode())

    def close(self):
        """End the verb and close the terminal."""
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


def test_watch_shows_failures_and_repairs(tree, terminal):
    """The view has failures, blocked resources and each repair. It is drawn over, not erased.

    It follows the size of the terminal.
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
    assert max(widths) == 39  # erasing the rest of a line would erase its last column


@pytest.mark.parametrize(("end", "code"), [("q", 0), ("\x03", 0), (signal.SIGTERM, 0)], ids=["q", "Ctrl-C", "SIGTERM"])
def test_watch_restores_the_terminal(terminal, end, code):
    """The screen, the cursor and the line discipline are restored however `watch` ends."""
    terminal.read("q ends")
    if isinstance(end, str):
        terminal.press(end)
    else:
        terminal.process.send_signal(end)
    rest = terminal.read("\x1b[?1049l")

    assert terminal.process.wait(DEADLINE) == code
    assert "\x1b[?25h" in rest
    assert termios.tcgetattr(terminal.slave) == terminal.before


def test_watch_ends_with_the_agent(tree):
    """The message appears on the restored screen."""
    with Agent(tree) as agent:
        terminal = Terminal(tree, "watch")
        terminal.read("q ends")
        agent.stop()
        text = terminal.read("has stopped")

        assert text.index("\x1b[?1049l") < text.index("has stopped")
        assert terminal.process.wait(DEADLINE) == 69  # no agent answers
        terminal.close()


def test_watch_prints_the_log_on_a_dumb_terminal(tree):
    """A terminal without cursor movement gets lines."""
    with Agent(tree):
        terminal = Terminal(tree, "watch", term="dumb")
        shown = terminal.read("converged")
        terminal.close()

    assert "\x1b" not in shown


def test_watch_prints_the_log_into_a_pipe(tree):
    """There is no terminal to draw on."""
    with Agent(tree):
        process = subprocess.Popen(
            [*COMMAND, "watch", "--config", str(tree.config)], stdout=subprocess.PIPE, env=environment(), text=True
        )
        first = process.stdout.readline()
        process.kill()
        process.communicate()

    assert "holdfast" in first
    assert "\x1b" not in first

"""Viewers of an installed agent, and the server for them, under a real systemd."""

from __future__ import annotations

import json

import lab
import pytest

pytestmark = pytest.mark.lab
SECRET = "the word of root"
STATES = f"""
/root/secret:
  file.managed: [{{contents: {SECRET}}}, {{mode: "0600"}}, {{show_changes: true}}]
/etc/open:
  file.managed: [{{contents: for everyone}}, {{mode: "0644"}}]
"""
REQUEST = """
import socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect("/run/holdfast-serve/http.sock")
connection.sendall(f"GET {sys.argv[1]} HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n".encode())
print(connection.makefile("rb").read().partition(b"\\r\\n\\r\\n")[2].decode())
"""


def as_user(host: lab.Host, name: str, *words: str) -> tuple[int, str]:
    """Run a command as a user; return its exit code and its output."""
    done = host.run("runuser", "-u", name, "--", *words, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def agent(host: lab.Host) -> lab.Host:
    """Return a host with an agent, a member of the group, and another user."""
    host.run("holdfast", "install")
    host.write("/etc/holdfast/states/app.sls", STATES)
    host.write("/etc/holdfast/states/top.sls", "base:\n  '*': [app]\n")
    host.sh("useradd -m -G holdfast ann; useradd -m eve")
    host.write("/home/ask.py", REQUEST)
    lab.wait_for("the states", lambda: "converged" in host.run("holdfast", "status", check=False).stdout)
    return host


def test_members_of_the_group_see_the_agent_and_no_secret(agent: lab.Host) -> None:
    """Other users see nothing, and only root can control the agent."""
    code, said = as_user(agent, "ann", "holdfast", "status")
    assert (code, "file.managed[/root/secret]" in said) == (0, True)
    for words in (("status", "--format", "json"), ("why", "/root/secret"), ("log",)):
        code, said = as_user(agent, "ann", "holdfast", *words)
        assert code == 0, said
        assert SECRET not in said
    assert "for everyone" in as_user(agent, "ann", "holdfast", "log")[1]
    assert as_user(agent, "ann", "holdfast", "pause")[0] == 77
    assert as_user(agent, "eve", "holdfast", "status")[0] == 77
    assert SECRET in agent.run("holdfast", "log").stdout


def test_the_server_runs_as_a_user_of_its_own(agent: lab.Host) -> None:
    """The server is installed but not enabled. Members of the group can connect, others cannot."""
    shown = agent.run("systemctl", "show", "-P", "UnitFileState,ActiveState", "holdfast-serve").stdout
    assert "disabled" in shown

    agent.run("systemctl", "start", "holdfast-serve")
    lab.wait_for(
        "the server", lambda: agent.run("test", "-S", "/run/holdfast-serve/http.sock", check=False).returncode == 0
    )
    lab.wait_for("an answer", lambda: as_user(agent, "ann", "python3", "/home/ask.py", "/v1/hosts")[0] == 0)
    answer = json.loads(as_user(agent, "ann", "python3", "/home/ask.py", "/v1/changes")[1])
    pid = agent.run("systemctl", "show", "-P", "MainPID", "holdfast-serve").stdout.strip()
    status = agent.run("cat", f"/proc/{pid}/status").stdout

    assert len(answer["records"]) >= 2
    assert SECRET not in json.dumps(answer)
    assert "PermissionError" in as_user(agent, "eve", "python3", "/home/ask.py", "/v1/hosts")[1]
    assert "\nCapEff:\t0000000000000000\n" in status
    assert "\nUid:\t0\t" not in status


def test_without_the_group_health_says_so_until_it_is_made(agent: lab.Host) -> None:
    """The agent keeps running; `holdfast install` creates the group, without a restart."""
    agent.sh("gpasswd -d ann holdfast; groupdel holdfast; rm /run/holdfast/view.sock")
    lab.wait_for("the condition", lambda: "view-unavailable" in agent.run("holdfast", "status", check=False).stdout)
    assert agent.run("test", "-e", "/run/holdfast/view.sock", check=False).returncode != 0

    agent.run("holdfast", "install", "--no-start")
    lab.wait_for("the socket", lambda: agent.run("test", "-S", "/run/holdfast/view.sock", check=False).returncode == 0)
    assert "view-unavailable" not in agent.run("holdfast", "status", check=False).stdout


def test_uninstall_keeps_a_group_with_members(agent: lab.Host) -> None:
    """A group without members is removed."""
    said = agent.run("holdfast", "uninstall").stdout
    assert "kept the group holdfast, which has members: ann" in said
    assert "holdfast-serve.service" in said

    agent.run("holdfast", "install", "--no-start")
    agent.sh("gpasswd -d ann holdfast")
    assert "removed the group holdfast" in agent.run("holdfast", "uninstall").stdout
    assert agent.run("getent", "group", "holdfast", check=False).returncode != 0

"""An administrator runs apt beside the agent, which leaves apt's packages alone until apt has ended."""

from __future__ import annotations

import lab
import pytest
from packages import offer

from deadline import DEADLINE

pytestmark = pytest.mark.lab

STATES = """
toy:
  pkg.installed: []
toyd:
  service.running:
    - enable: true
    - require:
      - pkg: toy
/etc/toy.conf:
  file.managed:
    - contents: ours
    - require:
      - pkg: toy
/srv/other:
  file.managed:
    - contents: other
"""
FILES = {
    "/lib/systemd/system/toyd.service": (
        "[Service]\nExecStart=/bin/sleep 100000\n[Install]\nWantedBy=multi-user.target\n"
    ),
    "/etc/toy.conf": "theirs\n",
    "/DEBIAN/conffiles": "/etc/toy.conf\n",
}
SCRIPTS = {
    "postinst": "systemctl daemon-reload\n",
    "prerm": (
        "systemctl stop toyd\nif [ -e /srv/slow ]; then echo x >/srv/begun; while [ -e /srv/slow ]; do sleep 0.05; "
        "done; fi\n"
    ),
}
HOLD_LOCK = """
import fcntl, os, sys
for name in sys.argv[1:]:
    lock = os.open(name, os.O_RDWR | os.O_CREAT, 0o640)
    fcntl.lockf(lock, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def agent(host: lab.Host) -> lab.Host:
    """Return a host whose agent manages a package, its service and its file."""
    offer(host, "toy", files=FILES, scripts=SCRIPTS)
    host.write("/etc/holdfast/states/toy.sls", STATES)
    host.run("holdfast", "install")
    lab.wait_for("the states are applied", lambda: "converged" in text(host) and whole(host))
    return host


def text(host: lab.Host) -> str:
    """Return the status text that systemd shows for the agent."""
    return host.run("systemctl", "show", "-P", "StatusText", "holdfast").stdout


def active(host: lab.Host) -> bool:
    """Return whether the service runs."""
    return host.run("systemctl", "is-active", "toyd", check=False).returncode == 0


def whole(host: lab.Host) -> bool:
    """Return whether everything is as declared."""
    installed = host.run("dpkg-query", "-W", "-f", "${db:Status-Abbrev}", "toy", check=False).stdout == "ii "
    return installed and active(host) and host.run("cat", "/etc/toy.conf", check=False).stdout == "ours\n"


def repaired(host: lab.Host) -> bool:
    """Return whether resources that do not belong to the package are repaired."""
    host.write("/srv/other", "drift")
    lab.wait_for("the other file is repaired", lambda: host.read("/srv/other") == "other\n")
    return True


def test_a_removal_is_left_alone_while_it_runs(agent: lab.Host) -> None:
    """The service and the file are left alone while everything else is repaired; then both are repaired at once."""
    agent.write("/srv/slow", "")
    with agent.spawn("apt-get", "-qq", "-y", "purge", "toy", stdout=-1, stderr=-1) as apt:
        lab.wait_for(
            "the removal is under way", lambda: agent.run("test", "-e", "/srv/begun", check=False).returncode == 0
        )
        agent.sh("echo drift >/etc/toy.conf")
        lab.wait_for(
            "the agent leaves it alone",
            lambda: "uses the package manager" in agent.run("holdfast", "status", check=False).stdout,
        )
        waiting = ("file.managed[/etc/toy.conf]", "pkg.installed[toy]")  # the package too if its event came first
        lab.wait_for("the file is left alone", lambda: any("obstacle" in why(agent, each) for each in waiting))
        lab.wait_for(
            "the service is left alone", lambda: "is changing its package" in why(agent, "service.running[toyd]")
        )
        assert repaired(agent)
        assert (active(agent), agent.read("/etc/toy.conf")) == (False, "drift\n")
        agent.run("rm", "/srv/slow")
        _, complaints = apt.communicate(timeout=DEADLINE)
    assert apt.returncode == 0, complaints

    lab.wait_for("all is right again", lambda: whole(agent))
    lab.wait_for("the agent is calm", lambda: agent.run("holdfast", "status", check=False).returncode == 0)
    failed = [entry["MESSAGE"] for entry in agent.journal("holdfast") if entry.get("RESULT") == "failed"]
    assert failed == []


def why(host: lab.Host, identity: str) -> str:
    """Return `why` of one resource."""
    return host.run("holdfast", "why", identity, "--format", "json", check=False).stdout


@pytest.mark.parametrize("locks", [["lock-frontend"], ["lock-frontend", "lock"]])
def test_a_lock_alone_delays_nothing(agent: lab.Host, locks: list[str]) -> None:
    """An open aptitude, or a question of apt, does not affect any package yet.

    States that install packages wait without a worker.
    """
    agent.write("/etc/holdfast/agent.yaml", "engine: {workers: 1}\n")
    with agent.spawn(
        "/usr/bin/python3", "-c", HOLD_LOCK, *[f"/var/lib/dpkg/{name}" for name in locks], stdin=-1, stdout=-1
    ) as holder:
        holder.stdout.readline()
        agent.write(
            "/etc/holdfast/states/tiny.sls",
            "tiny:\n  pkg.installed: []\n/srv/behind:\n  file.managed:\n    - contents: x\n",
        )
        lab.wait_for(
            "what stands behind it", lambda: agent.run("test", "-e", "/srv/behind", check=False).returncode == 0
        )
        assert "uses the package manager" in why(agent, "pkg.installed[tiny]")
        agent.sh("systemctl stop toyd; echo drift >/etc/toy.conf")

        lab.wait_for("all is right again", lambda: whole(agent))
        assert repaired(agent)
        holder.stdin.close()
    lab.wait_for("the other package", lambda: agent.run("which", "tiny", check=False).returncode == 0)


def test_the_agents_own_apt_delays_none_of_its_resources(agent: lab.Host) -> None:
    """A package manager that a command of a state runs counts as the agent's own.

    The service does not require the package here, whose state has to wait for the lock.
    """
    agent.write("/etc/holdfast/states/toy.sls", STATES.replace("    - require:\n      - pkg: toy\n", ""))
    agent.run("holdfast", "reload")
    agent.write(
        "/etc/holdfast/states/more.sls",
        "apt-get -qq -y purge toy; touch /srv/purged:\n  cmd.run:\n    - creates: /srv/purged\n",
    )
    agent.write("/srv/slow", "")
    lab.wait_for("the removal is under way", lambda: agent.run("test", "-e", "/srv/begun", check=False).returncode == 0)
    lab.wait_for("the service is fought for", lambda: active(agent))
    agent.run("rm", "/srv/slow")

    lab.wait_for("all is right again", lambda: whole(agent))
    assert not any("left alone" in str(entry["MESSAGE"]) for entry in agent.journal("holdfast"))

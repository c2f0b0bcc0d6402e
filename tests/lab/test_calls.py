"""`holdfast call` on a real host: packages and services, beside the agent's own runs, by many callers at once."""

from __future__ import annotations

import json

import lab
import pytest
from packages import offer

from deadline import DEADLINE

pytestmark = pytest.mark.lab

STATES = "toy:\n  pkg.installed: []\n"
UNIT = "[Service]\nExecStart=/bin/sleep 100000\n[Install]\nWantedBy=multi-user.target\n"
SLOW = """
if [ -e /srv/slow ]; then
    touch /srv/begun-$DPKG_MAINTSCRIPT_PACKAGE
    while [ -e /srv/slow ]; do sleep 0.05; done
fi
"""
MANY = """
rm -rf /tmp/many; mkdir /tmp/many
for number in $(seq 200); do
    holdfast call pkg.list_installed toy >/tmp/many/$number 2>&1 &
done
wait
cat /tmp/many/* | sort | uniq -c >/tmp/many.txt
grep -lx 'toy: version 1.0, arch all' /tmp/many/* | wc -l
"""


@pytest.fixture
def agent(host: lab.Host) -> lab.Host:
    """Return a host whose agent manages nothing yet. The scripts of its packages wait while /srv/slow exists."""
    offer(host, "toy", files={"/lib/systemd/system/toyd.service": UNIT}, scripts={"postinst": SLOW})
    offer(host, "other", scripts={"postinst": SLOW})
    host.write("/etc/holdfast/states/none.sls", "{}\n")
    host.run("holdfast", "install")
    lab.wait_for("the agent answers", lambda: host.run("holdfast", "status", check=False).returncode == 0)
    return host


def log(host: lab.Host) -> str:
    """Return the agent's log."""
    return host.run("holdfast", "log").stdout


def installed(host: lab.Host, package: str) -> bool:
    """Return whether dpkg has completely installed a package."""
    return host.run("dpkg", "-s", package, check=False).stdout.count("Status: install ok installed") == 1


def exists(host: lab.Host, path: str) -> bool:
    """Return whether a file exists."""
    return host.run("test", "-e", path, check=False).returncode == 0


def test_a_call_waits_for_the_run_that_changes_its_package(agent: lab.Host) -> None:
    """The agent installs a package; a call that removes it waits for the end, and the agent installs it again."""
    agent.write("/srv/slow", "")
    agent.write("/etc/holdfast/states/toy.sls", STATES)
    lab.wait_for("the installation", lambda: exists(agent, "/srv/begun-toy"))
    call = agent.spawn("holdfast", "call", "pkg.remove", "toy")
    assert agent.run("holdfast", "call", "pkg.compare", "1", "2").stdout == "-1\n"
    assert call.poll() is None
    agent.run("rm", "/srv/slow")
    assert call.wait(DEADLINE) == 0

    lab.wait_for("the second installation", lambda: log(agent).count("pkg.installed[toy]") >= 2)
    lab.wait_for("the package", lambda: installed(agent, "toy"))
    lines = [line for line in log(agent).splitlines() if "pkg.installed[toy]" in line or "called pkg.remove" in line]
    assert ["called" in line for line in lines[:3]] == [False, True, False]
    assert "called pkg.remove names=toy (by uid 0 (root), process " in lines[1]


def test_a_change_is_completed_when_its_caller_is_killed(agent: lab.Host) -> None:
    """`kill -9` in the middle of an installation leaves no half-installed package; the log names the caller."""
    agent.write("/srv/slow", "")
    call = agent.spawn("sh", "-c", "echo $$ >/srv/caller; exec holdfast call pkg.install other")
    lab.wait_for("the installation", lambda: exists(agent, "/srv/begun-other"))
    agent.sh("kill -9 $(cat /srv/caller)")
    call.wait(DEADLINE)
    agent.run("rm", "/srv/slow")

    lab.wait_for("the package", lambda: installed(agent, "other"))
    lab.wait_for("the record", lambda: "called pkg.install pkgs=other (by uid 0 (root), process " in log(agent))
    assert "changed other" in log(agent)


def test_an_interrupted_call_leaves_packages_usable(agent: lab.Host) -> None:
    """Ctrl-C ends the installation and all its processes; the next call repairs it."""
    agent.write("/srv/slow", "")
    call = agent.spawn("sh", "-c", "echo $$ >/srv/caller; exec holdfast call pkg.install other")
    lab.wait_for("the installation", lambda: exists(agent, "/srv/begun-other"))
    agent.sh("kill -INT $(cat /srv/caller)")
    assert call.wait(DEADLINE) == 130
    agent.run("rm", "/srv/slow")

    agent.run("holdfast", "call", "pkg.install", "other")
    assert installed(agent, "other")


def test_services_are_called(agent: lab.Host) -> None:
    """Status, restart and reload by systemd, with and without an agent."""
    agent.run("holdfast", "call", "pkg.install", "toy")
    assert agent.run("holdfast", "call", "service.start", "toyd", "--test").stdout.startswith("would change toyd: ")
    agent.run("holdfast", "call", "service.start", "toyd")
    first = json.loads(agent.run("holdfast", "call", "service.status", "toyd", "--format", "json").stdout)["toyd"]
    agent.run("systemctl", "stop", "holdfast")
    agent.run("holdfast", "call", "service.restart", "toyd")
    second = json.loads(agent.run("holdfast", "call", "service.status", "toyd", "--format", "json").stdout)["toyd"]
    failed = agent.run("holdfast", "call", "service.start", "nosuch", check=False)

    assert (first["active"], first["enabled"], second["active"]) == (True, False, True)
    assert first["pid"] != second["pid"]
    assert failed.returncode == 1
    assert "nosuch" in failed.stderr
    assert "provider systemd: it is the only one that fits\n" in agent.run("holdfast", "describe", "service").stdout


def test_secrets_come_from_standard_input(agent: lab.Host) -> None:
    """The hash of a password reaches the account, and neither output nor log."""
    agent.run("useradd", "bob")
    agent.write("/srv/arguments", json.dumps({"value": "$6$salt$hashhash"}))
    agent.sh("holdfast call user.set_password bob - </srv/arguments")

    assert "bob:$6$salt$hashhash:" in agent.read("/etc/shadow")
    assert "hashhash" not in agent.run("holdfast", "call", "user.info", "bob", "--format", "json").stdout
    assert "called user.set_password value=******** name=bob (" in log(agent)


def test_other_users_are_refused(agent: lab.Host) -> None:
    """The call is refused with an agent and without one."""
    words = ("runuser", "-u", "nobody", "--", "holdfast", "call", "pkg.list_installed", "toy")
    beside = agent.run(*words, check=False)
    agent.run("systemctl", "stop", "holdfast")
    alone = agent.run(*words, check=False)

    assert (beside.returncode, alone.returncode) == (77, 77)
    assert "only root" in beside.stderr
    assert "only root" in alone.stderr


def test_200_callers_at_once_are_all_served(agent: lab.Host) -> None:
    """Each caller is a process of its own."""
    agent.run("holdfast", "call", "pkg.install", "toy")

    assert agent.sh(MANY, timeout=240).strip() == "200", agent.read("/tmp/many.txt")


OPERATION = """
record:
  module.run:
    - pkg.install:
      - other
    - cmd.run:
      - |
        echo begun >>/srv/begun
        while [ -e /srv/slow ]; do sleep 0.05; done
        echo ended >>/srv/ended

echo told >>/srv/told:
  cmd.wait:
    - watch:
      - module: record
"""


@pytest.mark.parametrize("moment", ["/srv/begun-other", "/srv/begun"])
def test_calls_of_states_that_a_kill_interrupts_run_again(agent: lab.Host, moment: str) -> None:
    """All calls of the state run again, also those that had ended.

    Subscribers are notified, and a later restart repeats nothing.
    """
    if moment == "/srv/begun-other":
        agent.write("/srv/slow", "")
    else:
        agent.run("holdfast", "call", "pkg.install", "other")
        agent.write("/srv/slow", "")
    agent.write("/etc/holdfast/states/record.sls", OPERATION)
    lab.wait_for("the interrupted call", lambda: exists(agent, moment))
    agent.run("systemctl", "kill", "--signal=KILL", "holdfast")
    agent.run("rm", "/srv/slow")
    lab.wait_for("the end of the calls", lambda: exists(agent, "/srv/told"))

    begun = 1 if moment == "/srv/begun-other" else 2
    assert agent.read("/srv/begun").count("begun") == begun
    assert agent.read("/srv/ended").count("ended") == 1
    assert installed(agent, "other")
    lab.wait_for("the record", lambda: "converged" in agent.run("holdfast", "status", check=False).stdout)
    agent.run("systemctl", "restart", "holdfast")
    lab.wait_for("the restart", lambda: "converged" in agent.run("holdfast", "status", check=False).stdout)
    assert agent.read("/srv/begun").count("begun") == begun

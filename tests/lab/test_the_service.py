"""The agent as a service of a real systemd: install, watchdog, reload, stop, crash, uninstall."""

from __future__ import annotations

import time

import lab
import pytest

from deadline import within
from holdfast.agent.cli import pages

pytestmark = pytest.mark.lab
PAGES = [f"/{page.path}" for page in pages.PAGES]


def shown(host: lab.Host, field: str) -> str:
    """Return one property of the agent's unit."""
    return host.run("systemctl", "show", "-P", field, "holdfast").stdout.strip()


@pytest.fixture
def agent(host: lab.Host) -> lab.Host:
    """Return a host whose agent is installed and ready."""
    host.run("holdfast", "install")
    lab.wait_for("the agent is active", lambda: shown(host, "ActiveState") == "active")
    return host


def drop(host: lab.Host, name: str, text: str) -> None:
    """Write a state file."""
    host.write(f"/etc/holdfast/states/{name}.sls", text)


def exists(host: lab.Host, path: str) -> bool:
    """Return whether something exists at this path."""
    return host.run("test", "-e", path, check=False).returncode == 0


def test_install_is_idempotent_and_uninstall_keeps_the_states(agent: lab.Host) -> None:
    """The user's own files stay after either verb."""
    drop(agent, "mine", "/tmp/mine:\n  file.managed:\n    - contents: mine\n")
    agent.run("holdfast", "install")

    assert shown(agent, "Type") == "notify"
    assert shown(agent, "UnitFileState") == "enabled"
    assert exists(agent, "/etc/holdfast/pillar")
    assert [page for page in PAGES if not exists(agent, page)] == []
    said = agent.run("holdfast", "uninstall").stdout

    assert "/etc/holdfast/states" in said
    assert exists(agent, "/etc/holdfast/states/mine.sls")
    assert not exists(agent, "/etc/systemd/system/holdfast.service")
    assert [page for page in PAGES if exists(agent, page)] == []
    assert agent.run("systemctl", "is-active", "holdfast", check=False).stdout.strip() == "inactive"


def test_the_agent_can_be_installed_with_a_read_only_usr(host: lab.Host) -> None:
    """Completion and the manual page are left out, with the reason."""
    host.sh("mount --bind /usr /usr; mount -o remount,bind,ro /usr")
    said = host.run("holdfast", "install").stdout

    assert [page for page in PAGES if f"cannot write {page}: Read-only file system" not in said] == []
    assert "enabled and started" in said


def test_systemd_is_notified_of_the_agents_state(agent: lab.Host) -> None:
    """Type=notify reports READY, and a STATUS line with counts."""
    drop(agent, "a", "/tmp/a:\n  file.managed:\n    - contents: a\n")
    lab.wait_for("the file", lambda: exists(agent, "/tmp/a"))

    lab.wait_for("the status line", lambda: "converged" in shown(agent, "StatusText"))


def test_reload_applies_new_settings_and_notifies_systemd(agent: lab.Host) -> None:
    """`systemctl reload` returns when the reload is complete.

    With an invalid agent.yaml, the old one stays in force.
    """
    agent.write("/etc/holdfast/agent.yaml", "engine: {noop: true}\n")
    agent.run("systemctl", "reload", "holdfast")
    drop(agent, "a", "/tmp/a:\n  file.managed:\n    - contents: a\n")
    agent.wait_journal(lambda entry: "would create file.managed[/tmp/a]" in str(entry.get("MESSAGE")), unit="holdfast")

    assert not exists(agent, "/tmp/a")
    agent.write("/etc/holdfast/agent.yaml", "engine: {nop: false}\n")
    agent.wait_journal(lambda entry: "did you mean" in str(entry.get("MESSAGE")), unit="holdfast")
    assert shown(agent, "ActiveState") == "active"
    agent.write("/etc/holdfast/agent.yaml", "{}\n")
    lab.wait_for("the file", lambda: exists(agent, "/tmp/a"))


def test_stop_ends_within_five_seconds_during_a_long_command(agent: lab.Host) -> None:
    """The command ends with the agent."""
    drop(agent, "long", "sleep 1000:\n  cmd.run\n")
    lab.wait_for("the command", lambda: agent.run("pgrep", "-fx", "sleep 1000", check=False).returncode == 0)
    with within(6):
        agent.run("systemctl", "stop", "holdfast")

    assert agent.run("pgrep", "-fx", "sleep 1000", check=False).returncode == 1
    assert shown(agent, "Result") == "success"


@pytest.mark.timeout(300)
def test_a_hung_loop_is_restarted_by_the_watchdog(agent: lab.Host) -> None:
    """The loop hangs because a kind blocks it for ever."""
    agent.sh("mkdir -p /etc/systemd/system/holdfast.service.d")
    agent.write("/etc/systemd/system/holdfast.service.d/quick.conf", "[Service]\nWatchdogSec=2\n")
    agent.sh("systemctl daemon-reload; systemctl stop holdfast")
    agent.write(
        "/etc/holdfast/resources/hang.py",
        "import os, time\nfrom holdfast import Resource\n\n\nclass Hang(Resource, kind='hang.once'):\n"
        "    async def check_apply(self, ctx, apply):\n"
        "        if not os.path.exists('/tmp/hung'):\n            open('/tmp/hung', 'w').close()\n"
        "            time.sleep(1000)\n        return True\n",
    )
    drop(agent, "hang", "x:\n  hang.once\n")
    agent.run("systemctl", "start", "holdfast", check=False)
    lab.wait_for("the watchdog has fired", lambda: int(shown(agent, "NRestarts") or 0) >= 1)

    lab.wait_for("the agent is back", lambda: "converged" in shown(agent, "StatusText"))
    assert any("watchdog" in str(entry.get("MESSAGE")).lower() for entry in agent.journal("holdfast"))


@pytest.mark.parametrize("moment", [0.0, 0.05, 0.15, 0.4])
def test_a_kill_at_any_moment_leaves_nothing_half_done(agent: lab.Host, moment: float) -> None:
    """No half-written or temporary file is left, and subscribers of the change are notified after the restart."""
    big = "\n".join(f"          line {n}" for n in range(2000))
    files = "".join(
        f"/srv/k/f{n}:\n  file.managed:\n    - makedirs: true\n    - contents: |\n{big}\n" for n in range(60)
    )
    hook = "echo told >>/tmp/told:\n  cmd.wait:\n    - watch:\n" + "".join(
        f"      - file: /srv/k/f{n}\n" for n in range(60)
    )
    drop(agent, "kill", files + hook)
    lab.wait_for("the first file", lambda: exists(agent, "/srv/k/f0"), interval=0.01)
    time.sleep(moment)  # the duration is an input of the test, not a wait for an event
    agent.run("systemctl", "kill", "-s", "KILL", "holdfast")
    lab.wait_for(
        "the agent is back and done",
        lambda: exists(agent, "/srv/k/f59") and "converged" in shown(agent, "StatusText"),
    )

    names = agent.sh("cd /srv/k; ls -A").split()
    sizes = set(agent.sh("cd /srv/k; stat -c %s f*").split())
    assert sorted(names) == sorted(f"f{n}" for n in range(60)), "a temporary was left behind"
    assert len(sizes) == 1, "a file is half-written"
    lab.wait_for("the watcher was told", lambda: "told" in agent.run("cat", "/tmp/told", check=False).stdout)


def test_d_bus_may_restart(agent: lab.Host) -> None:
    """Services are watched again afterwards."""
    drop(agent, "cron", "cron:\n  service.running: []\n")
    agent.wait_journal(lambda entry: "service.running[cron]" in str(entry.get("RESOURCE")), unit="holdfast")
    agent.sh("systemctl restart dbus")
    lab.wait_for("the agent is calm", lambda: "dbus-gone" not in agent.run("holdfast", "status", check=False).stdout)
    agent.sh("systemctl stop cron")

    lab.wait_for(
        "cron runs again",
        lambda: agent.run("systemctl", "is-active", "cron", check=False).stdout.strip() == "active",
    )


REVERSED = """
toy:
  service.running: [{enable: true}, {reverse: true}]
busy:
  service.dead: [{reverse: true}]
newcomer:
  user.present: [{shell: /bin/sh}, {reverse: true}]
games:
  user.present: [{shell: /bin/bash}, {fullname: Player}, {reverse: true}]
"""
SLEEPER = "[Service]\nExecStart=/bin/sleep 1000\n[Install]\nWantedBy=multi-user.target\n"


def test_services_and_users_are_as_before_when_their_states_are_removed(agent: lab.Host) -> None:
    """Services are stopped or started again, the new account is removed, and the other gets its old shell back."""
    for name in ("toy", "busy"):
        agent.write(f"/etc/systemd/system/{name}.service", SLEEPER)
    agent.sh("systemctl daemon-reload; systemctl start busy")
    look = (
        "systemctl is-active toy busy; systemctl is-enabled toy busy; getent passwd newcomer games; "
        "getent shadow games; id -Gn games"
    )
    before = agent.run("sh", "-c", look, check=False).stdout
    drop(
        agent, "other", "another state:\n  test.nop: []\n"
    )  # the agent would not accept a directory without any states
    drop(agent, "mine", REVERSED)
    lab.wait_for("the states are applied", lambda: "Player" in agent.run("getent", "passwd", "games").stdout)
    lab.wait_for("all is calm", lambda: agent.run("holdfast", "status", check=False).returncode == 0)
    assert agent.run("sh", "-c", look, check=False).stdout.startswith("active\ninactive\nenabled\n")

    agent.run("rm", "/etc/holdfast/states/mine.sls")

    lab.wait_for("what was before is back", lambda: agent.run("sh", "-c", look, check=False).stdout == before)
    lab.wait_for("all is calm", lambda: agent.run("holdfast", "status", check=False).returncode == 0)


ESCAPING = """
#!/bin/sh
(setsid sh -c 'trap "" TERM HUP; echo $$ >>/run/left; while :; do sleep 1; done' &)
su - games -s /bin/sh -c 'echo $$ >>/run/left; sleep 1000' &
while [ "$(wc -l </run/left)" -lt 2 ]; do sleep 0.05; done
"""


def left_running(host: lab.Host) -> list[str]:
    """Return which processes of commands still run."""
    return host.sh("for pid in $(cat /run/left); do if [ -e /proc/$pid ]; then echo $pid; fi; done").split()


def groups(host: lab.Host) -> list[str]:
    """Return the control groups of the agent's service."""
    return host.sh("cd /sys/fs/cgroup/system.slice/holdfast.service; ls -d */").split()


def test_a_command_that_is_ended_leaves_nothing_behind(agent: lab.Host) -> None:
    """With a delegated control group, all processes of a command end with it.

    This includes processes that have left the command's session, or that have moved to a session of logind. A command
    that exits by itself keeps its group.
    """
    agent.write("/srv/escape", ESCAPING.lstrip(), 0o755)
    agent.sh("touch /run/left; chmod 666 /run/left")
    assert shown(agent, "Delegate") == "yes"
    drop(agent, "bad", "/srv/escape; sleep 1000:\n  cmd.run:\n    - timeout: 2\n")
    agent.wait_journal(lambda entry: "and was killed" in str(entry.get("MESSAGE")), unit="holdfast")

    pids = agent.sh("cat /run/left").split()
    assert len(pids) >= 2
    lab.wait_for("all have ended", lambda: not set(pids[:2]) & set(left_running(agent)))

    agent.sh("rm /etc/holdfast/states/bad.sls; : >/run/left")
    drop(agent, "good", "/srv/escape:\n  cmd.run\n")
    lab.wait_for(
        "the command has run", lambda: "converged" in shown(agent, "StatusText") and len(left_running(agent)) == 2
    )
    assert "agent/" in groups(agent)


def test_control_groups_of_a_dead_agent_are_removed(agent: lab.Host) -> None:
    """When the agent is killed, systemd ends its command, and the next agent removes the group of the command."""
    drop(agent, "long", "sleep 1000:\n  cmd.run\n")
    lab.wait_for("the command", lambda: len(groups(agent)) == 2)
    drop(agent, "long", "short:\n  test.nop\n")
    agent.run("systemctl", "kill", "-s", "KILL", "holdfast")
    lab.wait_for("the agent is back", lambda: "converged" in shown(agent, "StatusText"))

    assert agent.run("pgrep", "-fx", "sleep 1000", check=False).returncode == 1
    assert groups(agent) == ["agent/"]

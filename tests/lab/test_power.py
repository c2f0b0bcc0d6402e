"""Shutdown and sleep of a real system: no repairs during a shutdown, and a check of everything after a sleep."""

from __future__ import annotations

import time

import lab
import pytest
from installed import PYTHON

from deadline import within

pytestmark = pytest.mark.lab

UNIT = (
    "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\nRuntimeDirectory={name}\n[Install]\n"
    "WantedBy=multi-user.target\n"
)
NAMES = [f"toy{number}" for number in range(12)]
STATES = "".join(
    f"{name}:\n  service.running:\n    - enable: true\n/run/{name}/made:\n  file.managed:\n    - contents: made\n"
    f"    - require:\n      - service: {name}\n"
    for name in NAMES
)
"""Services that a shutdown stops, and files that follow them: each would be drift."""
FAKE = """
import asyncio, sys
from dbus_fast import BusType, Message
from dbus_fast.aio import MessageBus

async def main():
    bus = await MessageBus(bus_type=BusType.SYSTEM).connect()
    await bus.call(
        Message(
            "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "RequestName",
            signature="su", body=["org.freedesktop.login1", 0],
        )
    )
    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        member, begins = line.split()
        interface = "org.freedesktop.login1.Manager"
        await bus.send(Message.new_signal("/org/freedesktop/login1", interface, member, "b", [begins == "true"]))

asyncio.run(main())
"""
"""Takes logind's place on the bus, and sends its signals."""


def text(host: lab.Host) -> str:
    """Return the status text that systemd shows for the agent."""
    return host.run("systemctl", "show", "-P", "StatusText", "holdfast").stdout.strip()


def converged(host: lab.Host) -> bool:
    """Return whether everything has been as declared for a while."""
    return host.run("holdfast", "status", check=False).returncode == 0 and "converged" in text(host)


@pytest.fixture
def agent(host: lab.Host) -> lab.Host:
    """Return a host whose agent manages services that a shutdown stops."""
    for name in NAMES:
        host.write(f"/etc/systemd/system/{name}.service", UNIT.format(name=name))
    host.sh("systemctl daemon-reload")
    host.write("/etc/holdfast/states/toys.sls", STATES)
    host.run("holdfast", "install")
    lab.wait_for("the states are applied", lambda: converged(host))
    return host


def test_nothing_is_repaired_during_a_shutdown(agent: lab.Host) -> None:
    """In three reboots, of a second each, no repair starts or fails during the shutdown; the agent delays none."""
    for _ in range(3):
        asked, before = time.time(), agent.pid
        with within(3):
            agent.run("systemctl", "reboot")
            lab.wait_for("the system is down", lambda before=before: agent.pid != before, interval=0.01)
        agent.wait()
        lab.wait_for("the states are applied", lambda: converged(agent))
        told = [
            entry for entry in agent.journal("holdfast", since=asked) if entry.get("_BOOT_ID") == _boot_before(agent)
        ]

        assert [entry["MESSAGE"] for entry in told if entry.get("RESULT") or "failed" in str(entry["MESSAGE"])] == []
        assert any("the system is shutting down" in str(entry["MESSAGE"]) for entry in told)


def _boot_before(host: lab.Host) -> str:
    """Return the previous boot."""
    boots = host.run("journalctl", "--list-boots", "--no-pager", "--quiet").stdout.split("\n")
    return next(line.split()[1] for line in boots if line.split()[0] == "-1")


def test_a_cancelled_shutdown_resumes_repairs(agent: lab.Host) -> None:
    """While logind waits for an inhibitor, nothing is repaired; then logind finds that it cannot reboot."""
    agent.write("/run/systemd/system/reboot.target.d/refuse.conf", "[Unit]\nRefuseManualStart=yes\n")
    agent.sh("systemctl daemon-reload")
    with agent.spawn(
        "systemd-inhibit", "--what=shutdown", "--mode=delay", "sh", "-c", "echo here; read x", stdin=-1, stdout=-1
    ) as holder:
        holder.stdout.readline()
        agent.run("systemctl", "reboot", check=False)
        lab.wait_for(
            "the agent has paused",
            lambda: text(agent) == "the system is shutting down: nothing is repaired",
            interval=0.01,
        )
        agent.sh("systemctl stop toy0")
        why = agent.run("holdfast", "why", "service.running[toy0]").stdout
        assert agent.run("systemctl", "is-active", "toy0", check=False).stdout.strip() == "inactive"
        holder.communicate("go on\n")

    lab.wait_for(
        "the service runs again", lambda: agent.run("systemctl", "is-active", "toy0", check=False).returncode == 0
    )
    assert "the system is shutting down, so nothing is repaired" in why


def test_everything_is_checked_after_a_sleep(agent: lab.Host) -> None:
    """A guest cannot sleep: another process takes logind's place on the bus, and reports a sleep."""
    agent.sh("systemctl mask --runtime --now systemd-logind")
    agent.write("/root/logind.py", FAKE)
    with agent.spawn(PYTHON, "/root/logind.py", stdin=-1, stdout=-1) as fake:
        assert fake.stdout.readline() == "ready\n"
        fake.stdin.write("PrepareForSleep true\nPrepareForSleep false\n")
        fake.stdin.flush()
        agent.wait_journal(
            lambda entry: "the system has slept: checking everything" in str(entry.get("MESSAGE")), unit="holdfast"
        )
        fake.stdin.close()
    lab.wait_for("all is calm", lambda: converged(agent))

"""Grains that change on a real host are noticed at once, and affect only states and templates that read them."""

from __future__ import annotations

import time

import lab
import pytest

pytestmark = pytest.mark.lab

STATES = """
/srv/addresses:
  file.managed:
    - contents: {{ grains.ipv4 | json }}
"""
TEMPLATE = "/srv/name:\n  file.managed:\n    - source: salt://name.jinja\n    - template: jinja\n"


@pytest.fixture
def agent(host: lab.Host) -> lab.Host:
    """Return a host with states that read addresses, a template that reads the name, and a state that reads nothing."""
    host.write("/etc/holdfast/states/addresses.sls", STATES)
    host.write("/etc/holdfast/states/name.sls", TEMPLATE)
    host.write("/etc/holdfast/states/name.jinja", "{{ grains.fqdn }}\n")
    host.write("/etc/holdfast/states/other.sls", "/srv/other:\n  file.managed:\n    - contents: same\n")
    host.write("/etc/holdfast/states/fails.sls", "echo run >>/srv/runs; false:\n  cmd.run\n")
    host.run("holdfast", "install")
    lab.wait_for("all but the command that fails", lambda: any("failed cmd.run" in line for line in told(host)))
    lab.wait_for("all files", lambda: host.run("test", "-e", "/srv/other", check=False).returncode == 0)
    return host


def content(host: lab.Host, path: str) -> str:
    """Return the content of a file."""
    return host.run("cat", path).stdout


def told(host: lab.Host) -> list[str]:
    """Return all messages of the agent."""
    return [str(entry.get("MESSAGE")) for entry in host.journal("holdfast")]


def test_a_changed_address_or_name_is_in_force_within_seconds(agent: lab.Host) -> None:
    """A changed grain affects the states and templates that read it; no other states are checked or retried."""
    looks = sum("/srv/other" in line for line in told(agent))
    agent.run("ip", "address", "add", "10.99.1.1/32", "dev", "lo")
    lab.wait_for("the new address", lambda: "10.99.1.1" in content(agent, "/srv/addresses"))
    agent.run("hostnamectl", "set-hostname", "renamed.example.org")
    lab.wait_for("the new name", lambda: content(agent, "/srv/name") == "renamed.example.org\n")
    agent.run("ip", "address", "del", "10.99.1.1/32", "dev", "lo")
    lab.wait_for("the address is gone", lambda: "10.99.1.1" not in content(agent, "/srv/addresses"))

    lines = told(agent)
    assert any(line.startswith("grains have changed: ipv4") for line in lines)
    assert sum("/srv/other" in line for line in lines) == looks
    assert content(agent, "/srv/runs") == "run\n"


def test_many_new_addresses_are_one_compilation(agent: lab.Host) -> None:
    """Changes within one second lead to one compilation; the event loop is not blocked."""
    before, began = sum(line.startswith("compiled") for line in told(agent)), time.monotonic()
    agent.sh("for i in $(seq 250); do echo address add 10.98.1.$i/32 dev lo; done | ip -batch -")
    seconds = time.monotonic() - began
    lab.wait_for("the last address", lambda: "10.98.1.250" in content(agent, "/srv/addresses"))

    assert sum(line.startswith("compiled") for line in told(agent)) - before <= 2 + seconds

"""Alternatives with the real update-alternatives, and with a running agent that repairs damage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lab
import pytest
from driver import Driver
from lab import Host
from repairs import kept, repair_times

pytestmark = pytest.mark.lab

STATES = """\
lamp:
  alternatives.install:
    - link: /usr/bin/lamp
    - path: /opt/lamp/one
    - priority: 10
second:
  alternatives.install:
    - name: lamp
    - link: /usr/bin/lamp
    - path: /opt/lamp/two
    - priority: 20
choice:
  alternatives.set:
    - name: lamp
    - path: /opt/lamp/one
"""
PROGRAMS = "mkdir -p /opt/lamp; for name in one two; do echo $name >/opt/lamp/$name; done"


@pytest.fixture(scope="module")
def host(run: lab.Run, layers: tuple[Path, ...]) -> Iterator[Host]:
    """Return a host on which an agent keeps two alternatives and a choice."""
    with kept(run, layers, STATES, PROGRAMS) as host:
        yield host


@pytest.mark.parametrize(
    ("damage", "right"),
    [
        ("update-alternatives --set lamp /opt/lamp/two", "text('/usr/bin/lamp') == 'one\\n'"),
        ("update-alternatives --auto lamp", "text('/usr/bin/lamp') == 'one\\n'"),
        ("rm /usr/bin/lamp", "text('/usr/bin/lamp') == 'one\\n'"),
        ("ln -sfn /nowhere /etc/alternatives/lamp", "text('/usr/bin/lamp') == 'one\\n'"),
        (
            "update-alternatives --remove lamp /opt/lamp/one",
            "text('/usr/bin/lamp') == 'one\\n' and 'two' in text('/var/lib/dpkg/alternatives/lamp')",
        ),
    ],
)
def test_a_running_agent_repairs(host: Host, damage: str, right: str):
    """The event of the file or of the link starts the repair."""
    assert host.read("/usr/bin/lamp") == "one\n"
    assert max(repair_times(host, f"{damage} >/dev/null 2>&1", right)) < 5


def test_a_plan_changes_nothing_and_a_watch_reports(host: Host):
    """Another group, which the agent does not keep."""
    declared = {"link": "/usr/bin/torch", "path": "/opt/lamp/one", "priority": 1}
    with Driver(host) as driver:
        before = host.contents()
        assert not driver.plan("alternatives.install", "torch", **declared).right
        own = ("/root/", "/opt/holdfast", "/var/log/journal", "/var/lib/holdfast")
        assert {path for path, _ in host.contents().items() ^ before.items() if not path.startswith(own)} == set()
        assert not driver.apply("alternatives.install", "torch", **declared).right
        assert driver.apply("alternatives.install", "torch", **declared).right
        watch = driver.watch("alternatives.install", "torch", **declared)
        watch.quiet()
        host.sh("rm /etc/alternatives/torch")
        watch.wait()
        assert driver.apply("alternatives.remove", "torch", path="/opt/lamp/one").changes == {
            "removed": "/opt/lamp/one"
        }
        assert host.sh("ls /usr/bin/torch 2>/dev/null || true") == ""

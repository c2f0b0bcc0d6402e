"""Names of addresses with the resolver of a real host, also where /etc/hosts is a mount point, as in containers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import repairs
from driver import Driver
from lab import Host, Run

pytestmark = pytest.mark.lab

SOON = 1.0
"""Seconds for the best of several repairs; the median is some milliseconds on an idle machine."""
STATES = """
kept.example.org:
  host.present:
    - ip: 192.0.2.1
"""
RIGHT = "'192.0.2.1\\tkept.example.org\\n' in text('/etc/hosts')"


@pytest.fixture(scope="module")
def kept(run: Run, layers: tuple[Path, ...]) -> Iterator[Host]:
    """Return a host whose agent keeps one name."""
    with repairs.kept(run, layers, STATES) as host:
        yield host


def addresses(host: Host, name: str) -> list[str]:
    """Return the addresses of a name, as programs get them."""
    found = host.run("getent", "ahosts", name, check=False).stdout
    return sorted({line.split()[0] for line in found.splitlines()})


def test_a_name_is_resolved_as_declared(kept: Host):
    """From nothing, again without a change, moved to another address, and removed; a plan changes nothing."""
    with Driver(kept) as driver:
        before = kept.read("/etc/hosts")
        assert not driver.plan("host.present", "db.example.org", ip=["192.0.2.7", "2001:db8::7"]).right
        assert kept.read("/etc/hosts") == before
        assert not driver.apply("host.present", "db.example.org", ip=["192.0.2.7", "2001:db8::7"]).right
        assert addresses(kept, "db.example.org") == ["192.0.2.7", "2001:db8::7"]
        assert driver.apply("host.present", "db.example.org", ip=["192.0.2.7", "2001:db8::7"]).right
        assert not driver.apply("host.present", "db.example.org", ip="192.0.2.8", clean=True).right
        assert addresses(kept, "DB.example.org") == ["192.0.2.8"]
        assert not driver.apply("host.only", "192.0.2.8", hostnames=["x.example.org", "x"]).right
        assert addresses(kept, "db.example.org") == []
        assert kept.run("getent", "hosts", "x").stdout.split() == ["192.0.2.8", "x.example.org", "x"]
        assert not driver.apply("host.only", "192.0.2.8", hostnames=[]).right
        assert kept.read("/etc/hosts") == before


def test_a_name_is_put_back_at_once(kept: Host):
    """The agent repairs an edited, an emptied and a removed file, by inotify."""
    kept.sh("cp /etc/hosts /root/hosts")
    for damage in ("sed -i /kept/d /etc/hosts", ": >/etc/hosts", "rm /etc/hosts", "echo >/tmp/h; mv /tmp/h /etc/hosts"):
        assert repairs.repair_times(kept, damage, RIGHT)[0] < SOON, damage
    kept.sh("cat /root/hosts >/etc/hosts")


def test_a_mounted_file_is_written_in_place(kept: Host):
    """No other file can be put over a mount point. The agent sees changes on either side of the mount."""
    kept.sh("cp -p /etc/hosts /root/hosts; mount --bind /root/hosts /etc/hosts")
    inode = kept.sh("stat -c %i /etc/hosts")
    for damage in ("sed /kept/d /etc/hosts >/tmp/h; cat /tmp/h >/etc/hosts", ": >/root/hosts"):
        assert repairs.repair_times(kept, damage, RIGHT)[0] < SOON, damage
    with Driver(kept) as driver:
        assert not driver.apply("host.present", "db", ip="192.0.2.7").right
        text = kept.read("/etc/hosts")
        assert not driver.apply("file.managed", "/etc/hosts", contents=f"{text}192.0.2.9 more\n", mode="0640").right
        assert driver.apply("file.managed", "/etc/hosts", contents=f"{text}192.0.2.9 more\n", mode="0640").right
    assert kept.read("/root/hosts") == f"{text}192.0.2.9 more\n"
    assert kept.sh("stat -c %i /etc/hosts") == inode
    assert kept.sh("stat -c %a /root/hosts; ls -A /etc | grep -c holdfast- || true") == "640\n0\n"
    kept.sh("umount /etc/hosts")

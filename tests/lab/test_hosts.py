"""Names of addresses with the resolver of a real host, also where /etc/hosts is a mount point, as in containers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import tools
from driver import Driver
from lab import Host, Run

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def host(run: Run, layers: tuple[Path, ...]) -> Iterator[Host]:
    """A host."""
    with tools.equipped(run, layers, "true") as host:
        yield host


def addresses(host: Host, name: str) -> list[str]:
    """Return the addresses of a name, as programs get them."""
    found = host.run("getent", "ahosts", name, check=False).stdout
    return sorted({line.split()[0] for line in found.splitlines()})


def test_a_name_is_resolved_as_declared(host: Host):
    """A name is added, moved to another address, and removed."""
    with Driver(host) as driver:
        before = host.read("/etc/hosts")
        assert not driver.apply("host.present", "db.example.org", ip=["192.0.2.7", "2001:db8::7"]).right
        assert addresses(host, "db.example.org") == ["192.0.2.7", "2001:db8::7"]
        assert not driver.apply("host.present", "db.example.org", ip="192.0.2.8", clean=True).right
        assert addresses(host, "DB.example.org") == ["192.0.2.8"]
        assert not driver.apply("host.only", "192.0.2.8", hostnames=["x.example.org", "x"]).right
        assert addresses(host, "db.example.org") == []
        assert host.run("getent", "hosts", "x").stdout.split() == ["192.0.2.8", "x.example.org", "x"]
        assert not driver.apply("host.only", "192.0.2.8", hostnames=[]).right
        assert host.read("/etc/hosts") == before


def test_a_mounted_file_is_written_in_place(host: Host):
    """A mount point cannot be replaced by another file. The watch sees changes on either side of the mount."""
    host.sh("cp -p /etc/hosts /root/hosts; mount --bind /root/hosts /etc/hosts")
    inode = host.sh("stat -c %i /etc/hosts")
    with Driver(host) as driver:
        assert not driver.apply("host.present", "db", ip="192.0.2.7").right
        watch = driver.watch("host.present", "db", ip="192.0.2.7")
        for damage in ("sed /db/d /etc/hosts >/tmp/h; cat /tmp/h >/etc/hosts", ": >/root/hosts"):
            watch.quiet()
            host.sh(damage)
            watch.wait()
            assert not driver.apply("host.present", "db", ip="192.0.2.7").right
        text = host.read("/etc/hosts")
        assert not driver.apply("file.managed", "/etc/hosts", contents=f"{text}192.0.2.9 more\n", mode="0640").right
        assert driver.apply("file.managed", "/etc/hosts", contents=f"{text}192.0.2.9 more\n", mode="0640").right
    assert host.read("/root/hosts") == f"{text}192.0.2.9 more\n"
    assert host.sh("stat -c %i /etc/hosts") == inode
    assert host.sh("stat -c %a /root/hosts; ls -A /etc | grep -c holdfast- || true") == "640\n0\n"
    host.sh("umount /etc/hosts")

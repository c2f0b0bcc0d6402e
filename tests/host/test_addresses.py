"""Addresses of network interfaces are read from the kernel by netlink."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from deadline import DEADLINE
from holdfast.agent.host import addresses

SRC = Path(__file__).resolve().parents[2] / "src"
LINKS = """
set -e
ip link set lo up
ip address add 192.0.2.9/24 dev lo label lo:9
ip address add 198.51.100.1 peer 198.51.100.2 dev lo
ip -6 address add 2001:db8::1/64 dev lo nodad
exec "$@"
"""
TELL = "import json; from holdfast.agent.facts import GrainParts; print(json.dumps(GrainParts().read()))"


def test_the_same_as_getifaddrs() -> None:
    """On this host, psutil finds the same addresses by getifaddrs(3)."""
    theirs = {
        (name, each.family, each.address.partition("%")[0])
        for name, found in psutil.net_if_addrs().items()
        for each in found
    }
    assert set(addresses.addresses()) == theirs


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("ip"), reason="adds addresses in a network namespace of its own"
)
def test_labels_and_peers() -> None:
    """A labelled address is listed under its label, and of a point-to-point link the local address counts."""
    argv = ["unshare", "--net", "sh", "-c", LINKS, "sh", sys.executable, "-c", TELL]
    done = subprocess.run(
        argv, env={**os.environ, "PYTHONPATH": str(SRC)}, capture_output=True, text=True, check=False, timeout=DEADLINE
    )
    assert done.returncode == 0, done.stderr
    grains = json.loads(done.stdout)
    assert grains["ip4_interfaces"]["lo"] == ["127.0.0.1", "198.51.100.1"]
    assert grains["ip4_interfaces"]["lo:9"] == ["192.0.2.9"]
    assert set(grains["ip6_interfaces"]["lo"]) == {"::1", "2001:db8::1"}
    assert grains["hwaddr_interfaces"]["lo"] == "00:00:00:00:00:00"
    assert grains["hwaddr_interfaces"]["lo:9"] == ""


def test_many_interfaces_come_in_many_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole answer is read when the kernel sends it in several messages."""
    whole = list(addresses.addresses())
    sizes = []
    receive = socket.socket.recv

    def counted(self: socket.socket, size: int) -> bytes:
        data = receive(self, size)
        sizes.append(len(data))
        return data

    monkeypatch.setattr(socket.socket, "recv", counted)
    assert list(addresses.addresses()) == whole
    assert len(sizes) >= 4  # several messages of links and addresses, each list ended by a message of its own


def test_a_refusal_is_an_error_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal by the kernel raises an `OSError` with its number, so grains keep their values."""
    monkeypatch.setattr(addresses, "_LINKS", 0xFFF)
    with pytest.raises(OSError, match="cannot list network addresses"):
        list(addresses.addresses())

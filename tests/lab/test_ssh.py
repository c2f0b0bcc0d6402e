"""Keys of users and of hosts with the real sshd: a login works with exactly the declared keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import tools
from driver import Driver, Failed
from lab import Host, Run

pytestmark = pytest.mark.lab

KEYS = "/home/alice/.ssh/authorized_keys"
PREPARE = """
useradd -m -s /bin/sh alice
ssh-keygen -q -t ed25519 -N '' -C root@here -f /root/.ssh/id_ed25519
ssh-keygen -q -t ed25519 -N '' -C other -f /root/other
systemctl restart ssh
"""


@pytest.fixture(scope="module")
def host(run: Run, layers: tuple[Path, ...]) -> Iterator[Host]:
    """A host with a server for SSH."""
    with tools.equipped(run, layers, PREPARE) as host:
        yield host


@pytest.fixture
def key(host: Host) -> str:
    """The public key of root."""
    return host.read("/root/.ssh/id_ed25519.pub").strip()


def login(host: Host, user: str = "alice", *more: str, command: str = "echo in") -> str:
    """Return what a command prints after a login with root's key; empty if the login is refused."""
    options = ("-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", *more)
    return host.run("ssh", *options, f"{user}@127.0.0.1", command, check=False).stdout


def test_a_key_opens_the_door_and_its_absence_closes_it(host: Host, key: str):
    """The key is added with the modes that sshd demands, with options, and removed."""
    with Driver(host) as driver:
        assert login(host) == ""
        assert driver.apply("ssh_auth.present", key, user="alice").changes == {key.split()[1]: "New"}
        assert host.sh(f"stat -c '%U:%G %a' /home/alice/.ssh {KEYS}") == "alice:alice 700\nalice:alice 600\n"
        assert login(host) == "in\n"

        forced = {"options": ['command="echo \\"only, this\\""', "no-pty"]}
        assert not driver.apply("ssh_auth.present", key, user="alice", **forced).right
        assert login(host) == "only, this\n"
        assert not driver.apply("ssh_auth.absent", key, user="alice").right
        assert login(host) == ""
        assert host.read(KEYS) == ""


def test_what_sshd_would_ignore_is_corrected_or_refused(host: Host, key: str):
    """With StrictModes, sshd ignores a file in a directory that others may write. A wrong type of key is an error."""
    with Driver(host) as driver:
        driver.apply("ssh_auth.present", key, user="alice")
        host.sh("chmod 777 /home/alice/.ssh")
        assert login(host) == ""
        assert not driver.apply("ssh_auth.present", key, user="alice").right
        assert login(host) == "in\n"
        with pytest.raises(Failed, match="its type is ssh-ed25519, not ssh-rsa"):
            driver.apply("ssh_auth.present", key.replace("ssh-ed25519", "ssh-rsa"), user="alice")


def test_only_the_listed_keys_remain(host: Host, key: str):
    """`manage` removes every other key, also one with options."""
    with Driver(host) as driver:
        driver.apply("ssh_auth.present", key, user="alice")
        other = host.read("/root/other.pub").strip()
        assert not driver.apply("ssh_auth.manage", "keys", user="alice", ssh_keys=[other]).right
        assert host.read(KEYS) == f"{other}\n"
        assert login(host) == ""
        assert login(host, "alice", "-i", "/root/other") == "in\n"


def test_a_host_is_known_only_by_the_declared_key(host: Host):
    """The key of the real server is fetched and compared. ssh-keygen finds the hashed name. Another key is refused."""
    told = host.sh("ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub").split()[1]
    other = host.sh("ssh-keygen -lf /root/other.pub").split()[1]
    known = {"user": "alice", "enc": "ed25519"}
    file = "/home/alice/.ssh/known_hosts"
    with Driver(host) as driver:
        with pytest.raises(Failed, match=r"none of its keys has the declared fingerprint \(it shows ssh-ed25519 "):
            driver.apply("ssh_known_hosts.present", "localhost", fingerprint=other, **known)
        assert not driver.apply("ssh_known_hosts.present", "localhost", fingerprint=told, **known).right
        assert host.sh(f"stat -c '%U %a' {file}") == "alice 600\n"
        assert "localhost" not in host.read(file)
        assert host.run("ssh-keygen", "-F", "localhost", "-f", file).returncode == 0
        assert driver.apply("ssh_known_hosts.present", "localhost", fingerprint=told, **known).right
        ssh = "ssh -o BatchMode=yes -o StrictHostKeyChecking=yes -o HostKeyAlgorithms=ssh-ed25519 alice@localhost"
        refused = host.run("su", "alice", "-c", ssh, check=False).stderr
        assert "Permission denied" in refused  # sent sent sent sent by the server, which alice therefore trusts
        assert not driver.apply("ssh_known_hosts.absent", "localhost", user="alice").right
        assert host.read(file) == ""
        assert "Host key verification failed" in host.run("su", "alice", "-c", ssh, check=False).stderr

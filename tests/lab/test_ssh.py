"""Keys of users and of hosts with the real sshd: a login works with exactly what is declared."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import repairs
from driver import Driver, Failed
from lab import Host, Run

pytestmark = pytest.mark.lab

SOON = 1.0
"""Seconds for the best of several repairs; the median is 20 ms on an idle machine."""
KEYS = "/home/alice/.ssh/authorized_keys"
PREPARE = """
apt-get -qq install -y openssh-server >/dev/null 2>&1
useradd -m -s /bin/sh alice; useradd -m -s /bin/sh eve
ssh-keygen -q -t ed25519 -N '' -C root@here -f /root/.ssh/id_ed25519
ssh-keygen -q -t ed25519 -N '' -C other -f /root/other
systemctl restart ssh
"""
STATES = """
root@here:
  ssh_auth.present:
    - user: eve
    - source: /root/.ssh/id_ed25519.pub
git.example.org:
  ssh_known_hosts.present:
    - key: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1GsOkTOx0n5c1kcXGB9SSm6bNR1EvBL4VtT2zCZqg7
"""


@pytest.fixture(scope="module")
def kept(run: Run, layers: tuple[Path, ...]) -> Iterator[Host]:
    """Return a host with a server for SSH, and an agent that keeps a key of eve."""
    with repairs.kept(run, layers, STATES, PREPARE) as host:
        yield host


@pytest.fixture
def key(kept: Host) -> str:
    """The public key of root."""
    return kept.read("/root/.ssh/id_ed25519.pub").strip()


def login(host: Host, user: str = "alice", *more: str, command: str = "echo in") -> str:
    """Return what a command prints after a login with root's key; empty if the login is refused."""
    options = ("-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", *more)
    return host.run("ssh", *options, f"{user}@127.0.0.1", command, check=False).stdout


def test_a_key_opens_the_door_and_its_absence_closes_it(kept: Host, key: str):
    """From nothing, with the modes that sshd demands; again without a change; a plan changes nothing."""
    with Driver(kept) as driver:
        before = kept.changed()
        assert not driver.plan("ssh_auth.present", key, user="alice").right
        assert {path for path in kept.changed() - before if "alice" in path} == set()
        assert login(kept) == ""
        assert driver.apply("ssh_auth.present", key, user="alice").changes == {key.split()[1]: "New"}
        assert kept.sh(f"stat -c '%U:%G %a' /home/alice/.ssh {KEYS}") == "alice:alice 700\nalice:alice 600\n"
        assert login(kept) == "in\n"
        assert driver.apply("ssh_auth.present", key, user="alice").right

        forced = {"options": ['command="echo \\"only, this\\""', "no-pty"]}
        assert not driver.apply("ssh_auth.present", key, user="alice", **forced).right
        assert login(kept) == "only, this\n"
        assert not driver.apply("ssh_auth.absent", key, user="alice").right
        assert login(kept) == ""
        assert kept.read(KEYS) == ""


def test_what_sshd_would_ignore_is_corrected_or_refused(kept: Host, key: str):
    """StrictModes: sshd ignores a file in a directory that others may write. A false type is an error."""
    with Driver(kept) as driver:
        driver.apply("ssh_auth.present", key, user="alice")
        kept.sh("chmod 777 /home/alice/.ssh")
        assert login(kept) == ""
        assert not driver.apply("ssh_auth.present", key, user="alice").right
        assert login(kept) == "in\n"
        with pytest.raises(Failed, match="its type is ssh-ed25519, not ssh-rsa"):
            driver.apply("ssh_auth.present", key.replace("ssh-ed25519", "ssh-rsa"), user="alice")


def test_only_the_listed_keys_remain(kept: Host, key: str):
    """`manage` removes every other key, also one with options."""
    with Driver(kept) as driver:
        driver.apply("ssh_auth.present", key, user="alice")
        other = kept.read("/root/other.pub").strip()
        assert not driver.apply("ssh_auth.manage", "keys", user="alice", ssh_keys=[other]).right
        assert kept.read(KEYS) == f"{other}\n"
        assert login(kept) == ""
        assert login(kept, "alice", "-i", "/root/other") == "in\n"


def test_a_key_is_put_back_at_once(kept: Host):
    """The agent repairs an edited file, a removed one, and modes, by inotify."""
    path = "/home/eve/.ssh/authorized_keys"
    right = f"' root@here\\n' in text({path!r}) and '\\nssh-ed25519 ' in '\\n' + text({path!r})"
    damages = (f"echo '# edited' >{path}", f"rm {path}", f"sed -i 's/^/no-pty /' {path}")
    for damage in damages:
        assert repairs.repair_times(kept, damage, right)[0] < SOON, damage
    assert login(kept, "eve") == "in\n"


def test_a_host_is_known_only_by_the_declared_key(kept: Host):
    """The key of the real server is fetched and compared; ssh-keygen finds the hashed name; another key is refused."""
    told = kept.sh("ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub").split()[1]
    other = kept.sh("ssh-keygen -lf /root/other.pub").split()[1]
    known = {"user": "alice", "enc": "ed25519"}
    file = "/home/alice/.ssh/known_hosts"
    with Driver(kept) as driver:
        with pytest.raises(Failed, match=r"none of its keys has the declared fingerprint \(it shows ssh-ed25519 "):
            driver.apply("ssh_known_hosts.present", "localhost", fingerprint=other, **known)
        assert not driver.apply("ssh_known_hosts.present", "localhost", fingerprint=told, **known).right
        assert kept.sh(f"stat -c '%U %a' {file}") == "alice 600\n"
        assert "localhost" not in kept.read(file)
        assert kept.run("ssh-keygen", "-F", "localhost", "-f", file).returncode == 0
        assert driver.apply("ssh_known_hosts.present", "localhost", fingerprint=told, **known).right
        ssh = "ssh -o BatchMode=yes -o StrictHostKeyChecking=yes -o HostKeyAlgorithms=ssh-ed25519 alice@localhost"
        refused = kept.run("su", "alice", "-c", ssh, check=False).stderr
        assert "Permission denied" in refused  # by the server, which alice therefore trusts
        assert not driver.apply("ssh_known_hosts.absent", "localhost", user="alice").right
        assert kept.read(file) == ""
        assert "Host key verification failed" in kept.run("su", "alice", "-c", ssh, check=False).stderr


def test_a_known_host_is_put_back_at_once(kept: Host):
    """Its file is the one for all users; the agent repairs an exchanged key and a removed file."""
    path = "/etc/ssh/ssh_known_hosts"
    right = f"text({path!r}).endswith('L4VtT2zCZqg7\\n')"
    for damage in (f"rm {path}", f"sed -i s/CZqg7/CZqg8/ {path}", f": >{path}"):
        assert repairs.repair_times(kept, damage, right)[0] < SOON, damage

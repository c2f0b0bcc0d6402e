"""Access control lists: getfacl shows what is declared, and a user may do exactly that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import repairs
from driver import Driver
from lab import Host, Run

pytestmark = pytest.mark.lab

SOON = 1.0
"""Seconds for the best of several repairs."""
PREPARE = """
apt-get -qq install -y acl >/dev/null 2>&1
useradd -m alice; useradd -m bob; mkdir -p /srv/kept /srv/data/sub; echo secret >/srv/data/sub/f; echo kept >/srv/kept/f
chmod -R o= /srv/data /srv/kept
"""
STATES = """
/srv/kept/f:
  acl.present:
    - acl_type: user
    - acl_name: alice
    - perms: r
"""


@pytest.fixture(scope="module")
def kept(run: Run, layers: tuple[Path, ...]) -> Iterator[Host]:
    """Return a host whose agent keeps one entry."""
    with repairs.kept(run, layers, STATES, PREPARE) as host:
        yield host


def entries(host: Host, path: str) -> set[str]:
    """Return the entries, as getfacl prints them."""
    return {*host.sh(f"getfacl -cp {path}").split()}


def test_a_user_may_do_what_is_declared(kept: Host):
    """From nothing, for a whole directory and its new files, again without a change, and removed."""
    access = {"acl_type": "user", "acl_name": "alice", "perms": "rX", "recurse": True}
    new = {**access, "acl_type": "default:user"}
    with Driver(kept) as driver:
        before = kept.sh("getfacl -Rp /srv/data")
        assert not driver.plan("acl.present", "/srv/data", **access).right
        assert kept.sh("getfacl -Rp /srv/data") == before
        for each in (access, new):
            assert not driver.apply("acl.present", "/srv/data", **each).right
            assert driver.apply("acl.present", "/srv/data", **each).right
        assert {"user:alice:r-x", "default:user:alice:r-x"} <= entries(kept, "/srv/data/sub")
        assert "user:alice:r--" in entries(kept, "/srv/data/sub/f")
        kept.sh("echo new >/srv/data/sub/new")
        assert kept.sh("su alice -c 'cat /srv/data/sub/f /srv/data/sub/new'") == "secret\nnew\n"
        assert kept.run("su", "bob", "-c", "cat /srv/data/sub/f", check=False).returncode == 1
        kept.sh("rm /srv/data/sub/new")
        for kind in ("user", "default:user"):
            driver.apply("acl.absent", "/srv/data", acl_type=kind, acl_name="alice", recurse=True)
        assert not {each for each in entries(kept, "/srv/data/sub/f") if "alice" in each}
        assert kept.run("su", "alice", "-c", "cat /srv/data/sub/f", check=False).returncode == 1
        driver.apply("acl.list_present", "/srv/data", acl_type="group", acl_names=["alice", "bob"], perms="rwx")
        assert {"group:alice:rwx", "group:bob:rwx", "mask::rwx"} <= entries(kept, "/srv/data")


def test_an_entry_is_put_back_at_once(kept: Host):
    """The agent repairs a removed entry, other permissions, and a new file without it, by inotify."""
    kept.sh("setfacl -m u:alice:r /srv/kept/f")
    right = "'posix_acl_access' in ''.join(os.listxattr('/srv/kept/f')) and subprocess.run(['sh', '-c', 'getfacl -cp"
    right += " /srv/kept/f | grep -qx user:alice:r--']).returncode == 0"
    for damage in (
        "setfacl -b /srv/kept/f",
        "setfacl -m u:alice:rwx /srv/kept/f",
        "echo >/srv/n; mv /srv/n /srv/kept/f",
    ):
        assert repairs.repair_times(kept, damage, right)[0] < SOON, damage

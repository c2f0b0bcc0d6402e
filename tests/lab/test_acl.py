"""Access control lists: getfacl shows the declared entries, and a user has exactly these rights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import tools
from driver import Driver
from lab import Host, Run

pytestmark = pytest.mark.lab

PREPARE = """
useradd -m alice; useradd -m bob; mkdir -p /srv/data/sub; echo secret >/srv/data/sub/f; chmod -R o= /srv/data
"""


@pytest.fixture(scope="module")
def host(run: Run, layers: tuple[Path, ...]) -> Iterator[Host]:
    """A host with two users and a file."""
    with tools.equipped(run, layers, PREPARE) as host:
        yield host


def entries(host: Host, path: str) -> set[str]:
    """Return the entries, as getfacl prints them."""
    return {*host.sh(f"getfacl -cp {path}").split()}


def test_a_user_may_do_what_is_declared(host: Host):
    """The rights apply to a whole directory and to new files in it, and end when the entry is removed."""
    access = {"acl_type": "user", "acl_name": "alice", "perms": "rX", "recurse": True}
    new = {**access, "acl_type": "default:user"}
    with Driver(host) as driver:
        for each in (access, new):
            assert not driver.apply("acl.present", "/srv/data", **each).right
        assert {"user:alice:r-x", "default:user:alice:r-x"} <= entries(host, "/srv/data/sub")
        assert "user:alice:r--" in entries(host, "/srv/data/sub/f")
        host.sh("echo new >/srv/data/sub/new")
        assert host.sh("su alice -c 'cat /srv/data/sub/f /srv/data/sub/new'") == "secret\nnew\n"
        assert host.run("su", "bob", "-c", "cat /srv/data/sub/f", check=False).returncode == 1
        host.sh("rm /srv/data/sub/new")
        for kind in ("user", "default:user"):
            driver.apply("acl.absent", "/srv/data", acl_type=kind, acl_name="alice", recurse=True)
        assert not {each for each in entries(host, "/srv/data/sub/f") if "alice" in each}
        assert host.run("su", "alice", "-c", "cat /srv/data/sub/f", check=False).returncode == 1
        driver.apply("acl.list_present", "/srv/data", acl_type="group", acl_names=["alice", "bob"], perms="rwx")
        assert {"group:alice:rwx", "group:bob:rwx", "mask::rwx"} <= entries(host, "/srv/data")

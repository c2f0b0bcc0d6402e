"""Answers to debconf's questions with the real tool: before an installation, and while another process uses debconf."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lab
import pytest
from driver import Driver, Failed
from lab import Host
from packages import offer

pytestmark = pytest.mark.lab

TEMPLATES = (
    "Template: asks/host\nType: string\nDescription: The host\n\nTemplate: asks/pass\nType: password\nDescription: It\n"
)
CONFIG = ". /usr/share/debconf/confmodule\ndb_input high asks/host || true\ndb_go\n"
SETUP = ". /usr/share/debconf/confmodule\ndb_get asks/host\necho $RET >/etc/asks.conf\ndb_stop\n"


@pytest.fixture(scope="module")
def host(run: lab.Run, layers: tuple[Path, ...]) -> Iterator[Host]:
    """A host with debconf."""
    host = run.host("debconf", layers=layers)
    try:
        yield host
    finally:
        host.down()


def test_the_answer_is_used_by_the_installation(host: Host):
    """The installation asks no question, and the package uses the declared answer."""
    offer(
        host,
        "asks",
        scripts={"config": CONFIG, "postinst": SETUP, "templates": TEMPLATES},
        control="Depends: debconf\n",
    )
    with Driver(host) as driver:
        driver.apply("debconf.set", "asks", data={"asks/host": {"type": "string", "value": "mail.example.org"}})
    host.sh("tail -n +2 /root/asks/DEBIAN/templates >/root/t && mv /root/t /root/asks/DEBIAN/templates")
    host.sh("dpkg-deb -b /root/asks /root/asks.deb >/dev/null; DEBIAN_FRONTEND=noninteractive dpkg -i /root/asks.deb")
    assert host.read("/etc/asks.conf") == "mail.example.org\n"


@contextmanager
def holding(host: Host) -> Iterator[None]:
    """Lock the database, as debconf does while a package is configured."""
    lock = "/var/cache/debconf/config.dat"
    holder = host.spawn("flock", "--no-fork", lock, "sleep", "1000")
    lab.wait_for("the lock", lambda: host.run("flock", "--nonblock", lock, "true", check=False).returncode)
    try:
        yield
    finally:
        holder.terminate()
        holder.wait()


def test_a_lock_is_waited_for(host: Host):
    """While another process uses debconf, the attempt fails, and another attempt follows."""
    declared = {"data": {"other/host": {"type": "string", "value": "x"}}}
    with Driver(host) as driver:
        with holding(host):
            with pytest.raises(Failed, match="is locked by another process") as caught:
                driver.apply("debconf.set", "other", **declared)
            assert caught.value.kind == "Temporary"
        assert driver.apply("debconf.set", "other", **declared).changes == {"other/host": "x"}

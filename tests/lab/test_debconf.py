"""debconf's answers with the real tool: before an installation, and with a running agent that repairs damage."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lab
import pytest
from driver import Driver, Failed
from lab import Host
from packages import offer
from repairs import kept, repair_times

pytestmark = pytest.mark.lab

TEMPLATES = (
    "Template: asks/host\nType: string\nDescription: The host\n\nTemplate: asks/pass\nType: password\nDescription: It\n"
)
CONFIG = ". /usr/share/debconf/confmodule\ndb_input high asks/host || true\ndb_go\n"
SETUP = ". /usr/share/debconf/confmodule\ndb_get asks/host\necho $RET >/etc/asks.conf\ndb_stop\n"
STATES = """\
asks:
  debconf.set:
    - data:
        asks/host: {type: string, value: mail.example.org}
        asks/pass: {type: password, value: hunter2}
"""
SHOW = "echo get asks/{} | debconf-communicate"


@pytest.fixture(scope="module")
def host(run: lab.Run, layers: tuple[Path, ...]) -> Iterator[Host]:
    """Return a host on which an agent keeps two answers."""
    with kept(run, layers, STATES) as host:
        yield host


def test_the_answer_is_used_by_the_installation(host: Host):
    """The package asks nothing, and takes the declared answer."""
    offer(
        host,
        "asks",
        scripts={"config": CONFIG, "postinst": SETUP, "templates": TEMPLATES},
        control="Depends: debconf\n",
    )
    host.sh("tail -n +2 /root/asks/DEBIAN/templates >/root/t && mv /root/t /root/asks/DEBIAN/templates")
    host.sh("dpkg-deb -b /root/asks /root/asks.deb >/dev/null; DEBIAN_FRONTEND=noninteractive dpkg -i /root/asks.deb")
    assert host.read("/etc/asks.conf") == "mail.example.org\n"


@pytest.mark.parametrize("question", ["host", "pass"])
def test_a_running_agent_repairs(host: Host, question: str):
    """The event of the database starts the repair; a password is never in the log or among the arguments."""
    value = {"host": "mail.example.org", "pass": "hunter2"}[question]
    file = {"host": "config", "pass": "passwords"}[question]
    damage = f"echo set asks/{question} other | debconf-communicate >/dev/null"
    repair_times(host, damage, f"{value!r} in text('/var/cache/debconf/{file}.dat')")
    assert host.sh(SHOW.format(question)).strip() == f"0 {value}"
    assert "hunter2" not in host.sh("journalctl --no-pager --all; holdfast status; holdfast history")


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


def test_a_plan_changes_nothing_and_a_lock_is_waited_for(host: Host):
    """A question that the agent does not keep."""
    declared = {"data": {"other/host": {"type": "string", "value": "x"}}}
    with Driver(host) as driver:
        before = host.contents()
        assert driver.plan("debconf.set", "other", **declared).changes == {"other/host": "x"}
        own = ("/root/", "/opt/holdfast", "/var/log/journal", "/var/lib/holdfast")
        assert {path for path, _ in host.contents().items() ^ before.items() if not path.startswith(own)} == set()
        with holding(host):
            with pytest.raises(Failed, match="is locked by another process") as caught:
                driver.apply("debconf.set", "other", **declared)
            assert caught.value.kind == "Temporary"
        assert driver.apply("debconf.set", "other", **declared).changes == {"other/host": "x"}
        assert driver.apply("debconf.set", "other", **declared).right
        watch = driver.watch("debconf.set", "other", **declared)
        watch.quiet()
        host.sh("echo set other/host y | debconf-communicate")
        watch.wait()

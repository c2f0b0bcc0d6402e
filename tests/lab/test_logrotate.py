"""Settings of logrotate with the real tool, and with a running agent that repairs damage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lab
import pytest
from driver import Driver, Failed
from lab import Host
from repairs import kept, repair_times

pytestmark = pytest.mark.lab

STATES = """\
four weeks:
  logrotate.set:
    - key: rotate
    - value: 5
logins:
  logrotate.set:
    - key: /var/log/lamp.log
    - value: rotate
    - setting: 12
"""
INCLUDED = "/etc/logrotate.d/lamp"
LAMP = "/var/log/lamp.log {\n    missingok\n    rotate 1\n    postrotate\n        rotate 99\n    endscript\n}\n"
PREPARE = f"apt-get -qq install -y logrotate >/dev/null 2>&1; printf '%s' '{LAMP}' >{INCLUDED}; date >/var/log/lamp.log"


@pytest.fixture(scope="module")
def host(run: lab.Run, layers: tuple[Path, ...]) -> Iterator[Host]:
    """Return a host on which an agent keeps two settings."""
    with kept(run, layers, STATES, PREPARE) as host:
        yield host


def test_a_running_agent_repairs(host: Host):
    """In the main file and in an included one; logrotate then does what the settings say."""
    assert host.read(INCLUDED) == LAMP.replace("rotate 1\n", "rotate 12\n")
    repair_times(
        host, "sed -i 's/^rotate 5/rotate 1/' /etc/logrotate.conf", "'\\nrotate 5\\n' in text('/etc/logrotate.conf')"
    )
    repair_times(host, f"sed -i /rotate.12/d {INCLUDED}", f"'rotate 12' in text('{INCLUDED}')")
    told = host.sh("logrotate --debug /etc/logrotate.conf 2>&1")
    assert "(12 rotations)" in told
    assert "error:" not in told


def test_logrotate_refuses_and_a_plan_changes_nothing(host: Host):
    """What logrotate would not read is not put in place."""
    with Driver(host) as driver:
        before = host.contents()
        planned = driver.plan("logrotate.set", "x", key="/var/log/new.log", value="missingok", setting=True)
        assert planned.changes == {"old": False, "new": True}
        own = ("/root/", "/opt/holdfast", "/var/log/journal", "/var/lib/holdfast")
        assert {path for path, _ in host.contents().items() ^ before.items() if not path.startswith(own)} == set()
        for arguments in ({"key": "create", "value": "nonsense here too much"}, {"key": "nosuchdirective", "value": 3}):
            with pytest.raises(Failed, match="logrotate refuses the change: "):
                driver.apply("logrotate.set", "x", **arguments)
        declared = {"key": "/var/log/new.log", "value": "missingok", "setting": True}
        assert not driver.apply("logrotate.set", "x", **declared).right
        assert driver.apply("logrotate.set", "x", **declared).right
        watch = driver.watch("logrotate.set", "x", **declared)
        watch.quiet()
        host.sh("echo '# by hand' >>/etc/logrotate.conf")
        watch.wait()
        assert host.run("logrotate", "--debug", "/etc/logrotate.conf").returncode == 0

"""Settings of logrotate with the real tool."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import tools
from driver import Driver, Failed
from lab import Host, Run

pytestmark = pytest.mark.lab

INCLUDED = "/etc/logrotate.d/lamp"
LAMP = "/var/log/lamp.log {\n    missingok\n    rotate 1\n    postrotate\n        rotate 99\n    endscript\n}\n"
PREPARE = f"printf '%s' '{LAMP}' >{INCLUDED}; date >/var/log/lamp.log"


@pytest.fixture(scope="module")
def host(run: Run, layers: tuple[Path, ...]) -> Iterator[Host]:
    """A host with a log file."""
    with tools.equipped(run, layers, PREPARE) as host:
        yield host


def test_logrotate_does_what_is_declared_and_refuses_the_rest(host: Host):
    """A setting in an included file counts. A setting that logrotate would refuse is not put in place."""
    with Driver(host) as driver:
        driver.apply("logrotate.set", "x", key="/var/log/lamp.log", value="rotate", setting=12)
        assert host.read(INCLUDED) == LAMP.replace("rotate 1\n", "rotate 12\n")
        told = host.sh("logrotate --debug /etc/logrotate.conf 2>&1")
        assert "(12 rotations)" in told
        assert "error:" not in told
        for arguments in ({"key": "create", "value": "nonsense here too much"}, {"key": "nosuchdirective", "value": 3}):
            with pytest.raises(Failed, match="logrotate refuses the change: "):
                driver.apply("logrotate.set", "x", **arguments)
        driver.apply("logrotate.set", "x", key="/var/log/new.log", value="missingok", setting=True)
        assert host.run("logrotate", "--debug", "/etc/logrotate.conf").returncode == 0

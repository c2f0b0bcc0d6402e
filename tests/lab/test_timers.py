"""Timers and drop-in files with a real systemd, which a running agent repairs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import lab
import pytest
from lab import Host

pytestmark = pytest.mark.lab

STATES = """\
mark:
  systemd_unit.timer:
    - contents: |
        [Timer]
        OnActiveSec=0
        OnUnitActiveSec=1h
        AccuracySec=1us
        [Install]
        WantedBy=timers.target
    - service: |
        [Service]
        Type=oneshot
        ExecStart=/bin/touch /run/marked
cron.service:
  systemd_unit.dropin:
    - file: limits
    - contents: |
        [Service]
        LimitNOFILE=4242
    - running: true
"""
DROPIN = "/etc/systemd/system/cron.service.d/limits.conf"


@pytest.fixture(scope="module")
def timed(run: lab.Run, layers: tuple[Path, ...]) -> Iterator[Host]:
    """A host whose agent keeps a timer and a drop-in file."""
    host = run.host("timed", layers=layers)
    try:
        host.run("holdfast", "install")
        host.write("/etc/holdfast/agent.yaml", "engine: {recheck: 0}\n")
        host.write("/etc/holdfast/states/site.sls", STATES)
        host.wait_journal(lambda entry: entry.get("RESOURCE") == "systemd_unit.dropin[cron.service]", unit="holdfast")
        quiet(host)
        yield host
    finally:
        host.down()


def quiet(host: Host) -> None:
    """Wait until everything is as declared."""
    lab.wait_for("the agent has converged", lambda: "converged" in host.run("holdfast", "status", check=False).stdout)


def shown(host: Host, unit: str, name: str) -> str:
    """Return a property of a unit."""
    return host.run("systemctl", "show", "-P", name, unit).stdout.strip()


def test_the_timer_runs_and_starts_its_service(timed: Host) -> None:
    """The timer is also enabled for the boot. A second check finds nothing to do."""
    assert shown(timed, "mark.timer", "ActiveState") == "active"
    assert shown(timed, "mark.timer", "UnitFileState") == "enabled"
    lab.wait_for("the service has run", lambda: timed.run("test", "-e", "/run/marked", check=False).returncode == 0)
    timed.run("holdfast", "recheck")
    quiet(timed)


def test_a_changed_service_is_read_again(timed: Host) -> None:
    """The service is restored even if systemd has read the change already."""
    path = "/etc/systemd/system/mark"
    timed.sh(f"sed -i s/marked/other/ {path}.service; systemctl daemon-reload")
    lab.wait_for("systemd has the declared service", lambda: "/run/marked" in shown(timed, "mark.service", "ExecStart"))


def test_a_drop_in_applies_to_the_unit_that_runs(timed: Host) -> None:
    """The unit is restarted when the file is changed."""
    assert shown(timed, "cron", "LimitNOFILE") == "4242"
    before = shown(timed, "cron", "MainPID")
    mark = time.time()
    timed.sh(f"sed -i s/4242/17/ {DROPIN}")
    timed.wait_journal(
        lambda entry: entry.get("RESOURCE") == "service.running[cron.service/service]" and "CHANGES" in entry,
        unit="holdfast", since=mark,
    )  # fmt: skip
    quiet(timed)
    assert shown(timed, "cron", "LimitNOFILE") == "4242"
    assert shown(timed, "cron", "MainPID") != before

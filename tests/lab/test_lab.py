"""The lab itself keeps the promises that other tests rely on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from lab import Host, Run
from outside import STATE, wait_for

pytestmark = pytest.mark.lab


def test_a_host_is_a_debian_with_systemd_and_holdfast(host: Host):
    """A host runs systemd without failed units, and its environment can import Holdfast."""
    assert host.run("ps", "-o", "comm=", "1").stdout.strip() == "systemd"
    assert host.run("systemctl", "--failed", "--no-legend").stdout == ""
    assert "0." in host.run("/opt/holdfast/bin/python", "-c", "import holdfast; print(holdfast.__version__)").stdout


def test_files_survive_a_reboot_and_a_power_cut(host: Host):
    """The disk is kept when the host reboots from inside, and when it loses its power."""
    host.write("/root/note", "kept\n", 0o600)
    host.reboot()

    assert host.read("/root/note") == "kept\n"

    host.cut_power()
    host.start()

    assert host.sh("cat /root/note; stat -c %a /root/note") == "kept\n600\n"
    assert "/root/note" in host.changed()


def test_a_host_that_does_not_boot_is_taken_down(run: Run) -> None:
    """The error contains the console, and the next test can boot a host of that name.

    It takes the timeout of one second.
    """
    with pytest.raises(TimeoutError, match="broken has booted"):
        run.host("broken", init="/usr/bin/true", timeout=1)

    assert "broken" not in run.hosts
    assert not (run.directory / "broken").exists()


def test_a_failure_does_not_wait_for_a_command(host: Host) -> None:
    """The error of a block is raised at once, although the command of the block would run for hours."""
    with pytest.raises(ZeroDivisionError), host.spawn("sleep", "10000") as process:
        raise ZeroDivisionError
    assert process.returncode != 0


def test_the_journal_can_be_awaited(host: Host):
    """An entry that is written later is found, with its fields."""
    host.spawn("systemd-run", "--unit=late", "--quiet", "sh", "-c", "sleep 0.2; echo hello; echo '<4>careful'").wait()

    entry = host.wait_journal(lambda entry: entry["MESSAGE"] == "careful", unit="late.service")

    assert entry["PRIORITY"] == "4"


def test_the_web_server_comes_from_the_local_repository(host: Host):
    """The web server is installed without a network, and can be reached from outside."""
    host.sh("DEBIAN_FRONTEND=noninteractive apt-get -qq install nginx-light")

    assert "Welcome to nginx" in host.http("/")

    host.plug(False)
    with pytest.raises(OSError, match="timed out"):
        host.http("/", timeout=0.5)


def test_hosts_see_each_other(run: Run, host: Host):
    """Two hosts of one run are in one network."""
    other = run.host("other")
    try:
        host.run("ping", "-c1", "-W2", other.address)
    finally:
        other.down()


def test_nothing_is_left_of_a_killed_test_process(run: Run):
    """Guests end with the process that booted them, however it ends, and the next process removes the rest."""
    script = textwrap.dedent("""
        import lab
        run = lab.Run()
        print(run.number, run.host().pid, flush=True)
        input()
    """)
    driver = subprocess.Popen(
        [sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with driver:
        number, guest = map(int, driver.stdout.readline().split())
        driver.send_signal(signal.SIGKILL)
    wait_for(
        "the end of the guest",
        lambda: not Path(f"/proc/{guest}").exists() or "Z" in Path(f"/proc/{guest}/stat").read_text().split()[2],
    )

    after = Run()
    try:
        assert not (STATE / str(number)).exists()
        assert not Path(f"/sys/class/net/hflab{number}").exists()
    finally:
        after.close()

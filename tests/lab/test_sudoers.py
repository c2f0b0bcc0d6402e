"""Rules for the real sudo: a user may run exactly what is declared, and no wrong rule is ever put in place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import tools
from driver import Driver, Failed
from lab import Host, Run

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def host(run: Run, layers: tuple[Path, ...]) -> Iterator[Host]:
    """A host with a user."""
    with tools.equipped(run, layers, "useradd -m alice") as host:
        yield host


def may(host: Host, command: str) -> bool:
    """Return whether alice may run a command as root, without a password."""
    return host.run("su", "alice", "-c", f"sudo -n {command}", check=False).returncode == 0


def test_a_user_may_run_what_is_declared(host: Host):
    """A user may run the declared command, and no other."""
    rules = "alice ALL = (root) NOPASSWD: /bin/true"
    with Driver(host) as driver:
        assert not may(host, "/bin/true")
        assert not driver.apply("sudoers.include", "operators", contents=rules).right
        assert host.sh("stat -c '%U:%G %a' /etc/sudoers.d/operators") == "root:root 440\n"
        assert may(host, "/bin/true")
        assert not may(host, "/bin/cat /etc/shadow")


def test_wrong_rules_never_reach_sudo(host: Host):
    """The kind refuses them, and so does `check_cmd` of file.managed, which formulas use; the former file stays."""
    with Driver(host) as driver:
        driver.apply("sudoers.include", "operators", contents="User_Alias A = alice")
        for contents in ("alice ALL = (root", "alice ALL = NOPASSWD /bin/x\n\0"):
            with pytest.raises(Failed, match=r"cannot put /etc/sudoers.d/operators in place: visudo: "):
                driver.apply("sudoers.include", "operators", contents=contents)
        wrong = r"cannot put /etc/sudoers.d/second in place: visudo: /etc/sudoers.d/second:1:\d+: .*already defined"
        with pytest.raises(Failed, match=wrong):
            driver.apply("sudoers.include", "second", contents="User_Alias A = bob")
        with pytest.raises(Failed, match=r"check_cmd '/usr/sbin/visudo -c -f' refuses the new content"):
            driver.apply("file.managed", "/etc/sudoers", contents="nonsense here", check_cmd="/usr/sbin/visudo -c -f")
    assert host.read("/etc/sudoers.d/operators") == "User_Alias A = alice\n"
    assert host.sh("ls /etc/sudoers.d").split() == ["README", "operators"]
    assert host.run("visudo", "-c").returncode == 0


def test_a_kill_during_the_check_leaves_no_wrong_rules(host: Host):
    """The new file contradicts another one.

    The agent is killed during its last check, before the file is put in place.
    """
    host.write("/etc/holdfast/states/site.sls", "second:\n  sudoers.include:\n    - contents: User_Alias A = bob\n")
    host.sh("mv /usr/sbin/visudo /root/visudo")
    killer = 'test $(wc -l </root/calls) = 2 && pkill -KILL -f "holdfast apply"'
    host.write("/usr/sbin/visudo", f'#!/bin/sh\necho "$@" >>/root/calls\n{killer}\nexec /root/visudo "$@"\n', 0o755)
    assert host.run("holdfast", "apply", check=False).returncode not in {0, 1, 2}
    host.sh("mv /root/visudo /usr/sbin/visudo")
    assert [line.split()[:2] for line in host.read("/root/calls").splitlines()] == [["-c"], ["-c", "-f"]]
    assert host.sh("ls /etc/sudoers.d").split() == ["README", "operators"]
    assert host.run("visudo", "-c").returncode == 0


def test_a_directory_that_sudo_does_not_include_is_told(host: Host):
    """The file is put in place, and the log says that it has no effect."""
    host.sh("mkdir /etc/other.d")
    with Driver(host) as driver:
        assert not driver.apply("sudoers.include", "found", contents="# nothing").right
        driver.apply("sudoers.include", "lost", contents="alice ALL = ALL", directory="/etc/other.d")
        driver.logged("sudo does not read the file")
        assert [line for line in driver.log if "does not read" in line and "/etc/sudoers.d/found" in line] == []
